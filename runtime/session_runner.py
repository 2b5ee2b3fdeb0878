"""Carries sessions through their operations: queues them, starts handlers, resumes them with what they wait for.

Everything here happens between model runs, under the engine's lock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

from runtime import handlers, operations, tensor_handlers
from runtime.commands import Acknowledge, AnswerHook, Cancel, Command, Delivery, Submit
from runtime.errors import (
    Cancelled,
    EngineError,
    FailedPrecondition,
    InvalidArgument,
    LengthMismatch,
    ResourceExhausted,
    TokenloomError,
    Unavailable,
)
from runtime.handlers import Interrupted
from runtime.kv_cache import KVCache
from runtime.model import Model
from runtime.operations import Generate, Generated, Operation, SessionCreated, Value
from runtime.sampler import SamplingRow, sample
from runtime.sequence import Sequence
from runtime.session import (
    Active,
    Handler,
    NeedAnswer,
    NeedCredit,
    NeedLogits,
    NeedSlots,
    NeedTokens,
    Session,
    SessionStatus,
)
from runtime.session_table import SessionTable
from runtime.slot_pool import SlotPool
from runtime.statistics import EngineStats

logger = logging.getLogger(__name__)

MAX_REQUEST_ID_BYTES = 128
EXPIRY_INTERVAL = 0.1
"""Seconds between looks at idle timeouts."""


class SessionRunner:
    """The sessions of one engine and what they are doing."""

    def __init__(
        self,
        model: Model,
        cache: KVCache,
        pool: SlotPool,
        table: SessionTable,
        outbox: list[Delivery],
        stats: EngineStats,
        max_queued: int,
        on_session_end: Callable[[str, str], None] | None,
    ) -> None:
        self._model = model
        self._cache = cache
        self._pool = pool
        self._table = table
        self._outbox = outbox
        self._stats = stats
        self._max_queued = max_queued
        self._on_session_end = on_session_end
        self._busy: dict[Session, None] = {}
        """Sessions with something to do that does not wait for a client, in order of arrival."""
        self._next_expiry = 0.0

    @property
    def busy(self) -> bool:
        return bool(self._busy)

    @property
    def unfinished(self) -> bool:
        """Whether any operation is running, queued, or waiting for its client."""
        return any(session.active is not None or session.queue for session in self._table.all())

    # --- commands ----------------------------------------------------------------------------------------------------

    def take(self, command: Command, *, draining: bool, stopped: bool = False) -> None:
        """Carries out what another thread posted."""
        match command:
            case Submit(operation):
                try:
                    if stopped:
                        raise Unavailable("STOPPED", "the engine is stopped")
                    self._submit(operation, draining)
                except TokenloomError as error:
                    operation.sink.on_error(error)
            case Cancel(operation):
                self._cancel(operation)
            case Acknowledge(operation, events):
                active = self._active_of(operation)
                if active is not None and active.credits is not None:
                    active.credits += events
                    self._wake(operation, NeedCredit, None)
            case AnswerHook(operation, answer):
                self._wake(operation, NeedAnswer, answer)

    def _submit(self, operation: Operation, draining: bool) -> None:
        if len(operation.request_id.encode()) > MAX_REQUEST_ID_BYTES:
            raise InvalidArgument("request_id", operation.request_id, f"at most {MAX_REQUEST_ID_BYTES} bytes")
        if isinstance(operation, operations.Create):
            self._create(operation, draining)
            return
        session = self._table.find(operation.session_id)
        session.last_used = time.time()
        if isinstance(operation, operations.Close):
            self.end(session, "SESSION_CLOSED")
            operation.sink.on_result(None)
        elif isinstance(operation, operations.Interrupt):
            self._interrupt(session, operation)
        elif isinstance(operation, operations.SetRuntimeOption) and operation.key == "terminate_session":
            self._terminate(session, operation)
        elif not self._is_retry(session, operation):
            if len(session.queue) >= self._max_queued:
                raise ResourceExhausted(
                    "QUEUE_FULL", f"{self._max_queued} operations of this session are queued", limit=self._max_queued
                )
            session.queue.append(operation)
            self._busy[session] = None

    def _create(self, operation: operations.Create, draining: bool) -> None:
        if draining:
            raise Unavailable("DRAINING", "the server is shutting down and takes no new sessions")
        if operation.request_id and (made := self._table.created_by(operation.request_id)) is not None:
            if made.active is not None and isinstance(made.active.operation, operations.Create):
                made.active.followers.append(operation)
            else:
                operation.sink.on_result(SessionCreated(made.snapshot(), made.parameters.as_config()))
            return
        session = self._table.create(operation)
        operation.session_id = session.session_id
        session.queue.append(operation)
        self._busy[session] = None

    def _is_retry(self, session: Session, operation: Operation) -> bool:
        """Whether the operation's request id was seen: then it gets the first one's result, now or when it is there."""
        if not operation.request_id:
            return False
        key = (type(operation), operation.request_id)
        if key in session.results:
            operation.sink.on_result(session.results[key])
            return True
        active = session.active
        if active is not None and (type(active.operation), active.operation.request_id) == key:
            active.followers.append(operation)
            return True
        return False

    def _cancel(self, operation: Operation) -> None:
        session = self._table.get(operation.session_id)
        if session is None:
            return
        active = session.active
        if operation in session.queue:
            session.queue.remove(operation)
            operation.sink.on_error(Cancelled())
            if isinstance(operation, operations.Create):
                self.end(session, "SESSION_CLOSED")
            else:
                self._settle(session)
        elif active is not None and active.operation is operation:
            # What these did must be told: a retry would do it again.
            has_result = isinstance(operation, Generate | operations.Append)
            self._throw(session, Interrupted() if has_result else Cancelled())
        elif active is not None and operation in active.followers:
            active.followers.remove(operation)
            operation.sink.on_error(Cancelled())

    def _interrupt(self, session: Session, operation: Operation) -> None:
        queued = [waiting for waiting in session.queue if isinstance(waiting, Generate)]
        for waiting in queued:
            session.queue.remove(waiting)
        if session.active is not None and isinstance(session.active.operation, Generate):
            self._throw(session, Interrupted())
        snapshot = session.snapshot()
        for waiting in queued:
            waiting.sink.on_result(Generated(snapshot, 0, (), session.next_tokens or (), None, True))
        operation.sink.on_result(Value(snapshot, None))

    def _terminate(self, session: Session, operation: operations.SetRuntimeOption) -> None:
        result = self._complete(handlers.set_runtime_option(session, operation, self._model))
        if operation.value == "1" and session.active is not None:
            self._throw(session, terminated())
        operation.sink.on_result(result)

    @staticmethod
    def _complete(handler: Handler) -> Any:
        """The result of a handler that waits for nothing."""
        try:
            next(handler)
        except StopIteration as stop:
            return stop.value
        raise RuntimeError("the handler waits for something")

    # --- operations --------------------------------------------------------------------------------------------------

    def start_operations(self) -> None:
        """Starts the next operation of each session that has one waiting and none running."""
        for session in list(self._busy):
            self._start_next(session)

    def start_operation(self, session_id: str) -> None:
        """The same for one session."""
        self._start_next(self._table.find(session_id))

    def is_idle(self, session_id: str) -> bool:
        """Whether there is a session of that id with no operation running or queued."""
        session = self._table.get(session_id)
        return session is not None and session.active is None and not session.queue

    def _start_next(self, session: Session) -> None:
        while session.active is None and session.queue:
            self._start(session, session.queue.popleft())
        self._settle(session)

    def _start(self, session: Session, operation: Operation) -> None:
        if self._is_retry(session, operation):
            return
        session.last_used = time.time()
        active = session.active = Active(operation)
        active.handler = self._handler(session, operation, active)
        expected = operation.expected_length
        if expected is not None and expected != session.length:
            self._finish(session, error=LengthMismatch(expected, session.length))
            return
        self._resume(session, None)

    def _handler(self, session: Session, operation: Operation, active: Active) -> Handler:
        model, cache = self._model, self._cache
        match operation:
            case operations.Create():
                return handlers.create(session, operation, model)
            case Generate():
                return handlers.generate(session, operation, model, active)
            case operations.Append():
                return handlers.append(session, operation, model)
            case operations.Rewind():
                return handlers.rewind(session, operation, model)
            case operations.GetState():
                return handlers.get_state(session, operation, model)
            case operations.GetNextTokens():
                return handlers.get_next_tokens(session, operation, model)
            case operations.GetSequence():
                return handlers.get_sequence(session, operation, model)
            case operations.GetLogits():
                return handlers.get_logits(session, operation, model)
            case operations.SetLogits():
                return handlers.set_logits(session, operation, model)
            case operations.SetAdapter():
                return handlers.set_adapter(session, operation, model)
            case operations.SetRuntimeOption():
                return handlers.set_runtime_option(session, operation, model)
            case operations.SetInputs():
                return tensor_handlers.set_inputs(session, operation, model)
            case operations.GetInput():
                return tensor_handlers.get_input(session, operation, model, cache)
            case operations.GetOutput():
                return tensor_handlers.get_output(session, operation, model, cache)
            case operations.Fork():
                return self._fork(session, operation)
        raise TypeError(f"no handler for {type(operation).__name__}")

    def _fork(self, session: Session, operation: operations.Fork) -> Handler:
        child = self._table.fork(session, operation)
        self._pool.fork(session, child)
        return SessionCreated(child.snapshot(), child.parameters.as_config())
        yield

    def _resume(self, session: Session, value: Any, error: BaseException | None = None) -> None:
        """Lets the running handler go on until it waits for something that is not there, or ends."""
        active = session.active
        assert active is not None
        session.last_used = time.time()
        try:
            while True:
                need = active.handler.throw(error) if error is not None else active.handler.send(value)
                value, error = None, None
                if isinstance(need, NeedLogits) and not self._may_run(session, need):
                    error = terminated()
                elif not self._is_met(session, active, need):
                    break
        except StopIteration as stop:
            self._finish(session, result=stop.value)
        except TokenloomError as failure:
            self._finish(session, error=failure)
        except Interrupted:
            self._finish(session, error=Cancelled())
        except Exception:  # a bug in a handler must not take the sessions of others with it
            logger.exception("%s of session %s failed", type(active.operation).__name__, session.session_id)
            self._finish(session, error=EngineError("the operation failed; the server's log says why"))
        else:
            active.need = need
            session.move_to(_STATUS_OF[type(need)])
            self._settle(session)

    def _may_run(self, session: Session, need: NeedLogits) -> bool:
        return session.options.get("terminate_session") != "1" or all(row.is_fresh for row in need.rows)

    @staticmethod
    def _is_met(session: Session, active: Active, need: object) -> bool:
        match need:
            case NeedLogits(rows):
                return all(row.is_fresh for row in rows)
            case NeedSlots():
                return session.has_slots
            case NeedCredit():
                return active.credits != 0
        return False

    def _finish(self, session: Session, result: Any = None, error: TokenloomError | None = None) -> None:
        """Ends the running operation and tells everyone who asked for it."""
        active = session.active
        assert active is not None
        session.active = None
        session.waiting_since = 0.0
        session.move_to(SessionStatus.IDLE)
        self._count(active.operation, succeeded=error is None)
        for operation in (active.operation, *active.followers):
            if error is not None:
                operation.sink.on_error(error)
            else:
                operation.sink.on_result(result)
        if error is None:
            session.remember(active.operation, result)
        elif isinstance(active.operation, operations.Create):
            self.end(session, "SESSION_CLOSED")
            return
        self._settle(session)

    def _count(self, operation: Operation, succeeded: bool) -> None:
        self._stats.operation_ended(type(operation).__name__, time.perf_counter() - operation.submitted)
        if succeeded and isinstance(operation, operations.Create | operations.Append | Generate):
            self._stats.appended_tokens += sum(len(tokens) for tokens in operation.inputs.values())

    def _settle(self, session: Session) -> None:
        """Keeps `_busy` true: those with a running operation that waits for no client, or with one to start."""
        working = session.status in (SessionStatus.RUNNING, SessionStatus.SAMPLING)
        startable = session.status is SessionStatus.IDLE and bool(session.queue)
        if working or startable:
            self._busy[session] = None
        else:
            self._busy.pop(session, None)

    def _throw(self, session: Session, error: BaseException) -> None:
        self._resume(session, None, error)

    def _active_of(self, operation: Operation) -> Active | None:
        session = self._table.get(operation.session_id)
        active = None if session is None else session.active
        return active if active is not None and active.operation is operation else None

    def _wake(self, operation: Operation, kind: type, value: Any) -> None:
        """Resumes the operation if it waits for this kind of thing."""
        active = self._active_of(operation)
        if active is not None and isinstance(active.need, kind):
            active.since = time.perf_counter()
            self._resume(self._table.find(operation.session_id), value)

    # --- between runs ------------------------------------------------------------------------------------------------

    def stale_rows(self) -> Iterator[tuple[Session, Sequence]]:
        """Rows that need a run now and have a slot, in order of arrival. Gives slots to sessions that wait for them."""
        running = [session for session in self._busy if session.status is SessionStatus.RUNNING]
        self._give_slots(running)
        for session in running:
            if session.status is not SessionStatus.RUNNING or not session.has_slots:
                continue
            need = session.active.need if session.active is not None else None
            if isinstance(need, NeedLogits):
                yield from ((session, row) for row in need.rows if not row.is_fresh)

    def _give_slots(self, running: list[Session]) -> None:
        """First come, first served: while the first one waits nobody behind it gets a slot."""
        waiting = [session for session in running if not session.has_slots]
        for session in waiting:
            session.waiting_since = session.waiting_since or time.monotonic()
        for session in sorted(waiting, key=lambda session: session.waiting_since):
            if not self._pool.acquire(session, self._table.all()):
                break
            session.waiting_since = 0.0
            if session.active is not None and isinstance(session.active.need, NeedSlots):
                self._resume(session, None)

    def note_begun(self, session: Session) -> None:
        """The session's operation gets its first run or token now, or got it before."""
        active = session.active
        if active is not None and not active.has_begun:
            active.has_begun = True
            self._stats.queue_time.observe(time.perf_counter() - active.operation.submitted)

    def _note_step(self, active: Active) -> None:
        now = time.perf_counter()
        latency = self._stats.inter_token_latency if active.has_stepped else self._stats.time_to_first_token
        latency.observe(now - active.since)
        active.since, active.has_stepped = now, True

    def fail(self, session: Session, error: TokenloomError) -> None:
        """A run of one of the session's rows failed."""
        if session.active is not None and session.status is SessionStatus.RUNNING:
            self._throw(session, error)

    def sample(self) -> int:
        """Resumes sessions whose logits are there and gives tokens to those that ask. Returns how many."""
        count = 0
        for session in list(self._busy):
            active = session.active
            if active is None:
                continue
            if isinstance(active.need, NeedLogits) and self._is_met(session, active, active.need):
                self._resume(session, None)
            if session.status is SessionStatus.SAMPLING and isinstance(active.need, NeedTokens):
                count += self._give_tokens(session, active, active.need.rows)
        return count

    def _give_tokens(self, session: Session, active: Active, rows: list[Sequence]) -> int:
        self.note_begun(session)
        try:
            tokens = [
                sample(SamplingRow(row.logits, session.parameters, row.seed, row.tokens, row.new_tokens))
                for row in rows
                if row.logits is not None
            ]
        except TokenloomError as error:
            self._throw(session, error)
            return 0
        self._note_step(active)
        self._resume(session, tokens)
        return len(tokens)

    # --- ends --------------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Closes sessions that idled for longer than they may."""
        now = time.time()
        if now < self._next_expiry:
            return
        self._next_expiry = now + EXPIRY_INTERVAL
        for session in self._table.all():
            idle = session.status in (SessionStatus.IDLE, SessionStatus.HELD) and not session.queue
            if idle and session.expire_time < now:
                self.end(session, "SESSION_EXPIRED")

    def end(self, session: Session, reason: str, error: TokenloomError | None = None) -> None:
        """Closes a session and frees what it has; its operations end with `error`, by default Cancelled."""
        if session.status is SessionStatus.CLOSED:
            return
        self._stats.session_ended(reason)
        self._table.remove(session, expired=reason == "SESSION_EXPIRED")
        self._busy.pop(session, None)
        active, session.active = session.active, None
        session.move_to(SessionStatus.CLOSED)
        if active is not None:
            active.handler.close()
            self._count(active.operation, succeeded=False)
        waiting = [active.operation, *active.followers] if active is not None else []
        for operation in (*waiting, *session.queue):
            operation.sink.on_error(error or Cancelled("the session was closed", reason=reason))
        session.queue.clear()
        self._pool.release(session)
        if self._on_session_end is not None:
            notify, session_id = self._on_session_end, session.session_id
            self._outbox.append(Delivery(lambda told: notify(session_id, told), reason))

    def fail_running(self) -> None:
        """Ends every running operation with an error; the sessions stay."""
        for session in self._table.all():
            if session.active is not None:
                self._throw(session, EngineError("the engine failed; the server's log says why"))

    def end_all(self) -> None:
        """Closes every session."""
        for session in self._table.all():
            self.end(session, "SESSION_CLOSED", Unavailable("DRAINING", "the server went down"))


_STATUS_OF = {
    NeedLogits: SessionStatus.RUNNING,
    NeedSlots: SessionStatus.RUNNING,
    NeedTokens: SessionStatus.SAMPLING,
    NeedAnswer: SessionStatus.HELD,
    NeedCredit: SessionStatus.HELD,
}


def terminated() -> FailedPrecondition:
    return FailedPrecondition(
        "SESSION_TERMINATED", "terminate_session is set; set it to 0 before the model may run again"
    )
