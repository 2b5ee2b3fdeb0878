"""Edits of logits as pure functions: order, kinds, and no input that is written to."""

from __future__ import annotations

import numpy as np
import pytest
from driver import raises
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import InvalidArgument
from runtime.logits_edits import edited, is_complete, select
from runtime.operations import EditKind, LogitsEdit, LogitsSelector

SIZE = 6


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_an_edit_never_writes_to_its_input() -> None:
    logits = floats(1, 2, 3, 4, 5, 6)
    edited(logits, 0, [LogitsEdit(token_ids=ids(1)), LogitsEdit(values=floats(0, 0, 0, 0, 0, 0))])
    assert logits.tolist() == [1, 2, 3, 4, 5, 6]


def test_an_edit_of_another_row_is_left_out() -> None:
    assert edited(floats(1, 2, 3), 0, [LogitsEdit(row=1, token_ids=ids(0))]).tolist() == [1, 2, 3]


def test_dense_rows_give_each_row_its_own() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert edited(floats(9, 9, 9), 1, [LogitsEdit(values=values)]).tolist() == [3, 4, 5]


def test_minus_infinity_times_zero_is_refused_and_times_a_positive_number_stays() -> None:
    logits = floats(-np.inf, 1)
    with raises(InvalidArgument, field="edits"):
        edited(logits, 0, [LogitsEdit(kind=EditKind.MULTIPLY, values=floats(0), token_ids=ids(0))])
    double = LogitsEdit(kind=EditKind.MULTIPLY, values=floats(2), token_ids=ids(0))
    assert edited(logits, 0, [double])[0] == -np.inf


@pytest.mark.parametrize(
    "edit",
    [
        LogitsEdit(allowed=np.zeros(3, np.bool_)),
        LogitsEdit(token_ids=ids(0, 1, 2)),
        LogitsEdit(values=floats(-np.inf, -np.inf, -np.inf)),
        LogitsEdit(kind=EditKind.ADD, values=floats(-np.inf, -np.inf, -np.inf), token_ids=ids(0, 1, 2)),
    ],
)
def test_edits_that_leave_no_token_possible_are_refused(edit: LogitsEdit) -> None:
    with raises(InvalidArgument, field="edits"):
        edited(floats(1, 2, 3), 0, [edit])


def test_edits_are_complete_where_the_first_sets_every_logit_of_every_row() -> None:
    dense, sparse = LogitsEdit(values=floats(1, 2)), LogitsEdit(token_ids=ids(0))
    assert is_complete([dense, sparse])
    assert not is_complete([sparse, dense])
    assert not is_complete([LogitsEdit(row=0, values=floats(1, 2))])
    assert not is_complete([])


values = st.floats(-100, 100, width=32)
sparse_edits = st.builds(
    lambda kind, pairs: LogitsEdit(kind=kind, values=floats(*pairs.values()), token_ids=ids(*pairs)),
    st.sampled_from(EditKind),
    st.dictionaries(st.integers(0, SIZE - 1), values, min_size=1),
)


@given(st.lists(values, min_size=SIZE, max_size=SIZE), st.lists(sparse_edits, max_size=4))
def test_sparse_edits_are_what_a_loop_over_them_gives(logits: list[float], edits: list[LogitsEdit]) -> None:
    expected = floats(*logits)
    for edit in edits:
        assert edit.values is not None
        assert edit.token_ids is not None
        for token, value in zip(edit.token_ids, edit.values, strict=True):
            if edit.kind is EditKind.SET:
                expected[token] = value
            elif edit.kind is EditKind.ADD:
                expected[token] += value
            else:
                expected[token] *= value
    np.testing.assert_array_equal(edited(floats(*logits), 0, edits), expected)


@given(st.lists(st.lists(values, min_size=SIZE, max_size=SIZE), min_size=1, max_size=3), st.integers(1, SIZE))
def test_the_largest_logits_are_given_in_falling_order(rows: list[list[float]], count: int) -> None:
    logits = np.array(rows, np.float32)
    selected = select(logits, LogitsSelector(top_k=count))
    assert selected.token_ids is not None
    np.testing.assert_array_equal(selected.token_ids, np.argsort(-logits, axis=1, kind="stable")[:, :count])
    np.testing.assert_array_equal(selected.values, np.take_along_axis(logits, selected.token_ids, 1))
