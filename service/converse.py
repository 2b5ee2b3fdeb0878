"""Converse: many operations of one session on one stream.

Two tasks: the reader takes requests and submits operations without waiting for earlier ones; the writer (`replies`)
sends what comes back, in the order of the operations. The engine keeps the operations of a session in order, too, so
the writer never holds back what could be sent. The stream ends where its session does, and where the client breaks the
protocol: then no reply could be attributed. When the client has no more to say (half-close), what it asked for is still
answered; when it is gone, everything under way is cancelled. The session stays in either case.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

from google.rpc import code_pb2

from runtime.errors import InvalidArgument, NotFound, TokenloomError
from runtime.operations import Generate, Operation, SelectedLogits, StepResult
from service.convert.logits import from_logits, to_edits
from service.convert.state import from_step
from service.errors import operation_error
from service.sinks import ReplySink, StreamSink, Window, answer, creation_sink
from service.state import ServerState
from service.target import Target
from service.tracing import Span, current_span
from service.verbs import parse, placed, render
from tokenloom.v1 import generator_pb2 as pb

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Pending:
    """An operation whose last message was not sent yet."""

    operation_id: int
    kind: str
    request: Any
    sink: StreamSink
    span: Span
    operation: Operation | None = None
    window: Window | None = None
    awaits_hook: bool = False
    """Whether a hook call was sent that is not answered yet."""
    failure: Exception | None = None
    """What the operation ends with, whatever the engine says: the client answered a hook with nonsense."""
    outcome: tuple[str, ...] = ("CANCELLED",)
    """What its span ends with once its last reply is written: one that nobody could get any more answers nothing."""


class Conversation:
    """One stream."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._target: Target | None = None
        self._opened = False
        self._session_end: NotFound | None = None
        """Set when the session was ended otherwise than by this stream, or idled out."""
        self._pending: deque[_Pending] = deque()
        self._last_id = 0
        self._input_ended = False
        self._wake = asyncio.Event()
        """Set when the writer may have something to do."""
        self._room = asyncio.Event()
        """Set when the reader may go on."""

    # --- writer ------------------------------------------------------------------------------------------------------

    async def replies(self, requests: AsyncIterator[pb.ConverseRequest]) -> AsyncGenerator[pb.ConverseResponse, None]:
        """Every reply; ends, or raises, when the stream is to end."""
        reader = asyncio.create_task(self._read(requests))
        reader.add_done_callback(lambda _: self._wake.set())
        self._server.drain.listeners.add(self._wake.set)
        try:
            while True:
                self._wake.clear()
                while self._pending and (head := self._pending[0]).sink.messages:
                    message = head.sink.messages.popleft()
                    is_final = head.sink.is_final and not head.sink.messages
                    if isinstance(message, TokenloomError):
                        message = placed(head.request, message)
                    reply = self._reply(head, message, is_final)
                    if reply is not None:
                        yield reply
                        self._sent(head, message)
                    if is_final:
                        self._pending.popleft()
                        head.span.end(*head.outcome)
                        self._room.set()
                        if self._ends_after(head, message):
                            return
                if reader.done():
                    reader.result()
                    if not self._pending:
                        return
                if not self._pending:
                    self._server.check_accepting()
                    if self._session_end is not None:
                        raise self._session_end
                await self._wake.wait()
        finally:
            self._server.drain.listeners.discard(self._wake.set)
            self._leave()
            reader.cancel()
            await asyncio.wait([reader])
            if not reader.cancelled():
                reader.exception()

    def _reply(self, pending: _Pending, message: Any, is_final: bool) -> pb.ConverseResponse | None:
        """A message of an operation as a reply; None for what is not told."""
        operation_id = pending.operation_id
        if isinstance(message, StepResult):
            if pending.kind != "generate_tokens":
                return None
            step = from_step(message.rows, pending.request.skip_text)
            return pb.ConverseResponse(operation_id=operation_id, step=step)
        if isinstance(message, SelectedLogits):
            pending.awaits_hook = True
            call = pb.LogitsHookCall(logits=from_logits(message, pending.request.logits_hook.selector.dtype))
            return pb.ConverseResponse(operation_id=operation_id, logits_hook_call=call)
        assert is_final
        message = pending.failure or message
        if not isinstance(message, Exception):
            try:
                assert self._target is not None
                reply = render(pending.request, message, self._target)
                pending.span.answered(message)
                pending.outcome = ("OK",)
                return pb.ConverseResponse(operation_id=operation_id, final=True, **{pending.kind: reply})
            except Exception as error:
                message = error
        facts = operation_error(message)
        self._server.metrics.errors.labels(facts.reason).inc()
        code = code_pb2.Code.Name(facts.code)
        log.info(facts.message, extra={"operation": pending.kind, "code": code, "reason": facts.reason})
        pending.outcome = (code, facts.message, facts.reason)
        return pb.ConverseResponse(operation_id=operation_id, final=True, error=facts)

    def _sent(self, pending: _Pending, message: Any) -> None:
        """The reply of a message was written."""
        if isinstance(message, StepResult) and pending.window is not None and pending.operation is not None:
            assert self._target is not None
            pending.window.written(self._target.engine, pending.operation)
            self._end_if_starved(pending)

    def _ends_after(self, pending: _Pending, message: Any) -> bool:
        """Whether the stream ends after an operation's last message. Raises where it ends with an error."""
        if isinstance(message, Exception):
            session_is_gone = isinstance(message, NotFound) and message.kind == "session"
            if not self._opened or session_is_gone:
                raise message
        return pending.kind == "close" and not isinstance(message, Exception)

    # --- reader ------------------------------------------------------------------------------------------------------

    async def _read(self, requests: AsyncIterator[pb.ConverseRequest]) -> None:
        """Takes requests to the end. Raises InvalidArgument where the client breaks the protocol."""
        async for request in requests:
            kind = request.WhichOneof("operation")
            match kind:
                case None:
                    raise InvalidArgument("operation", None, "one of the operations")
                case "logits_hook_reply":
                    self._answer_hook(request)
                case "grant_credits":
                    self._grant(request)
                case _:
                    await self._begin(request, kind)
        self._input_ended = True
        for pending in self._pending:
            self._end_if_starved(pending)

    async def _begin(self, request: pb.ConverseRequest, kind: str) -> None:
        if request.operation_id <= self._last_id:
            raise InvalidArgument("operation_id", request.operation_id, f"larger than {self._last_id}, the last one")
        self._last_id = request.operation_id
        while len(self._pending) >= 2 * self._server.config.max_queued_operations:
            self._room.clear()  # the engine refuses what is beyond its limit; refusals are not piled up either
            await self._room.wait()
        span = current_span.get().operation(kind)
        pending = _Pending(request.operation_id, kind, getattr(request, kind), StreamSink(self._wake.set), span)
        self._pending.append(pending)
        try:
            if self._target is None or not self._opened:
                await self._open(pending)
            else:
                await self._submit(request, pending, self._target)
        except Exception as error:
            pending.sink.on_error(error)

    async def _open(self, pending: _Pending) -> None:
        """The first operation: gives the stream its session, and waits until it has."""
        request, registry = pending.request, self._server.registry
        match pending.kind:
            case "create":
                target = Target(self._server, registry.engine(request.model), "", streamed=True)
                sink = creation_sink(target.engine, request.request_id)
                operation = await parse(request, target, sink)
                pending.span.asked(operation, target.engine)
                result = await answer(target.engine, operation, sink)
                target.session_id = result.snapshot.session_id
                self._server.attachments.attach(target.session_id, self._on_session_end)
                self._target = target
            case "attach":
                target = Target(self._server, registry.engine_of(request.session_id), request.session_id, streamed=True)
                self._server.attachments.attach(target.session_id, self._on_session_end)
                self._target = target
                sink = ReplySink()
                operation = await parse(request, target, sink)
                pending.span.asked(operation, target.engine)
                result = await answer(target.engine, operation, sink)
            case kind:
                raise InvalidArgument("operation", kind, "create or attach in a stream's first message")
        self._opened = True
        pending.sink.on_result(result)

    async def _submit(self, request: pb.ConverseRequest, pending: _Pending, target: Target) -> None:
        if pending.kind in ("create", "attach"):
            raise InvalidArgument("operation", pending.kind, "an operation of the stream's session")
        if pending.request.session_id not in ("", target.session_id):
            raise InvalidArgument("session_id", pending.request.session_id, f"{target.session_id!r} or left out")
        if request.HasField("credits") and pending.kind != "generate_tokens":
            raise InvalidArgument("credits", request.credits, "set with generate_tokens only")
        operation = await parse(pending.request, target, pending.sink)
        if isinstance(operation, Generate) and pending.kind == "generate_tokens":
            pending.window = Window(request.credits if request.HasField("credits") else None)
            operation.window = pending.window.size
        pending.operation = operation
        pending.span.asked(operation, target.engine)
        target.engine.submit(operation)

    def _answer_hook(self, request: pb.ConverseRequest) -> None:
        pending = self._find(request)
        if pending is None or pending.operation is None:
            return
        if not pending.awaits_hook:
            raise InvalidArgument("operation_id", request.operation_id, "an operation that waits for its hook's reply")
        assert self._target is not None
        pending.awaits_hook = False
        reply = request.logits_hook_reply
        try:
            edits = to_edits(reply.edits, self._target.vocab_size, self._target.rows)
            for index, row in enumerate(reply.stop_rows):
                if row >= self._target.rows:
                    raise InvalidArgument(f"stop_rows[{index}]", row, f"a row in [0, {self._target.rows})")
        except TokenloomError as error:
            pending.failure = error
            self._target.engine.cancel(pending.operation)
        else:
            self._target.engine.answer_hook(pending.operation, edits, tuple(reply.stop_rows))

    def _grant(self, request: pb.ConverseRequest) -> None:
        if not request.grant_credits.events:
            raise InvalidArgument("grant_credits.events", 0, "at least 1")
        pending = self._find(request)
        if pending is not None and pending.window is not None and pending.operation is not None:
            assert self._target is not None
            pending.window.grant(request.grant_credits.events, self._target.engine, pending.operation)

    def _find(self, request: pb.ConverseRequest) -> _Pending | None:
        """The operation a hook reply or credits are for; None if it is over, which the client may not know yet."""
        if request.operation_id > self._last_id:
            raise InvalidArgument("operation_id", request.operation_id, "an operation of this stream")
        for pending in self._pending:
            if pending.operation_id == request.operation_id:
                return pending
        return None

    # --- endings -----------------------------------------------------------------------------------------------------

    def _end_if_starved(self, pending: _Pending) -> None:
        """Once the client has no more to say, nobody can answer a hook or grant credits."""
        if not self._input_ended or self._target is None or pending.operation is None or pending.sink.is_final:
            return
        hooked = isinstance(pending.operation, Generate) and pending.operation.hook is not None
        if hooked or (pending.window is not None and pending.window.exhausted):
            self._target.engine.cancel(pending.operation)

    def _on_session_end(self, reason: str) -> None:
        assert self._target is not None
        session_id, expired = self._target.session_id, reason == "SESSION_EXPIRED"
        self._session_end = NotFound(
            "session",
            session_id,
            reason="SESSION_EXPIRED" if expired else "SESSION_NOT_FOUND",
            message=f"session {session_id!r} {'was idle too long and ' if expired else ''}is closed",
        )
        self._wake.set()

    def _leave(self) -> None:
        """Detaches; what is under way ends at a token boundary."""
        for pending in self._pending:
            pending.span.end("CANCELLED")
        if self._target is None:
            return
        for pending in self._pending:
            if pending.operation is not None and not pending.sink.is_final:
                self._target.engine.cancel(pending.operation)
        self._server.attachments.detach(self._target.session_id)
