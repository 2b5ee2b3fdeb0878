"""The asyncio client: as `tokenloom.client`, to be awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import grpc

from tokenloom import _client_calls as calls
from tokenloom import types
from tokenloom._call import Call, Script, method, play_async
from tokenloom._channel import DEFAULT_TARGET, Homes, Methods, channel_options
from tokenloom._oneshot import OneShot
from tokenloom._session_calls import Opened
from tokenloom.aio.session import Session
from tokenloom.errors import Cancelled, from_rpc_error
from tokenloom.v1 import generator_pb2 as pb

T = TypeVar("T")
P = ParamSpec("P")


class TokenStream(OneShot, AsyncIterator[types.Token]):
    """Tokens of a one-shot generation as they come, of any row. `summaries` has a row once it has finished."""

    def __init__(self, call: Any) -> None:
        super().__init__()
        self._call = call
        self._is_cancelled = False

    async def __anext__(self) -> types.Token:
        while not self._tokens:
            try:
                reply = await self._call.read()
            except grpc.RpcError as error:
                raise from_rpc_error(error) from error
            except asyncio.CancelledError:
                if not self._is_cancelled:
                    raise  # It is the waiting task that was cancelled.
                raise Cancelled("the generation was cancelled") from None
            if reply is grpc.aio.EOF:
                raise StopAsyncIteration
            self._receive(reply)
        return self._tokens.popleft()

    async def results(self) -> list[types.RowSummary]:
        """Wait for the end; what each row came to, by row."""
        async for _ in self:
            pass
        return self._results()

    def cancel(self) -> None:
        """End the generation; iterating raises Cancelled."""
        self._is_cancelled = True
        self._call.cancel()


def _operation(build: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    return method(build, lambda client, call: client._run(call))


def _play(client: Client, script: Script[T]) -> Awaitable[T]:
    return play_async(script, client._run)


async def _open(client: Client, call: Call[Opened]) -> Session:
    return Session(client, await client._run(call))


def _generate(client: Client, request: pb.GenerateRequest) -> TokenStream:
    return TokenStream(client._methods.generate(request, metadata=client._metadata))


async def _chat(client: Client, request: pb.GenerateRequest) -> AsyncGenerator[str, None]:
    stream = _generate(client, request)
    try:
        async for token in stream:
            if token.text:
                yield token.text
    finally:
        stream.cancel()


class Client:
    """A connection to a server, for one event loop.

    target: "host:port", or any gRPC name. credentials: of a TLS channel; None for plain text.
    timeout: seconds that each call may take, retries included, else DeadlineExceeded; None for no limit. Streams have
    none. metadata: sent with every call. options: further gRPC channel options.

    Nothing is sent before the first call. Reads, and operations that carry a request id (all that change a session),
    are sent again where no server answered (Unavailable); the server never does one twice.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        timeout: float | None = None,
        metadata: Sequence[tuple[str, str]] = (),
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        self.target = target
        self.timeout = timeout
        self._metadata = tuple(metadata)
        every = channel_options(options)
        self._channel = (
            grpc.aio.secure_channel(target, credentials, every)
            if credentials
            else grpc.aio.insecure_channel(target, every)
        )
        self._methods = Methods(self._channel)
        self._homes = Homes()

    create_session = method(calls.create_session, _open)
    attach = method(calls.attach, _open)
    list_sessions = method(calls.list_sessions, _play)
    close_session = _operation(calls.close_session)
    generate = method(calls.generate, _generate)
    chat = method(calls.chat, _chat)
    server_info = _operation(calls.server_info)
    list_models = method(calls.list_models, _play)
    get_model = _operation(calls.get_model)
    load_model = _operation(calls.load_model)
    unload_model = _operation(calls.unload_model)
    list_adapters = method(calls.list_adapters, _play)
    load_adapter = _operation(calls.load_adapter)
    unload_adapter = _operation(calls.unload_adapter)
    encode = _operation(calls.encode)
    encode_batch = _operation(calls.encode_batch)
    decode = _operation(calls.decode)
    decode_batch = _operation(calls.decode_batch)
    apply_chat_template = _operation(calls.apply_chat_template)
    get_token_ids = _operation(calls.get_token_ids)

    async def close(self) -> None:
        """Close the connection. Sessions stay in the server until they idle out."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: Call[T]) -> T:
        return call.decode(await self._ask(call))

    async def _ask(self, call: Call[Any]) -> Any:
        metadata = self._metadata + self._homes.metadata_of(call.request)
        try:
            answering = self._methods.unary[call.request.DESCRIPTOR.name](
                call.request, timeout=self.timeout, metadata=metadata, wait_for_ready=call.wait_for_ready
            )
            reply = await answering
            self._homes.learn(call.request, reply, await answering.initial_metadata())
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        return reply
