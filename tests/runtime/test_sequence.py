"""Rows: kinds of positions, and the runs that compute them, whatever is lost or cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.operations import FinishReason
from runtime.sequence import ATTENTION_BLOCK, Kind, Sequence, piece_of_run

LOGITS = np.zeros(4, np.float32)
G, S, R, N = Kind.GENERATED, Kind.SINGLE, Kind.RUN_START, Kind.RUN


def row(*pieces: int, generated: int = 0) -> Sequence:
    """Appended runs of these lengths, then generated tokens."""
    sequence = Sequence(0, 0)
    for length in pieces:
        sequence.append(np.arange(length) + 10)
    for token in range(generated):
        sequence.add_generated(token)
    return sequence


def runs(sequence: Sequence, chunk: int = 128) -> list[tuple[int, int]]:
    """Runs until the logits are fresh."""
    made = []
    while not sequence.is_fresh:
        start, count = sequence.next_run(chunk)
        sequence.record_run(start, count, LOGITS)
        made.append((start, count))
        assert len(made) <= 2 * sequence.length + 2
    return made


# --- kinds -----------------------------------------------------------------------------------------------------------


def test_positions_carry_how_they_came_to_be() -> None:
    assert row(1, 3, 2, generated=2).kinds.tolist() == [S, R, N, N, R, N, G, G]


def test_a_cut_that_leaves_one_token_of_a_run_makes_it_a_single_to_be_computed_again() -> None:
    sequence = row(2, 3)
    runs(sequence)
    sequence.rewind(3)
    assert sequence.kinds.tolist() == [R, N, S]
    assert runs(sequence) == [(2, 1)]


def test_a_cut_within_a_run_that_leaves_more_keeps_what_was_computed() -> None:
    sequence = row(2, 5)
    runs(sequence)
    sequence.rewind(5)
    assert sequence.kinds.tolist() == [R, N, R, N, N]
    assert sequence.computed == 5


# --- runs ------------------------------------------------------------------------------------------------------------


def test_generated_tokens_and_singles_run_alone_and_runs_as_runs() -> None:
    assert runs(row(1, 3, generated=2)) == [(0, 1), (1, 3), (4, 1), (5, 1)]


def test_a_generated_token_is_not_merged_with_the_run_that_follows_it() -> None:
    sequence = row(2, generated=1)
    sequence.append(np.arange(3))
    assert runs(sequence) == [(0, 2), (2, 1), (3, 3)]


def test_neighbouring_runs_may_be_computed_together() -> None:
    assert runs(row(3, 4)) == [(0, 7)]


def test_the_last_position_alone_of_a_run_is_computed_with_its_neighbour() -> None:
    """After a rewind the logits are gone and everything else is there."""
    sequence = row(5)
    runs(sequence)
    sequence.rewind(4)
    assert runs(sequence) == [(2, 2)]


def test_a_generated_last_position_is_computed_again_alone() -> None:
    sequence = row(3, generated=3)
    runs(sequence)
    sequence.rewind(5)
    assert runs(sequence) == [(4, 1)]


def test_where_one_position_of_a_run_is_missing_it_is_computed_with_the_one_before() -> None:
    sequence = row(4)
    sequence.computed = 3
    assert runs(sequence) == [(2, 2)]


def test_everything_lost_is_computed_in_its_kinds() -> None:
    sequence = row(1, 40, generated=2)
    first = runs(sequence, chunk=16)
    sequence.forget_computed()
    assert runs(sequence, chunk=16) == first


@given(remaining=st.integers(2, 700), chunk=st.integers(2, 256))
def test_a_run_is_cut_into_pieces_none_of_which_leaves_a_position_alone(remaining: int, chunk: int) -> None:
    pieces = []
    while remaining:
        pieces.append(piece_of_run(remaining, chunk))
        remaining -= pieces[-1]
        assert remaining >= 0
    assert all(1 < piece <= max(chunk, 3) for piece in pieces)
    assert all(piece % ATTENTION_BLOCK != 1 for piece in pieces)


@given(st.data())
def test_any_history_is_computed_in_order_up_to_its_end(data: st.DataObject) -> None:
    """Every position of a run is computed with a neighbour of its own run or the next, all others alone."""
    sequence = Sequence(0, 0)
    for _ in range(data.draw(st.integers(1, 12))):
        match data.draw(st.sampled_from(["append", "generate", "rewind", "run", "lose"])):
            case "append":
                sequence.append(np.zeros(data.draw(st.integers(1, 40)), np.int64))
            case "generate" if sequence.length:
                sequence.add_generated(0)
            case "rewind":
                sequence.rewind(data.draw(st.integers(0, sequence.length)))
            case "run" if sequence.length:
                runs(sequence, data.draw(st.integers(2, 64)))
            case "lose":
                sequence.forget_computed()
    if not sequence.length:
        return
    kinds = sequence.kinds.copy()
    for start, count in runs(sequence, data.draw(st.integers(2, 64))):
        alone = kinds[start] <= Kind.SINGLE
        assert alone == (count == 1)
        assert count == 1 or all(kind > Kind.SINGLE for kind in kinds[start : start + count])
    assert sequence.computed == sequence.length


# --- the rest --------------------------------------------------------------------------------------------------------


def test_new_tokens_are_those_since_the_last_append_also_after_a_rewind() -> None:
    sequence = row(3, generated=4)
    assert sequence.new_tokens == 4
    sequence.rewind(5)
    assert sequence.new_tokens == 2
    sequence.rewind(2)
    assert sequence.new_tokens == 0
    sequence.append(np.arange(2))
    assert sequence.new_tokens == 0


@pytest.mark.parametrize("change", ["append", "rewind"])
def test_appends_and_rewinds_reopen_a_row(change: str) -> None:
    sequence = row(3)
    sequence.finish(FinishReason.STOP_STRING, "x")
    if change == "append":
        sequence.append(np.arange(2))
    else:
        sequence.rewind(3)
    assert (sequence.finish_reason, sequence.stop_string) == (FinishReason.NONE, "")


def test_a_fork_shares_nothing_that_can_change() -> None:
    sequence = row(3, generated=1)
    sequence.record_run(0, 4, LOGITS.copy())
    fork = sequence.fork()
    fork.rewind(1)
    fork.append(np.array([7, 8]))
    assert sequence.tokens.tolist() == [10, 11, 12, 0]
    assert sequence.kinds.tolist() == [R, N, N, G]
    assert sequence.is_fresh


def test_rows_grow_without_limit_and_keep_their_tokens() -> None:
    sequence = Sequence(0, 0)
    expected = []
    for length in (1, 63, 1, 200, 1000):
        tokens = np.arange(length) + len(expected)
        sequence.append(tokens)
        expected += tokens.tolist()
    assert sequence.tokens.tolist() == expected
    assert sequence.snapshot().length == 1265
