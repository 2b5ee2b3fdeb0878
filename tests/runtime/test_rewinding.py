"""Rewinding: to any length, of all rows or one, as if what was cut had never been, at the cost of no run."""

from __future__ import annotations

import numpy as np
import pytest
from driver import COMBINED, EMBEDDED, Session, load_model, prompt, raises, running

from runtime import Engine
from runtime import operations as ops
from runtime.errors import FailedPrecondition, InvalidArgument
from runtime.operations import FinishReason

NEVER_DONE = {"min_new_tokens": 10_000}


@pytest.mark.parametrize("length", range(12))
def test_a_rewind_to_any_length_leaves_the_logits_after_that_token(any_engine: Engine, length: int) -> None:
    """7 tokens were appended and 4 generated (case 2)."""
    session = Session(any_engine, prompt(7), **NEVER_DONE)
    session.generate(4)
    whole = session.sequence()
    session.rewind(length)
    assert session.sequence() == whole[:length]
    if length == 0:
        with raises(FailedPrecondition, reason="SESSION_EMPTY"):
            session.logits()
        with raises(FailedPrecondition, reason="SESSION_EMPTY"):
            session.generate(1)
        session.append(whole[:7])
        length = 7
    expected = Session(any_engine, whole[: min(7, length)], **NEVER_DONE)
    expected.generate(max(0, length - 7))
    np.testing.assert_array_equal(session.logits(), expected.logits())
    assert session.tokens(3) == expected.tokens(3)


def test_other_tokens_after_a_rewind_give_the_logits_of_a_new_session(any_engine: Engine) -> None:
    """Case 1."""
    session = Session(any_engine, prompt(5))
    session.logits()
    session.rewind(0).append(prompt(3, 9))
    np.testing.assert_array_equal(session.logits(), Session(any_engine, prompt(3, 9)).logits())


def test_the_same_appends_after_a_rewind_equal_never_having_gone_past_it(any_engine: Engine) -> None:
    """Cut in an appended run, at its second token, at its end, and in generated tokens."""
    for length in (1, 2, 5, 6, 8):
        session = Session(any_engine, prompt(6), **NEVER_DONE)
        session.generate(4)
        session.rewind(length).append(prompt(4, 2)).generate(2)
        fresh = Session(any_engine, prompt(6)[:length], **NEVER_DONE)
        fresh.generate(max(0, length - 6))
        fresh.append(prompt(4, 2)).generate(2)
        np.testing.assert_array_equal(session.logits(), fresh.logits())
        assert session.sequence() == fresh.sequence()


def test_a_rewind_runs_nothing(engine: Engine) -> None:
    session = Session(engine, prompt(20), **NEVER_DONE)
    session.generate(4)
    before = engine.stats()
    session.rewind(10)
    after = engine.stats()
    assert after.model_seconds == before.model_seconds
    assert after.prefill_tokens == before.prefill_tokens


def test_one_row_can_be_rewound_alone(any_engine: Engine) -> None:
    session = Session(any_engine, prompt(5), prompt(6, 1), **NEVER_DONE)
    session.generate(3)
    first, second = session.sequences()
    session.rewind(6, row=1)
    assert session.sequences() == [first, second[:6]]
    session.generate(3)
    assert session.sequence(1) == second


def test_rows_of_other_lengths_can_be_rewound_together(any_engine: Engine) -> None:
    session = Session(any_engine, prompt(5), prompt(9, 1), **NEVER_DONE)
    session.generate(3)
    first, second = session.sequences()
    session.rewind(4)
    assert session.sequences() == [first[:4], second[:4]]


def test_a_rewind_clears_done_and_what_was_generated_counts_again_from_the_append(engine: Engine) -> None:
    session = Session(engine, prompt(4), max_new_tokens=3, eos_token_id=(511,))
    session.generate(None)
    assert session.finish_reasons() == [FinishReason.LENGTH]
    session.rewind(5)
    assert session.finish_reasons() == [FinishReason.NONE]
    assert session.state.rows[0].new_tokens == 1
    assert session.generate(None).steps == 2


def test_a_rewind_to_where_a_limit_holds_leaves_nothing_to_generate(engine: Engine) -> None:
    session = Session(engine, prompt(4), max_new_tokens=2, eos_token_id=(511,))
    session.generate(None)
    session.rewind(6)
    with raises(FailedPrecondition, reason="SESSION_DONE"):
        session.generate(1)


def test_a_rewind_beyond_the_length_changes_no_row(engine: Engine) -> None:
    session = Session(engine, prompt(5), prompt(3))
    with raises(FailedPrecondition, reason="REWIND_BEYOND_LENGTH"):
        session.rewind(4, seed=9)
    assert [len(row) for row in session.sequences()] == [5, 3]
    assert engine.snapshot(session.id).config.seed == session.config.seed


@pytest.mark.parametrize(("field", "value"), [("length", -1), ("row", 2), ("row", -1), ("seed", -1), ("seed", 2**64)])
def test_values_that_cannot_be_are_refused_by_name(engine: Engine, field: str, value: int) -> None:
    session = Session(engine, prompt(5), prompt(5))
    with raises(InvalidArgument, field=field):
        session.do(ops.Rewind, **{"length": 2, field: value})
    assert session.length == 5


def test_next_tokens_are_gone_after_a_rewind(engine: Engine) -> None:
    session = Session(engine, prompt(5), **NEVER_DONE)
    session.generate(2)
    session.rewind(6)
    with raises(FailedPrecondition, reason="NOTHING_GENERATED"):
        session.do(ops.GetNextTokens)


def test_models_with_embeddings_beside_the_tokens_can_be_rewound() -> None:
    """Case 1 where the tokens alone do not say what to compute: the inputs are set again from where it was cut."""
    with running(load_model(EMBEDDED)) as engine:
        embeddings = np.random.default_rng(0).normal(size=(1, 5, 64)).astype(np.float32)

        def fed(session: Session, part: np.ndarray, tokens: list[int]) -> np.ndarray:
            session.do(ops.SetInputs, inputs={"inputs_embeds": part})
            return session.append(tokens).logits()

        session = Session(engine)
        fed(session, embeddings, [2, 3, 4, 5, 6])
        again = fed(session.rewind(0), embeddings[:, :3], [7, 8, 9])
        np.testing.assert_array_equal(again, fed(Session(engine), embeddings[:, :3], [7, 8, 9]))


def test_a_cache_with_combined_tensors_gives_a_new_sessions_logits_after_many_rewinds() -> None:
    with running(load_model(COMBINED)) as engine:
        session = Session(engine, prompt(8))
        for length in (6, 3, 1, 0):
            session.rewind(length).append(prompt(3, length))
        assert session.sequence() == prompt(3, 0)
        np.testing.assert_array_equal(session.logits(), Session(engine, prompt(3, 0)).logits())
