"""What an engine counts: plain numbers, added to between model runs, that others may read. Times in seconds.

An observation costs a search among a dozen bounds and an addition, so they are made at every step.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import partial

WAITS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds for what a caller waits for, in seconds."""
STEPS = (0.0005, 0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Bounds for a step or a run of the model, in seconds."""
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Bounds for numbers of rows."""


class Histogram:
    """How many values were at most each bound: `counts[i]` of those in (bounds[i - 1], bounds[i]], the last beyond."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """Sum of the values."""

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


@dataclass(slots=True)
class EngineStats:
    """Counts since start, and what is there now."""

    sessions: int = 0
    running: int = 0
    """Sessions with an operation under way."""
    waiting: int = 0
    """Sessions that wait for slots."""
    parked: int = 0
    slots: int = 0
    slots_used: int = 0
    host_cache_bytes: int = 0
    """Host memory that parked rows take."""

    iterations: int = 0
    busy_seconds: float = 0.0
    """Time of iterations, model runs included."""
    model_seconds: float = 0.0
    generated_tokens: int = 0
    appended_tokens: int = 0
    """By operations that succeeded."""
    prefill_tokens: int = 0
    """Positions computed in runs of two or more, those computed again after parking included."""
    sessions_created: int = 0
    sessions_ended: dict[str, int] = field(default_factory=dict)
    """By reason: SESSION_CLOSED or SESSION_EXPIRED."""
    parkings: int = 0
    """Times that a session's slots were taken."""
    prefix_hits: int = 0
    """Rows whose beginning was copied from another row."""
    prefix_misses: int = 0
    """Rows longer than a block that were computed from their first position."""
    reused_tokens: int = 0
    """Positions that were copied instead of computed."""

    queue_time: Histogram = field(default_factory=partial(Histogram, WAITS))
    """From an operation's submission to its first run or token; of operations that need either."""
    time_to_first_token: Histogram = field(default_factory=partial(Histogram, WAITS))
    """From a generate's submission, without what its client took for hooks and credits."""
    inter_token_latency: Histogram = field(default_factory=partial(Histogram, STEPS))
    """From a session's step to its next in the same operation, without what its client took for hooks and credits."""
    operation_time: dict[str, Histogram] = field(default_factory=dict)
    """From submission to result or error, by the operation's class."""
    prefill_time: Histogram = field(default_factory=partial(Histogram, STEPS))
    """Of each run for a single row, mostly of appended tokens."""
    decode_time: Histogram = field(default_factory=partial(Histogram, STEPS))
    """Of each run that computes one position of one or more rows."""
    batch_size: Histogram = field(default_factory=partial(Histogram, ROWS))
    """Rows of each decode run."""

    def operation_ended(self, kind: str, seconds: float) -> None:
        """An operation gave its result or error."""
        histogram = self.operation_time.get(kind)
        if histogram is None:
            histogram = self.operation_time[kind] = Histogram(WAITS)
        histogram.observe(seconds)

    def session_ended(self, reason: str) -> None:
        self.sessions_ended[reason] = self.sessions_ended.get(reason, 0) + 1
