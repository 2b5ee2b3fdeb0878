"""Reading and setting the logits of the next token."""

from __future__ import annotations

import numpy as np
import pytest
from driver import Session, prompt, raises, running

from runtime import Engine, Model
from runtime import operations as ops
from runtime.errors import FailedPrecondition, InvalidArgument
from runtime.operations import EditKind, LogitsEdit, LogitsSelector

NEVER_DONE = {"min_new_tokens": 10_000}


def edit(**fields: object) -> LogitsEdit:
    arrays = {"values": np.float32, "token_ids": np.int64, "allowed": np.bool_}
    return LogitsEdit(**{name: np.asarray(v, arrays[name]) if name in arrays else v for name, v in fields.items()})


def test_logits_are_one_float32_row_for_each_row(any_engine: Engine) -> None:
    logits = Session(any_engine, prompt(3), prompt(5)).logits()
    assert logits.shape == (2, any_engine.model.vocab_size)
    assert logits.dtype == np.float32


def test_logits_read_are_the_callers_own(engine: Engine) -> None:
    session = Session(engine, prompt(3))
    mine = session.logits()
    kept = mine.copy()
    mine[:] = 0
    np.testing.assert_array_equal(session.logits(), kept)
    session.generate(3)
    np.testing.assert_array_equal(mine, np.zeros_like(mine))


def test_a_selection_is_of_the_same_values(engine: Engine) -> None:
    session = Session(engine, prompt(3), prompt(5))
    logits = session.logits()
    best = session.do(ops.GetLogits, selector=LogitsSelector(top_k=4)).value
    np.testing.assert_array_equal(best.token_ids, np.argsort(-logits, axis=1, kind="stable")[:, :4])
    np.testing.assert_array_equal(best.values, np.take_along_axis(logits, best.token_ids, 1))
    subset = session.do(ops.GetLogits, selector=LogitsSelector(token_ids=np.array([7, 3, 7]))).value
    np.testing.assert_array_equal(subset.values, logits[:, [7, 3, 7]])


@pytest.mark.parametrize(
    ("selector", "field"),
    [
        ({"top_k": 0}, "top_k"),
        ({"top_k": 513}, "top_k"),
        ({"token_ids": np.array([1, 512])}, "token_ids[1]"),
        ({"token_ids": np.array([-1])}, "token_ids[0]"),
    ],
    ids=str,
)
def test_selections_that_cannot_be_are_refused(engine: Engine, selector: dict[str, object], field: str) -> None:
    session = Session(engine, prompt(3))
    with raises(InvalidArgument, field=field):
        session.logits(**selector)
    with raises(InvalidArgument, field=field):
        session.generate(1, read=LogitsSelector(**selector))
    assert session.length == 3


def test_a_session_without_tokens_has_no_logits(engine: Engine) -> None:
    session = Session(engine, prompt(3), batch_size=2)
    for kind, fields in [
        (ops.GetLogits, {}),
        (ops.SetLogits, {"edits": [edit(token_ids=[1])]}),
        (ops.Generate, {"steps": 1}),
        (ops.GetOutput, {"name": "logits"}),
    ]:
        with raises(FailedPrecondition, reason="SESSION_EMPTY"):
            session.do(kind, **fields)
    assert session.append({1: [5]}).logits().shape == (2, 512)


# --- setting ---------------------------------------------------------------------------------------------------------


def test_logits_that_were_set_are_read_back_and_sampled_from(any_engine: Engine) -> None:
    session = Session(any_engine, prompt(3), prompt(4))
    wanted = np.zeros((2, any_engine.model.vocab_size), np.float32)
    wanted[0, 17], wanted[1, 33] = 5, 4
    session.edit(edit(values=wanted))
    np.testing.assert_array_equal(session.logits(), wanted)
    assert session.generate(1).next_tokens == (17, 33)


def test_logits_that_were_set_are_for_the_next_step_only(engine: Engine) -> None:
    session, plain = Session(engine, prompt(3), **NEVER_DONE), Session(engine, prompt(3), **NEVER_DONE)
    token = plain.tokens(1)[0]
    session.force(token).generate(1)
    np.testing.assert_array_equal(session.logits(), plain.logits())


def test_setting_all_logits_costs_no_run(engine: Engine) -> None:
    session = Session(engine, prompt(3), **NEVER_DONE)
    session.generate(1)
    before = engine.stats().model_seconds
    session.edit(edit(values=np.zeros(512)))
    assert engine.stats().model_seconds == before


def test_a_step_after_logits_were_set_computes_the_skipped_token(engine: Engine) -> None:
    """Dense logits replace a run; the position is computed all the same before the one after it."""
    session, plain = Session(engine, prompt(3), **NEVER_DONE), Session(engine, prompt(3), **NEVER_DONE)
    first, second = plain.tokens(2)
    session.generate(1)
    dense = np.full(512, -1, np.float32)
    dense[second] = 1
    session.edit(edit(values=dense))
    assert session.tokens(1) == [second]
    assert session.sequence()[3:] == [first, second]
    np.testing.assert_array_equal(session.logits(), plain.logits())


