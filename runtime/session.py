"""A session: rows, settings, and the operations waiting for their turn. What operations do is in `handlers`."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Generator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from numpy.typing import NDArray

from runtime.generation_config import SamplingParameters
from runtime.operations import LogitsEdit, Operation, SessionSnapshot
from runtime.sampler import row_seed
from runtime.sequence import Sequence

KEPT_RESULTS = 64
"""Results of request ids kept per session, for retries."""


class SessionStatus(Enum):
    """What a session is doing. Changed by `Session.move_to` alone."""

    IDLE = auto()
    """No operation is running. Its slots may be taken."""
    RUNNING = auto()
    """Its operation needs logits of rows and waits for slots or runs."""
    SAMPLING = auto()
    """Its operation gets tokens in this iteration."""
    HELD = auto()
    """Its operation waits for the client: a hook's answer or credits. Its slots may be taken."""
    CLOSED = auto()
    """Gone."""


_MOVES = {
    SessionStatus.IDLE: {SessionStatus.RUNNING, SessionStatus.SAMPLING, SessionStatus.HELD, SessionStatus.CLOSED},
    SessionStatus.RUNNING: {SessionStatus.IDLE, SessionStatus.SAMPLING, SessionStatus.HELD, SessionStatus.CLOSED},
    SessionStatus.SAMPLING: {SessionStatus.IDLE, SessionStatus.RUNNING, SessionStatus.HELD, SessionStatus.CLOSED},
    SessionStatus.HELD: {SessionStatus.IDLE, SessionStatus.RUNNING, SessionStatus.SAMPLING, SessionStatus.CLOSED},
    SessionStatus.CLOSED: set[SessionStatus](),
}


# --- what a running operation may wait for: yielded by its handler ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class NeedLogits:
    """Fresh logits of these rows. Resumed with None."""

    rows: list[Sequence]


@dataclass(frozen=True, slots=True)
class NeedSlots:
    """A slot for each row of the session. Resumed with None."""


@dataclass(frozen=True, slots=True)
class NeedTokens:
    """A token for each of these rows, whose logits are fresh. Resumed with the list of token ids."""

    rows: list[Sequence]


@dataclass(frozen=True, slots=True)
class NeedAnswer:
    """The client's answer to a hook. Resumed with a HookAnswer."""


@dataclass(frozen=True, slots=True)
class NeedCredit:
    """A credit. Resumed with None."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What the client said to a hook."""

    edits: tuple[LogitsEdit, ...]
    stop_rows: tuple[int, ...]


Need = NeedLogits | NeedSlots | NeedTokens | NeedAnswer | NeedCredit
Handler = Generator[Need, Any, Any]


@dataclass(slots=True, eq=False)
class Active:
    """The operation a session is carrying out."""

    operation: Operation
    handler: Handler = field(init=False)
    since: float = field(init=False)
    """When it was submitted, made its last step or heard from its client, whichever was last."""
    has_begun: bool = False
    """Whether a run or a token was made for it."""
    has_stepped: bool = False
    need: Need | None = None
    credits: int | None = None
    """Step events that may still be sent; None for no limit."""
    followers: list[Operation] = field(default_factory=list)
    """Retries that came while it ran: they get the same result."""

    def __post_init__(self) -> None:
        self.since = self.operation.submitted


class Session:
    """One client's rows on one model. Only the engine's thread changes it."""

    def __init__(
        self, session_id: str, model: str, parameters: SamplingParameters, batch_size: int, idle_timeout: float
    ) -> None:
        self.session_id = session_id
        self.model = model
        self.parameters = parameters
        self.rows = [Sequence(row, row_seed(parameters.seed, row)) for row in range(batch_size)]
        self.idle_timeout = idle_timeout
        self.adapter = ""
        self.extra_inputs: dict[str, NDArray[Any]] = {}
        self.extra_inputs_start: dict[int, int] = {}
        """Per row, the position from which inputs with a token dimension count."""
        self.options: dict[str, str] = {}
        self.next_tokens: tuple[int, ...] | None = None
        """One per row, of the last step; None where no step was made since the last append or rewind."""
        self.exact_recompute = True
        """Whether tokens and kinds are enough to compute the cache again. Not after a switch of adapters or inputs."""
        self.queue: deque[Operation] = deque()
        self.active: Active | None = None
        self.results: OrderedDict[tuple[type[Operation], str], Any] = OrderedDict()
        """By kind of operation and request id: an id means nothing to an operation of another kind."""
        self.status = SessionStatus.IDLE
        self.last_used = 0.0
        """Seconds since the epoch."""
        self.runs_in_slots = 0
        """Runs since it got its slots that took it further: what fairness goes by."""
        self.waiting_since = 0.0
        """When its operation first had to wait for slots; 0 where it does not."""

    def move_to(self, status: SessionStatus) -> None:
        """The one place where the status changes. An illegal move is a bug and raises."""
        if status is not self.status:
            if status not in _MOVES[self.status]:
                raise RuntimeError(f"session {self.session_id}: {self.status.name} -> {status.name} is no legal move")
            self.status = status

    @property
    def length(self) -> int:
        return max(row.length for row in self.rows)

    @property
    def unfinished(self) -> list[Sequence]:
        return [row for row in self.rows if not row.is_done]

    @property
    def has_slots(self) -> bool:
        return all(row.slot is not None for row in self.rows)

    @property
    def is_parked(self) -> bool:
        """Whether rows with something in the cache are out of their slots."""
        return any(row.slot is None and (row.saved is not None or row.length > 0) for row in self.rows)

    @property
    def expire_time(self) -> float:
        return self.last_used + self.idle_timeout

    def snapshot(self) -> SessionSnapshot:
        return SessionSnapshot(
            session_id=self.session_id,
            model=self.model,
            adapter=self.adapter,
            rows=tuple(row.snapshot() for row in self.rows),
            expire_time=self.expire_time,
            parked=self.is_parked,
        )

    def fork(self, session_id: str, parameters: SamplingParameters, idle_timeout: float) -> Session:
        """A session with the same rows and settings, none of whose rows is in the cache yet."""
        other = Session(session_id, self.model, parameters, len(self.rows), idle_timeout)
        other.rows = [row.fork() for row in self.rows]
        if parameters.seed != self.parameters.seed:
            for row in other.rows:
                row.seed = row_seed(parameters.seed, row.row)
        if parameters.stop_strings != self.parameters.stop_strings:
            for row in other.rows:
                row.text = None
        other.adapter = self.adapter
        other.extra_inputs, other.extra_inputs_start = dict(self.extra_inputs), dict(self.extra_inputs_start)
        other.options = dict(self.options)
        other.next_tokens = self.next_tokens
        other.exact_recompute = self.exact_recompute
        return other

    def remember(self, operation: Operation, result: Any) -> None:
        """Keeps a result for retries."""
        if operation.request_id:
            self.results[type(operation), operation.request_id] = result
            if len(self.results) > KEPT_RESULTS:
                self.results.popitem(last=False)
