"""An operation never runs further ahead than its reader allowed, nor than WINDOW beyond what was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.sinks import WINDOW, Window


class Engine:
    """Counts what it was allowed, as the real one does."""

    def __init__(self) -> None:
        self.allowed = 0

    def acknowledge(self, operation: object, events: int) -> None:
        assert events > 0
        self.allowed += events


@given(
    granted=st.none() | st.integers(1, 200),
    moves=st.lists(st.one_of(st.just("write"), st.integers(1, 100)), max_size=300),
)
def test_both_bounds_hold_at_all_times_and_nothing_is_held_back_for_long(
    granted: int | None, moves: list[str | int]
) -> None:
    engine, window = Engine(), Window(granted)
    engine.allowed, written, total = window.size, 0, granted
    for move in moves:
        if move == "write":
            if written < engine.allowed:
                written += 1
                window.written(engine, None)  # type: ignore[arg-type]
        elif isinstance(move, int):
            window.grant(move, engine, None)  # type: ignore[arg-type]
            total = None if total is None else total + move
        assert engine.allowed <= written + WINDOW
        assert total is None or engine.allowed <= total
        assert engine.allowed > written or written == total, "the engine must never wait for what it may do"
        assert window.exhausted == (written == total)
