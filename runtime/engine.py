"""The engine: one thread that owns a model and carries out the operations of its sessions, many at once.

Each iteration takes commands, starts operations, lets the scheduler decide what to run, runs it, samples, and delivers
what came of it in one go. Other threads only post commands and read snapshots. It knows nothing of gRPC or asyncio.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from runtime.adapters import AdapterInfo
from runtime.commands import Acknowledge, AnswerHook, Cancel, Command, Delivery, OutboxSink, Submit, deliver_now
from runtime.errors import FailedPrecondition, InvalidArgument
from runtime.executor import Executor, Outcome, RowRun
from runtime.kv_cache import open_cache
from runtime.model import Model, ModelOptions
from runtime.operations import (
    GetLogits,
    GetNextTokens,
    GetSequence,
    GetState,
    LogitsEdit,
    Operation,
    Rewind,
    SessionCreated,
    SessionSnapshot,
    SetLogits,
)
from runtime.scheduler import Plan, Policy, RowNeed, plan
from runtime.session import HookAnswer, SessionStatus
from runtime.session_runner import SessionRunner
from runtime.session_table import SessionTable
from runtime.slot_pool import SlotPool
from runtime.statistics import EngineStats
from runtime.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

STALLED_AFTER = 60.0
"""Seconds an iteration may take before the engine counts as dead."""
IDLE_WAIT = 0.5
"""Seconds between looks at idle timeouts when nothing happens."""
AT_ONCE = (Rewind, GetState, GetNextTokens, GetSequence, GetLogits, SetLogits)
"""Operations that change or read no more than rows; those on logits where the logits are there."""
STOPPING_WAIT = 0.02
"""The same while the engine goes down and waits for clients that hold operations up."""

_LEAST = {
    "max_sessions": 1,
    "max_queued_operations": 1,
    "prefill_chunk": 2,  # a position of a run must never be computed alone
    "prefill_budget": 1,
    "host_cache_bytes": 0,
}


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Limits and policy of an engine.

    prefill_chunk: most tokens of one prefill run. prefill_budget: most per iteration. host_cache_bytes: for parked
    sessions; beyond it only their tokens are kept. prefix_cache: whether rows copy what others have computed of their
    beginning; results are the same either way.
    """

    max_sessions: int = 256
    max_queued_operations: int = 64
    prefill_chunk: int = 128
    prefill_budget: int = 256
    host_cache_bytes: int = 4 << 30
    prefix_cache: bool = True
    policy: Policy = Policy.FIFO

    def __post_init__(self) -> None:
        """Raises InvalidArgument for limits nothing could be done within."""
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise InvalidArgument(name, getattr(self, name), f"{least} or more")


