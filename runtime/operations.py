"""What can be asked of a session, and what comes back: plain data between callers and the engine.

An operation goes in with `Engine.submit`; its messages come back through its `sink`, in order, ending with exactly one
of `on_result` and `on_error`. Which thread calls the sink is decided by the engine's `deliver` function.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from runtime.errors import TokenloomError
from runtime.generation_config import GenerationConfig

TokenArray = NDArray[np.int64]
FloatArray = NDArray[np.float32]


class FinishReason(Enum):
    """Why a row generates no more tokens."""

    NONE = auto()
    EOS = auto()
    LENGTH = auto()
    STOP_STRING = auto()
    STOPPED = auto()


# --- what comes back -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowSnapshot:
    """One row at a token boundary. Lengths in tokens."""

    length: int
    new_tokens: int
    finish_reason: FinishReason
    stop_string: str


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A session at a token boundary. `expire_time` is seconds since the epoch."""

    session_id: str
    model: str
    adapter: str
    rows: tuple[RowSnapshot, ...]
    expire_time: float
    parked: bool

    @property
    def length(self) -> int:
        """Largest length of the rows."""
        return max(row.length for row in self.rows)

    @property
    def is_done(self) -> bool:
        """Whether every row is finished."""
        return all(row.finish_reason is not FinishReason.NONE for row in self.rows)


@dataclass(frozen=True, slots=True)
class RowToken:
    """What one row got in one step. `text` is what can be said for sure (see `runtime.detokenizer`)."""

    row: int
    token_id: int
    text: str
    finish_reason: FinishReason
    stop_string: str


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step of a generate operation: every row that was not finished, by row."""

    rows: tuple[RowToken, ...]


@dataclass(frozen=True, slots=True)
class SelectedLogits:
    """values: float32 [rows, vocab_size], or [rows, k] with token_ids [rows, k]."""

    values: FloatArray
    token_ids: TokenArray | None = None


@dataclass(slots=True)
class RowOutput:
    """Everything one row got in a generate operation."""

    row: int
    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: FinishReason = FinishReason.NONE


@dataclass(frozen=True, slots=True)
class SessionCreated:
    """Result of Create and Fork: the state and the settings in force."""

    snapshot: SessionSnapshot
    config: GenerationConfig


@dataclass(frozen=True, slots=True)
class Generated:
    """Result of Generate. `rows` has the rows that got tokens; `next_tokens` one id per row, pad for finished ones."""

    snapshot: SessionSnapshot
    steps: int
    rows: tuple[RowOutput, ...]
    next_tokens: tuple[int, ...]
    logits: SelectedLogits | None
    interrupted: bool


@dataclass(frozen=True, slots=True)
class Value:
    """Result of operations that read something: `value` is what its operation says."""

    snapshot: SessionSnapshot
    value: Any


class Sink(Protocol):
    """Where the messages of an operation go."""

    def on_step(self, step: StepResult) -> None:
        """A step was made (Generate only)."""

    def on_hook(self, logits: SelectedLogits) -> None:
        """A step waits for `Engine.answer_hook` (Generate with `hook` only)."""

    def on_result(self, result: Any) -> None:
        """The operation is done."""

    def on_error(self, error: TokenloomError) -> None:
        """The operation failed; the session is at a token boundary."""


class FutureSink:
    """A sink for callers that wait: the result or error is the future's; steps go to the callback, if there is one."""

    def __init__(
        self,
        on_step: Callable[[StepResult], None] | None = None,
        on_hook: Callable[[SelectedLogits], None] | None = None,
    ) -> None:
        self.future: Future[Any] = Future()
        self._on_step = on_step
        self._on_hook = on_hook

    def on_step(self, step: StepResult) -> None:
        if self._on_step is not None:
            self._on_step(step)

    def on_hook(self, logits: SelectedLogits) -> None:
        if self._on_hook is not None:
            self._on_hook(logits)

    def on_result(self, result: Any) -> None:
        self.future.set_result(result)

    def on_error(self, error: TokenloomError) -> None:
        self.future.set_exception(error)


# --- logits: what to read, how to change -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LogitsSelector:
    """Which logits: all (both unset), the `top_k` largest in falling order, or those of `token_ids`, in that order."""

    top_k: int | None = None
    token_ids: TokenArray | None = None


class EditKind(Enum):
    """How a LogitsEdit changes values."""

    SET = auto()
    ADD = auto()
    MULTIPLY = auto()


