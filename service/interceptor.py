"""What happens around every call to our services: requests are parsed, errors become statuses, the call is logged.

Parsing happens here so that bytes that are no message are INVALID_ARGUMENT; gRPC itself would make UNKNOWN of them.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from google.rpc import code_pb2

from runtime.errors import InvalidArgument
from service.errors import call_status, operation_error
from service.logging import current_call

log = logging.getLogger(__name__)

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Parse: TypeAlias = Callable[[bytes], Any]


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Wraps the handlers of services whose full name begins with `package`. They are coroutines or async generators."""

    def __init__(self, package: str) -> None:
        self._prefix = f"/{package}."

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """The handler, wrapped."""
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or not method.startswith(self._prefix):
            return handler
        parse, serialize = handler.request_deserializer, handler.response_serializer
        assert parse is not None
        if handler.stream_stream:
            stream = _stream(method, handler.stream_stream, lambda raw: _parsed_all(parse, raw), headers_first=True)
            return grpc.stream_stream_rpc_method_handler(stream, response_serializer=serialize)
        if handler.unary_stream:
            stream = _stream(method, handler.unary_stream, lambda raw: _parsed(parse, raw))
            return grpc.unary_stream_rpc_method_handler(stream, response_serializer=serialize)
        unary = _unary(method, handler.unary_unary, lambda raw: _parsed(parse, raw))
        return grpc.unary_unary_rpc_method_handler(unary, response_serializer=serialize)


def _unary(method: str, handler: Any, parse: Callable[[Any], Any]) -> Any:
    async def serve(raw: bytes, context: Context) -> Any:
        started = _begin(context)
        try:
            reply = await handler(parse(raw), context)
        except BaseException as error:
            await _fail(method, started, context, error)
        _log(method, started, "OK")
        return reply

    return serve


def _stream(method: str, handler: Any, parse: Callable[[Any], Any], headers_first: bool = False) -> Any:
    """headers_first: a client that sends nothing yet gets the headers, which tell it where a proxy took it."""

    async def serve(raw: Any, context: Context) -> AsyncIterator[Any]:
        started = _begin(context)
        try:
            if headers_first:
                await context.send_initial_metadata(())
            async with aclosing(handler(parse(raw), context)) as replies:
                async for reply in replies:
                    yield reply
        except BaseException as error:
            await _fail(method, started, context, error)
        _log(method, started, "OK")

    return serve


def _parsed(parse: Parse, raw: bytes) -> Any:
    try:
        return parse(raw)
    except DecodeError:
        raise InvalidArgument("request", f"{len(raw)} bytes", "a message of this method's request type") from None


async def _parsed_all(parse: Parse, raws: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    async for raw in raws:
        yield _parsed(parse, raw)


def _begin(context: Context) -> float:
    given = (value for key, value in context.invocation_metadata() or () if key == "x-request-id")
    current_call.set(str(next(given, None) or secrets.token_hex(8))[:128])
    return time.monotonic()


async def _fail(method: str, started: float, context: Context, error: BaseException) -> NoReturn:
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        _log(method, started, "CANCELLED")  # by the client, its deadline, or the server's stop
        raise error
    if not isinstance(error, Exception) or isinstance(error, grpc.aio.AbortError):
        raise error
    facts = operation_error(error)
    _log(method, started, code_pb2.Code.Name(facts.code), facts.message)
    await context.abort_with_status(call_status(facts))
    raise AssertionError("abort_with_status raises")


def _log(method: str, started: float, code: str, message: str = "") -> None:
    level = logging.DEBUG if code == "OK" else logging.INFO
    if log.isEnabledFor(level):
        milliseconds = round((time.monotonic() - started) * 1000, 3)
        log.log(level, message or code, extra={"method": method, "code": code, "milliseconds": milliseconds})