def test_edits_are_made_in_order_and_of_their_kinds(engine: Engine) -> None:
    session = Session(engine, prompt(3), prompt(4))
    before = session.logits()
    session.edit(
        edit(token_ids=[5, 6], values=[1.5, 2.5]),
        edit(token_ids=[6], values=[2.0], kind=EditKind.MULTIPLY, row=0),
        edit(token_ids=[7], values=[-3.0], kind=EditKind.ADD),
        edit(token_ids=[8], row=1),
    )
    expected = before.copy()
    expected[:, [5, 6]] = [1.5, 2.5]
    expected[0, 6] = 5
    expected[:, 7] -= 3
    expected[1, 8] = -np.inf
    np.testing.assert_array_equal(session.logits(), expected)


def test_an_allow_mask_leaves_only_its_tokens(engine: Engine) -> None:
    allowed = np.zeros(512, np.bool_)
    allowed[[40, 50]] = True
    session = Session(engine, prompt(3), do_sample=True, top_k=0, temperature=50.0, seed=0)
    drawn = set()
    for _ in range(12):
        session.edit(edit(allowed=allowed))
        drawn |= set(session.tokens(1))
        session.rewind(3, seed=len(drawn) + int(session.config.seed or 0))
    assert drawn <= {40, 50}


def test_processors_follow_what_was_set(engine: Engine) -> None:
    dense = np.zeros(512, np.float32)
    dense[[11, 20]] = [3.0, 2.5]
    session = Session(engine, [11, 12], repetition_penalty=1.5)
    session.edit(edit(values=dense))
    assert session.tokens(1) == [20]  # 3 / 1.5 < 2.5


def test_minus_infinity_is_legal(engine: Engine) -> None:
    dense = np.full(512, -np.inf, np.float32)
    dense[99] = -1e30
    assert Session(engine, prompt(3)).edit(edit(values=dense)).tokens(1) == [99]


NAN, INF = float("nan"), float("inf")
REFUSED = {
    "nothing": ([], "edits"),
    "an empty edit": ([edit()], "edits[0]"),
    "nan": ([edit(token_ids=[3, 4], values=[1, NAN])], "edits[0].values[1]"),
    "dense nan": ([edit(values=[0.0] * 511 + [NAN])], "edits[0].values[511]"),
    "infinity": ([edit(token_ids=[3], values=[INF])], "edits[0].values[0]"),
    "all impossible": ([edit(values=[-INF] * 512)], "edits"),
    "all denied": ([edit(token_ids=list(range(512)))], "edits"),
    "an empty mask": ([edit(allowed=[False] * 512)], "edits"),
    "a short mask": ([edit(allowed=[True] * 511)], "edits[0].allow_mask"),
    "a short row": ([edit(values=[0.0] * 511)], "edits[0].dense"),
    "too many rows": ([edit(values=np.zeros((3, 512)))], "edits[0].dense"),
    "dense rows for one row": ([edit(row=0, values=np.zeros((2, 512)))], "edits[0].dense"),
    "unequal lengths": ([edit(token_ids=[1, 2], values=[1.0])], "edits[0].sparse.values"),
    "a token twice": ([edit(token_ids=[1, 1], values=[1.0, 2.0])], "edits[0].token_ids"),
    "a row that is not there": ([edit(row=2, token_ids=[1])], "edits[0].row"),
    "a token past the end": ([edit(token_ids=[1]), edit(token_ids=[512])], "edits[1].token_ids[0]"),
    "a token as uint32 -1": ([edit(token_ids=[2**32 - 1], values=[0.0])], "edits[0].token_ids[0]"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_edits_that_cannot_be_made_are_refused_by_place_and_change_nothing(engine: Engine, name: str) -> None:
    """Set, in a generate, and as an answer to a hook (cases 9 and 10)."""
    edits, field = REFUSED[name]
    session = Session(engine, prompt(3), prompt(4))
    before = session.logits()
    with raises(InvalidArgument, field=field):
        session.do(ops.SetLogits, edits=edits)
    if edits:
        with raises(InvalidArgument, field=field):
            session.generate(1, edits=edits)
        hooked = session.start(ops.Generate, steps=1, hook=LogitsSelector(top_k=1))
        hooked.next_hook()
        hooked.answer(edits)
        assert getattr(hooked.error(), "field", None) == field
    np.testing.assert_array_equal(session.logits(), before)
    assert session.length == 4


def test_a_mate_of_a_session_with_impossible_logits_goes_on(llama: Model) -> None:
    """min_new_tokens takes away the only token that was left: an error of that session alone (case 10)."""
    with running(llama) as engine:
        expected = Session(engine, prompt(6), **NEVER_DONE).tokens(20)
    with running(llama) as engine:
        mate = Session(engine, prompt(6), **NEVER_DONE)
        session = Session(engine, prompt(3), min_new_tokens=3)
        stepping = mate.start(ops.Generate, steps=20)
        session.force(2)
        with raises(FailedPrecondition, reason="LOGITS_NOT_FINITE"):
            session.generate(1)
        assert stepping.result().rows[0].token_ids == expected
        assert session.sequence() == prompt(3)
        assert len(session.rewind(2).append([9]).tokens(2)) == 2
        assert engine.alive
