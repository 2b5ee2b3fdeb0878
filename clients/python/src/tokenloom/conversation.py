"""The synchronous conversation: many operations of one session on one stream, pipelined.

A thread reads the stream, so that a wait can be broken off (by Ctrl-C, say) and the stream goes on. Knows nothing of
what operations mean.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

import grpc

from tokenloom import _session_calls as calls
from tokenloom import _streams as streams
from tokenloom import _tensor_calls as tensor_calls
from tokenloom import types
from tokenloom._call import Call, method
from tokenloom._channel import Methods
from tokenloom._exchange import Exchange, LogitsHook, Operation
from tokenloom._session import SessionView
from tokenloom.errors import Cancelled, TokenloomError, from_stream_error
from tokenloom.v1 import generator_pb2 as pb

T = TypeVar("T")
P = ParamSpec("P")


class Reply(Generic[T]):
    """The coming reply of an operation."""

    def __init__(self, conversation: Conversation, operation: Operation[T]) -> None:
        self._conversation = conversation
        self._operation = operation

    def result(self) -> T:
        """Wait for the result. Raises the operation's error; StreamLost where the stream broke."""
        self._conversation._wait(lambda: self._operation.is_done)
        return self._operation.result()


class StepsReply(Reply[types.Generated]):
    """The coming reply of a generation. Iterating gives its steps as they come; `result` what it came to in all."""

    def __iter__(self) -> Iterator[types.Step]:
        operation = self._operation
        while True:
            self._conversation._wait(lambda: bool(operation.steps) or operation.is_done)
            if not operation.steps:
                break
            step = operation.steps.popleft()
            self._conversation._took(operation)
            yield step
        if operation.error is not None:
            raise operation.error

    def result(self) -> types.Generated:
        """Wait for the end. Its rows have the tokens of all steps, iterated over or not."""
        for _ in self:
            pass
        return self._operation.result()


def _pipelined(build: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], Reply[T]]:
    return method(build, lambda conversation, call: Reply(conversation, conversation._start(call)))


def _generate(conversation: Conversation, streamed: streams.Streamed) -> StepsReply:
    return StepsReply(conversation, conversation._start(streamed.call, streamed.hook, streamed.credits))


class Conversation:
    """A stream attached to a session. Methods send their operation at once and return a Reply; operations run in the
    order they were sent, and a failed one leaves the stream open. Logits hooks are called in a thread of their own.

    Use it as a context manager. Leaving it interrupts a running generation and detaches; the session lives on. Several
    threads may use one conversation.
    """

    def __init__(self, session: SessionView, methods: Methods, metadata: Any) -> None:
        self._session = session
        self._exchange = Exchange(session._absorb)
        self._outgoing: SimpleQueue[pb.ConverseRequest | None] = SimpleQueue()
        self._news = threading.Condition()  # Guards the exchange; a logits hook, called while it is held, may send.
        self._incoming: Any = methods.converse(iter(self._outgoing.get, None), metadata=metadata)
        self._start(Call(pb.AttachSessionRequest(), lambda reply: None))
        threading.Thread(target=self._read, name=f"tokenloom-{session.id}", daemon=True).start()

    append_tokens = _pipelined(calls.append_tokens)
    append_text = _pipelined(calls.append_text)
    append_messages = _pipelined(calls.append_messages)
    generate_next_token = _pipelined(calls.generate_next_token)
    generate_tokens = method(streams.generate_tokens, _generate)
    get_next_tokens = _pipelined(calls.get_next_tokens)
    get_sequence = _pipelined(calls.get_sequence)
    get_text = _pipelined(calls.get_text)
    get_logits = _pipelined(tensor_calls.get_logits)
    set_logits = _pipelined(tensor_calls.set_logits)
    rewind_to = _pipelined(calls.rewind_to)
    set_inputs = _pipelined(tensor_calls.set_inputs)
    set_model_input = _pipelined(tensor_calls.set_model_input)
    get_input = _pipelined(tensor_calls.get_input)
    get_output = _pipelined(tensor_calls.get_output)
    set_active_adapter = _pipelined(calls.set_active_adapter)
    set_runtime_option = _pipelined(calls.set_runtime_option)
    interrupt = _pipelined(calls.interrupt)

    def close(self) -> None:
        """Interrupt a running generation, detach, and wait until the server has noticed."""
        if self._exchange.is_generating:
            self.interrupt()
        self._outgoing.put(None)
        try:
            self._wait(lambda: self._exchange.has_ended)
        except BaseException:
            self._incoming.cancel()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, call: Call[T], hook: LogitsHook | None = None, credits: int | None = None) -> Operation[T]:
        with self._news:
            message, operation = self._exchange.start(self._session._prepare(call), hook, credits)
            self._outgoing.put(message)
        return operation

    def _took(self, operation: Operation[Any]) -> None:
        with self._news:
            for message in self._exchange.took(operation):
                self._outgoing.put(message)

    def _wait(self, until: Callable[[], bool]) -> None:
        """Wait until then. The end of the stream fails what is pending, so this always ends."""
        with self._news:
            self._news.wait_for(until)

    def _read(self) -> None:
        try:
            for message in self._incoming:
                with self._news:
                    for answer in self._exchange.receive(message):
                        self._outgoing.put(answer)
                    self._news.notify_all()
            end: TokenloomError = Cancelled("the conversation is closed")
        except grpc.RpcError as error:
            end = from_stream_error(error)
        with self._news:
            self._exchange.fail(end)
            self._news.notify_all()