@dataclass(frozen=True, slots=True)
class LogitsEdit:
    """One change to the logits of the next step. `row` None: every unfinished row.

    Either `values` with `token_ids` (sparse; both [k]), or `values` alone with kind SET (dense; [vocab_size], or
    [rows, vocab_size] where row is None), or `allowed` (bool [vocab_size]: the others become -inf), or `token_ids`
    alone (those become -inf).
    """

    row: int | None = None
    kind: EditKind = EditKind.SET
    values: FloatArray | None = None
    token_ids: TokenArray | None = None
    allowed: NDArray[np.bool_] | None = None


# --- operations ------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False, slots=True)
class Operation:
    """Base of all operations.

    `request_id`: an operation of the same session with an id that was seen gives the first one's result again.
    `expected_length`: LengthMismatch unless the session's length is this when the operation starts.
    """

    session_id: str
    sink: Sink
    request_id: str = ""
    expected_length: int | None = None
    submitted: float = field(init=False, default_factory=time.perf_counter)
    """When it was made, which is right before it is submitted: what it waits for is measured from here."""


@dataclass(kw_only=True, eq=False, slots=True)
class Create(Operation):
    """-> SessionCreated. `inputs` maps rows to tokens to append first; computed before the result comes."""

    config: GenerationConfig = field(default_factory=GenerationConfig)
    batch_size: int = 1
    adapter: str = ""
    idle_timeout: float = 600.0
    inputs: Mapping[int, TokenArray] = field(default_factory=dict)


@dataclass(kw_only=True, eq=False, slots=True)
class Fork(Operation):
    """-> SessionCreated of the new session. None keeps the original's."""

    new_session_id: str
    seed: int | None = None
    config: GenerationConfig = field(default_factory=GenerationConfig)
    idle_timeout: float | None = None


@dataclass(kw_only=True, eq=False, slots=True)
class Append(Operation):
    """-> Value(None). Appends to the named rows, all or none, and computes them."""

    inputs: Mapping[int, TokenArray]


@dataclass(kw_only=True, eq=False, slots=True)
class Generate(Operation):
    """-> Generated. In this order: appends, edits, makes up to `steps` steps (None: until done), reads `read`.

    `hook`: what to send before each step; the step waits for `Engine.answer_hook`.
    `window`: step events that may be unacknowledged (`Engine.acknowledge`); None for no limit.
    """

    steps: int | None = None
    inputs: Mapping[int, TokenArray] = field(default_factory=dict)
    edits: Sequence[LogitsEdit] = ()
    read: LogitsSelector | None = None
    hook: LogitsSelector | None = None
    window: int | None = None


@dataclass(kw_only=True, eq=False, slots=True)
class Rewind(Operation):
    """-> Value(None). `row` None: all rows."""

    length: int
    row: int | None = None
    seed: int | None = None


@dataclass(kw_only=True, eq=False, slots=True)
class GetState(Operation):
    """-> Value(None)."""


@dataclass(kw_only=True, eq=False, slots=True)
class GetNextTokens(Operation):
    """-> Value(tuple of one id per row)."""


@dataclass(kw_only=True, eq=False, slots=True)
class GetSequence(Operation):
    """-> Value(TokenArray: the row's tokens from `start`)."""

    row: int = 0
    start: int = 0


@dataclass(kw_only=True, eq=False, slots=True)
class GetLogits(Operation):
    """-> Value(SelectedLogits)."""

    selector: LogitsSelector = field(default_factory=LogitsSelector)


@dataclass(kw_only=True, eq=False, slots=True)
class SetLogits(Operation):
    """-> Value(None). All edits or none."""

    edits: Sequence[LogitsEdit]


@dataclass(kw_only=True, eq=False, slots=True)
class SetInputs(Operation):
    """-> Value(None). Named model inputs, checked against the signature, all or none. The first dimension is rows."""

    inputs: Mapping[str, NDArray[Any]]


@dataclass(kw_only=True, eq=False, slots=True)
class GetInput(Operation):
    """-> Value(numpy array)."""

    name: str


@dataclass(kw_only=True, eq=False, slots=True)
class GetOutput(Operation):
    """-> Value(numpy array; first dimension rows)."""

    name: str


@dataclass(kw_only=True, eq=False, slots=True)
class SetAdapter(Operation):
    """-> Value(None). "" is the base model."""

    adapter: str
    recompute: bool = False


@dataclass(kw_only=True, eq=False, slots=True)
class SetRuntimeOption(Operation):
    """-> Value(None)."""

    key: str
    value: str


@dataclass(kw_only=True, eq=False, slots=True)
class Interrupt(Operation):
    """-> Value(None). Overtakes: ends running and queued generate operations, which give their result normally."""


@dataclass(kw_only=True, eq=False, slots=True)
class Close(Operation):
    """-> None. Overtakes: the session's other operations end with Cancelled."""
