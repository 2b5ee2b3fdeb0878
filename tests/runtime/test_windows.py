"""Windows of slots: every active slot in exactly one, none outside the buffer, none narrower than allowed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.kv_cache.windows import MAX_GAP, plan_windows


def test_neighbours_share_a_window() -> None:
    assert plan_windows([2, 3, 4], 16) == [(2, 3)]


def test_a_small_gap_is_carried_along_and_a_large_one_is_not() -> None:
    assert plan_windows([0, MAX_GAP + 1], 16) == [(0, MAX_GAP + 2)]
    assert plan_windows([0, MAX_GAP + 2], 16) == [(0, 1), (MAX_GAP + 2, 1)]


def test_nothing_active_is_no_window() -> None:
    assert plan_windows([], 16) == []


def test_a_row_that_must_not_run_alone_gets_a_neighbour_also_at_the_end() -> None:
    assert plan_windows([3], 16, min_rows=2) == [(3, 2)]
    assert plan_windows([15], 16, min_rows=2) == [(14, 2)]


@given(rows=st.integers(2, 40), active=st.sets(st.integers(0, 39)), min_rows=st.integers(1, 2))
def test_windows_cover_every_active_slot_once_within_the_buffer(rows: int, active: set[int], min_rows: int) -> None:
    slots = sorted(slot for slot in active if slot < rows)
    windows = plan_windows(slots, rows, min_rows)
    covered = [slot for first, count in windows for slot in range(first, first + count)]
    assert set(slots) <= set(covered)
    assert len(covered) == len(set(covered))
    assert all(0 <= slot < rows for slot in covered)
    assert all(count >= min_rows for _, count in windows)
