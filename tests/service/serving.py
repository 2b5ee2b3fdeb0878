"""A real server on loopback, and small helpers to talk to it."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from service.config import ServerConfig
from service.server import Server
from service.tracing import Tracing
from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import generator_pb2_grpc, models_pb2_grpc, tokenizer_pb2_grpc, types_pb2

MODELS = Path(__file__).parents[1] / "data" / "models"
ADAPTERS = MODELS / "tiny-llama-lora" / "adapters"
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
TIMEOUT = 20.0
"""Seconds after which a call that should answer has failed its test."""


class Served:
    """A running server and stubs to it."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self.loop = loop
        self.target = f"127.0.0.1:{server.port}"
        limits = [
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self.channel = grpc.insecure_channel(self.target, limits)
        self.generator = generator_pb2_grpc.GeneratorStub(self.channel)
        self.models = models_pb2_grpc.ModelsStub(self.channel)
        self.tokenizer = tokenizer_pb2_grpc.TokenizerStub(self.channel)

    @property
    def engine(self) -> Any:
        """The default model's engine."""
        return self.server.registry.engine()

    def create(self, *rows: list[int], **fields: Any) -> str:
        """A new session with these tokens; its id."""
        request = pb.CreateSessionRequest(inputs=[tokens(row) for row in rows], **fields)
        return self.generator.CreateSession(request, timeout=TIMEOUT).state.session_id

    def length(self, session_id: str) -> int:
        """The session's length, through its queue: after everything that was asked before."""
        request = pb.GetTokenCountRequest(session_id=session_id)
        return self.generator.GetTokenCount(request, timeout=TIMEOUT).state.length

    def sequence(self, session_id: str, row: int = 0) -> list[int]:
        request = pb.GetSequenceRequest(session_id=session_id, row=row)
        return list(self.generator.GetSequence(request, timeout=TIMEOUT).token_ids)

    def generate(self, session_id: str, steps: int, **fields: Any) -> pb.GenerateTokensResponse:
        request = pb.GenerateTokensRequest(session_id=session_id, steps=steps, **fields)
        return self.generator.GenerateTokens(request, timeout=TIMEOUT)

    def close(self, session_id: str) -> None:
        self.generator.CloseSession(pb.CloseSessionRequest(session_id=session_id), timeout=TIMEOUT)

    def converse(self) -> Stream:
        return Stream(self.generator)


@contextmanager
def serving(tracing: Tracing | None = None, **settings: Any) -> Iterator[Served]:
    """A server of its own, in a thread of its own."""
    defaults: dict[str, Any] = {
        "port": 0,
        "threads": 1,
        "models": {"tiny-llama": ""},
        "model_directories": (MODELS,),
        "adapter_directories": (ADAPTERS,),
        "lame_duck": 0.0,
    }
    config = ServerConfig(**(defaults | settings))
    started: queue.SimpleQueue[Any] = queue.SimpleQueue()

    async def run() -> None:
        server, stopping = Server(config, tracing=tracing), asyncio.Event()
        await server.start()
        loop = asyncio.get_running_loop()
        started.put((server, loop, lambda: loop.call_soon_threadsafe(stopping.set)))
        await stopping.wait()
        await server.stop()

    def run_thread() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            started.put(error)

    thread = threading.Thread(target=run_thread)
    thread.start()
    outcome = started.get(timeout=60)
    if isinstance(outcome, BaseException):
        raise outcome
    server, loop, stop = outcome
    served = Served(server, loop)
    try:
        yield served
    finally:
        served.channel.close()
        stop()
        thread.join(timeout=30)
        assert not thread.is_alive(), "the server did not stop"


class Stream:
    """A Converse stream, by hand."""

    def __init__(self, generator: Any) -> None:
        self._requests: queue.SimpleQueue[pb.ConverseRequest | None] = queue.SimpleQueue()
        self.call = generator.Converse(iter(self._requests.get, None), timeout=3 * TIMEOUT)
        self.session_id = ""
        self._last_id = 0

    def send(self, operation_id: int | None = None, credits: int | None = None, **operation: Any) -> int:
        """Sends an operation; its id."""
        if operation_id is None:
            self._last_id += 1
            operation_id = self._last_id
        self._requests.put(pb.ConverseRequest(operation_id=operation_id, credits=credits, **operation))
        return operation_id

    def receive(self) -> pb.ConverseResponse:
        """The next message. Raises grpc.RpcError, and StopIteration at the end."""
        return next(self.call)

    def finals(self, count: int) -> list[pb.ConverseResponse]:
        """The last messages of the next operations."""
        found: list[pb.ConverseResponse] = []
        while len(found) < count:
            message = self.receive()
            if message.final:
                found.append(message)
        return found

    def do(self, **operation: Any) -> pb.ConverseResponse:
        """Sends an operation; its last message."""
        operation_id = self.send(**operation)
        (final,) = self.finals(1)
        assert final.operation_id == operation_id
        return final

    def create(self, *rows: list[int], **fields: Any) -> str:
        """Creates the stream's session; its id."""
        final = self.do(create=pb.CreateSessionRequest(inputs=[tokens(row) for row in rows], **fields))
        assert final.WhichOneof("result") == "create", final.error
        self.session_id = final.create.state.session_id
        return self.session_id

    def attach(self, session_id: str) -> pb.ConverseResponse:
        return self.do(attach=pb.AttachSessionRequest(session_id=session_id))

    def half_close(self) -> None:
        """Says that nothing more is to come."""
        self._requests.put(None)

    def rest(self) -> list[pb.ConverseResponse]:
        """Everything that still comes, to the stream's end."""
        return list(self.call)

    def cancel(self) -> None:
        """Goes away."""
        self.call.cancel()
        self._requests.put(None)


def tokens(ids: list[int], row: int | None = None, mask: list[bool] | None = None) -> types_pb2.RowInput:
    """Content for a row."""
    return types_pb2.RowInput(row=row, tokens=types_pb2.TokenIds(ids=ids, attention_mask=mask))


def tensor(array: Any) -> types_pb2.Tensor:
    """An array as a message, by hand."""
    kinds = {"float32": 1, "float16": 2, "int32": 3, "int64": 4, "bool": 5}
    return types_pb2.Tensor(dtype=kinds[str(array.dtype)], shape=array.shape, data=array.tobytes())


class Refusal:
    """What a failed call said."""

    def __init__(self, error: grpc.RpcError) -> None:
        self.code: grpc.StatusCode = error.code()
        self.message: str = error.details()
        self.status: status_pb2.Status = rpc_status.from_call(error) or status_pb2.Status()

    def _detail(self, kind: Any) -> Any:
        for detail in self.status.details:
            if detail.Is(kind.DESCRIPTOR):
                found = kind()
                detail.Unpack(found)
                return found
        return kind()

    @property
    def info(self) -> error_details_pb2.ErrorInfo:
        return self._detail(error_details_pb2.ErrorInfo)

    @property
    def reason(self) -> str:
        return self.info.reason

    @property
    def fields(self) -> list[str]:
        return [violation.field for violation in self._detail(error_details_pb2.BadRequest).field_violations]

    @property
    def retry_seconds(self) -> float:
        return self._detail(error_details_pb2.RetryInfo).retry_delay.ToTimedelta().total_seconds()


def refused(call: Callable[..., Any], request: Any) -> Refusal:
    """The refusal of a unary call that must fail."""
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=TIMEOUT)
    return Refusal(caught.value)


def wait_until(condition: Callable[[], bool], what: str, timeout: float = TIMEOUT) -> None:
    """Looks until the condition holds. For what nothing announces, such as a count going back."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        threading.Event().wait(0.002)