class Engine:
    """Runs one model. Start it, submit operations, stop it; every public method may be called from any thread."""

    def __init__(
        self,
        model: Model,
        options: EngineOptions | None = None,
        deliver: Callable[[list[Delivery]], None] = deliver_now,
        on_session_end: Callable[[str, str], None] | None = None,
    ) -> None:
        """deliver: gets all messages of an iteration, in the engine's thread. on_session_end: told (session id, reason
        SESSION_EXPIRED or SESSION_CLOSED) the same way."""
        self.model = model
        self.options = options or EngineOptions()
        self._deliver = deliver
        self._outbox: list[Delivery] = []
        self._commands: deque[Command] = deque()
        """Posted and not carried out yet."""
        self._wake = threading.Event()
        self._lock = threading.Lock()
        """Held while sessions change; free while the model runs."""
        cache = open_cache(model)
        self._cache = cache
        self._stats = EngineStats(slots=cache.slots)
        self._executor = Executor(model, cache, self._stats)
        self._pool = SlotPool(cache, self.options.host_cache_bytes, self.options.prefix_cache)
        self._table = SessionTable(model, self.options.max_sessions)
        self._runner = SessionRunner(
            model,
            cache,
            self._pool,
            self._table,
            self._outbox,
            self._stats,
            self.options.max_queued_operations,
            on_session_end,
        )
        self._prefill_streak = 0
        self._beat = time.monotonic()
        self._stop_at: float | None = None
        self._draining = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"engine-{model.name}", daemon=True)

    @classmethod
    def open(
        cls, path: Path, model_options: ModelOptions | None = None, options: EngineOptions | None = None
    ) -> Engine:
        """A started engine for the model folder at `path`, to be used as a context manager."""
        engine = cls(Model.load(path, options=model_options), options)
        engine.start()
        return engine

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer. Raises FailedPrecondition where it has none."""
        if self.model.tokenizer is None:
            raise FailedPrecondition("NO_TOKENIZER", f"model {self.model.name} has no tokenizer")
        return self.model.tokenizer

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def stop(self, grace: float = 0.0) -> None:
        """Refuses new sessions, lets operations go on for `grace` seconds, ends the rest at a token boundary."""
        self.drain()
        self._stop_at = time.monotonic() + grace
        self._wake.set()
        self._thread.join()

    def drain(self) -> None:
        """Refuses new sessions from here on."""
        self._draining.set()

    @property
    def draining(self) -> bool:
        return self._draining.is_set()

    @property
    def alive(self) -> bool:
        """Whether the thread runs and has not been stuck in one iteration for too long."""
        return self._thread.is_alive() and time.monotonic() - self._beat < STALLED_AFTER

    # --- commands ----------------------------------------------------------------------------------------------------

    def submit(self, operation: Operation, *, at_once: bool = False) -> None:
        """Queues an operation. All that comes of it, errors included, goes to its sink.

        at_once: where it needs nothing of the cache and its session has nothing else to do, it is carried out in this
        thread, before submit returns. Its messages may then come before those of operations submitted earlier.
        """
        sink = operation.sink = OutboxSink(operation.sink, self._outbox)
        if not (at_once and self._carry_out_now(operation, sink)):
            self._post(Submit(operation))

    def _carry_out_now(self, operation: Operation, sink: OutboxSink) -> bool:
        """Tries to; False where the operation has to be queued. The engine's thread is not waited for."""
        if not isinstance(operation, AT_ONCE) or not self._lock.acquire(blocking=False):
            return False
        try:
            if self._commands or self._stopped.is_set() or not self._runner.is_idle(operation.session_id):
                return False
            told = sink.outbox = []
            self._runner.take(Submit(operation), draining=self.draining)
            self._runner.start_operation(operation.session_id)
            sink.outbox = self._outbox
        finally:
            self._lock.release()
        if self._runner.busy:
            self._wake.set()
        for delivery in told:
            delivery.send()
        return True

    def cancel(self, operation: Operation) -> None:
        """Ends an operation at the next token boundary: Generate and Append give their result, others
        Cancelled."""
        self._post(Cancel(operation))

    def acknowledge(self, operation: Operation, events: int) -> None:
        """Gives a Generate with a window further credits."""
        self._post(Acknowledge(operation, events))

    def answer_hook(
        self, operation: Operation, edits: Sequence[LogitsEdit] = (), stop_rows: Sequence[int] = ()
    ) -> None:
        """Answers a Generate's hook. Edits that cannot be made end the operation with their error."""
        self._post(AnswerHook(operation, HookAnswer(tuple(edits), tuple(stop_rows))))

    def _post(self, command: Command) -> None:
        self._commands.append(command)
        self._wake.set()
        if self._stopped.is_set():
            # Nobody may be left to take it: whoever finds it here, after the loop's own last look, answers it.
            self._refuse_rest()

    # --- reads -------------------------------------------------------------------------------------------------------

    def has_session(self, session_id: str) -> bool:
        return session_id in self._table

    def is_expired(self, session_id: str) -> bool:
        """Whether a session of that id idled out (and is still remembered)."""
        return self._table.is_expired(session_id)

    def rows_of(self, session_id: str) -> int:
        """Rows of a session. Does not wait for the engine. Raises NotFound."""
        return len(self._table.find(session_id).rows)

    def snapshot(self, session_id: str) -> SessionCreated:
        """State and settings of a session. Does not count as use. Raises NotFound."""
        with self._lock:
            session = self._table.find(session_id)
            return SessionCreated(session.snapshot(), session.parameters.as_config())

    def snapshots(self) -> list[SessionSnapshot]:
        with self._lock:
            return [session.snapshot() for session in self._table.all()]

    def stats(self) -> EngineStats:
        """A copy of the counts, with what is there now."""
        with self._lock:
            sessions, prefixes = self._table.all(), self._pool.prefixes
            return replace(
                deepcopy(self._stats),
                sessions=len(sessions),
                running=sum(session.status is not SessionStatus.IDLE for session in sessions),
                waiting=sum(bool(session.waiting_since) for session in sessions),
                parked=sum(session.is_parked for session in sessions),
                slots_used=self._pool.used,
                host_cache_bytes=self._pool.saved_bytes,
                sessions_created=self._table.created,
                parkings=self._pool.parkings,
                prefix_hits=prefixes.hits,
                prefix_misses=prefixes.misses,
                reused_tokens=prefixes.reused_tokens,
            )

    # --- adapters ----------------------------------------------------------------------------------------------------

    def load_adapter(self, name: str, path: Path) -> AdapterInfo:
        """Raises what `AdapterSet.load` raises."""
        with self._lock:
            return self.model.adapters.load(name, path)

    def unload_adapter(self, name: str) -> None:
        """Raises NotFound, and FailedPrecondition with reason ADAPTER_IN_USE."""
        with self._lock:
            self.model.adapters.parameters(name)
            users = self._adapter_users(name)
            if users:
                raise FailedPrecondition(
                    "ADAPTER_IN_USE", f"adapter {name!r} is active in {users} sessions", sessions=users
                )
            self.model.adapters.unload(name)
            self._pool.forget_adapter(name)
            self._cache.forget_adapter(name)

    def adapters(self) -> list[AdapterInfo]:
        with self._lock:
            return [replace(info, sessions=self._adapter_users(info.name)) for info in self.model.adapters.list()]

    def _adapter_users(self, name: str) -> int:
        return sum(session.adapter == name for session in self._table.all())

    # --- the loop ----------------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        while not self._is_over():
            try:
                self._iterate()
            except Exception:  # a bug must not take the sessions of others with it
                logger.exception("an iteration of the engine failed")
                with self._lock:
                    self._runner.fail_running()
                self._flush()
        with self._lock:
            self._runner.end_all()
        self._stopped.set()
        self._refuse_rest()

    def _is_over(self) -> bool:
        if self._stop_at is None:
            return False
        return not self._runner.unfinished or time.monotonic() >= self._stop_at

    def _iterate(self) -> None:
        """commands -> schedule -> deliver -> run -> sample.

        What an iteration made is delivered in the next, right before the model runs: the receivers then work while ONNX
        Runtime does, instead of holding up the engine's way to its next run.
        """
        self._take_commands()
        started = time.perf_counter()
        with self._lock:
            self._runner.expire()
            self._runner.start_operations()
            runs, decision = self._plan()
        self._flush()
        outcomes = self._executor.execute(decision, runs)
        with self._lock:
            for outcome in outcomes:
                self._record(outcome)
            self._stats.generated_tokens += self._runner.sample()
            for outcome in outcomes:
                outcome.run.row.keep_logits()
            self._stats.busy_seconds += time.perf_counter() - started
            self._stats.iterations += 1

    def _take_commands(self) -> None:
        """Carries out what was posted; waits for something where there is nothing else to do."""
        self._beat = time.monotonic()
        if not self._runner.busy:
            self._flush()
            self._wake.wait(STOPPING_WAIT if self.draining else IDLE_WAIT)
        self._beat = time.monotonic()
        self._wake.clear()
        with self._lock:
            # Under the lock, so that whoever else holds it knows that no command is half way.
            while self._commands:
                self._runner.take(self._commands.popleft(), draining=self.draining)

    def _plan(self) -> tuple[list[RowRun], Plan]:
        """The runs that rows need, in order of arrival, and what the scheduler makes of them."""
        runs: list[RowRun] = []
        needs: list[RowNeed] = []
        for session, row in self._pool.begin_rows(self._runner.stale_rows()):
            start, count = row.next_run(self.options.prefill_chunk)
            alone = bool(self.model.extra_inputs)
            needs.append(RowNeed(len(runs), session.adapter, start, count, alone))
            runs.append(RowRun(session, row, start, count))
        decision = plan(needs, self.options.policy, self.options.prefill_budget, self._prefill_streak)
        self._prefill_streak = self._prefill_streak + 1 if decision.prefills and not decision.decodes else 0
        for need in (*decision.prefills, *(need for batch in decision.decodes for need in batch)):
            self._runner.note_begun(runs[need.key].session)
        return runs, decision

    def _record(self, outcome: Outcome) -> None:
        run = outcome.run
        self._stats.model_seconds += outcome.seconds / outcome.batch
        if outcome.logits is None:
            if outcome.error is not None:
                self._runner.fail(run.session, outcome.error)
            return
        if run.session.status is not SessionStatus.RUNNING:
            return  # the run of another of its rows failed and ended the operation
        # What parking lost comes back at no charge: else a long session would lose its slots before it gets anywhere.
        run.session.runs_in_slots += run.start + run.count > run.row.reached
        run.row.record_run(run.start, run.count, outcome.logits, run.session.adapter)
        if run.count > 1:
            self._stats.prefill_tokens += run.count
            self._pool.note_run(run.row, run.start)
        if run.session.options.get("enable_profiling") == "1":
            logger.info(
                "session %s row %d: %d positions from %d in a batch of %d took %.2f ms",
                *(run.session.session_id, run.row.row, run.count, run.start, outcome.batch, outcome.seconds * 1e3),
            )

    def _flush(self) -> None:
        """One delivery per iteration: whoever waits in another thread is woken once."""
        if self._outbox:
            deliveries, self._outbox[:] = list(self._outbox), []
            try:
                self._deliver(deliveries)
            except Exception:  # the receiver's fault (its event loop is closed, say), and nobody is left to tell
                logger.exception("%d messages could not be delivered", len(deliveries))

    def _refuse_rest(self) -> None:
        """Answers what was posted too late."""
        with self._lock:
            while self._commands:
                self._runner.take(self._commands.popleft(), draining=True, stopped=True)
            self._flush()
