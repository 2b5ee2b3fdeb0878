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
from functools import partial
from typing import Any, NoReturn, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from google.rpc import code_pb2

from runtime.errors import InvalidArgument
from service.errors import call_status, operation_error
from service.logging import current_call
from service.metrics import Metrics
from service.tracing import Tracing, current_span

log = logging.getLogger(__name__)

REQUEST_ID = "x-request-id"
"""Metadata that names a call in the log: the client's choice, or else made here. Comes back in the trailers."""
MAX_REQUEST_ID = 128

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Parse: TypeAlias = Callable[[bytes], Any]


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Wraps the handlers of services whose full name begins with `package`. They are coroutines or async generators."""

    def __init__(self, package: str, metrics: Metrics, tracing: Tracing) -> None:
        self._prefix = f"/{package}."
        self._metrics = metrics
        self._tracing = tracing

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
        begin = partial(_Call, method, metrics=self._metrics, tracing=self._tracing)
        if handler.stream_stream:
            stream = _stream(begin, handler.stream_stream, lambda raw: _parsed_all(parse, raw), headers_first=True)
            return grpc.stream_stream_rpc_method_handler(stream, response_serializer=serialize)
        if handler.unary_stream:
            stream = _stream(begin, handler.unary_stream, lambda raw: _parsed(parse, raw))
            return grpc.unary_stream_rpc_method_handler(stream, response_serializer=serialize)
        unary = _unary(begin, handler.unary_unary, lambda raw: _parsed(parse, raw))
        return grpc.unary_unary_rpc_method_handler(unary, response_serializer=serialize)


def _unary(begin: Callable[[Context], _Call], handler: Any, parse: Callable[[Any], Any]) -> Any:
    async def serve(raw: bytes, context: Context) -> Any:
        call = begin(context)
        try:
            reply = await handler(parse(raw), context)
        except BaseException as error:
            await call.fail(error)
        call.end("OK")
        return reply

    return serve


def _stream(
    begin: Callable[[Context], _Call], handler: Any, parse: Callable[[Any], Any], headers_first: bool = False
) -> Any:
    """headers_first: a client that sends nothing yet gets the headers, which tell it where a proxy took it."""

    async def serve(raw: Any, context: Context) -> AsyncIterator[Any]:
        call = begin(context)
        try:
            if headers_first:
                await context.send_initial_metadata(())
            async with aclosing(handler(parse(raw), context)) as replies:
                async for reply in replies:
                    yield reply
        except BaseException as error:
            await call.fail(error)
        call.end("OK")

    return serve


def _parsed(parse: Parse, raw: bytes) -> Any:
    try:
        return parse(raw)
    except DecodeError:
        raise InvalidArgument("request", f"{len(raw)} bytes", "a message of this method's request type") from None


async def _parsed_all(parse: Parse, raws: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    async for raw in raws:
        yield _parsed(parse, raw)


class _Call:
    """One call, from its start to its end."""

    def __init__(self, method: str, context: Context, metrics: Metrics, tracing: Tracing) -> None:
        given = context.invocation_metadata() or ()
        metadata = {key: value for key, value in given if isinstance(value, str)}
        self.request_id = (metadata.get(REQUEST_ID) or secrets.token_hex(8))[:MAX_REQUEST_ID]
        current_call.set(self.request_id)
        self._span = tracing.call(method, metadata)
        current_span.set(self._span)
        self._method = method
        self._context = context
        self._metrics = metrics
        self._started = time.monotonic()
        context.set_trailing_metadata(((REQUEST_ID, self.request_id),))
        metrics.in_progress.labels(method).inc()

    async def fail(self, error: BaseException) -> NoReturn:
        """Ends it with an error: makes a status of what was raised."""
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            self.end("CANCELLED")  # by the client, its deadline, or the server's stop
            raise error
        if not isinstance(error, Exception) or isinstance(error, grpc.aio.AbortError):
            self.end("UNKNOWN")
            raise error
        facts = operation_error(error)
        self._metrics.errors.labels(facts.reason).inc()
        self.end(code_pb2.Code.Name(facts.code), facts.message, facts.reason)
        status = call_status(facts)
        await self._context.abort(
            status.code, status.details, (*status.trailing_metadata, (REQUEST_ID, self.request_id))
        )
        raise AssertionError("abort raises")

    def end(self, code: str, message: str = "", reason: str = "") -> None:
        """Says so in the log, the metrics and the trace."""
        self._span.end(code, message, reason)
        seconds = time.monotonic() - self._started
        self._metrics.in_progress.labels(self._method).dec()
        self._metrics.requests.labels(self._method, code).inc()
        self._metrics.latency.labels(self._method).observe(seconds)
        level = logging.DEBUG if code == "OK" else logging.INFO
        if log.isEnabledFor(level):
            facts = {"method": self._method, "code": code, "milliseconds": round(seconds * 1000, 3)}
            log.log(level, message or code, extra=facts | ({"reason": reason} if reason else {}))
