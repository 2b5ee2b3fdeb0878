"""Appending: what may be appended, where and when; all of it or nothing."""

from __future__ import annotations

import numpy as np
import pytest
from driver import COMBINED, GPT2, LLAMA, Session, load_model, prompt, raises, running, tokens_of

from runtime import Engine, Model
from runtime import operations as ops
from runtime.errors import ContextLengthExceeded, InvalidArgument
from runtime.operations import FinishReason

BAD_TOKENS = [-1, 512, 2**31 - 1, 2**31, 2**32 - 1, -(2**63), 2**63 - 1]


def test_rows_may_have_any_lengths_and_be_appended_to_at_any_time(any_engine: Engine) -> None:
    session = Session(any_engine, [11, 12, 13], [14], [15, 16], min_new_tokens=10_000)
    session.append({1: [20, 21]}).generate(2)
    session.append([30], [31, 32, 33, 34], [35])
    assert [row.length for row in session.state.rows] == [6, 9, 5]
    assert session.sequence(1)[:3] == [14, 20, 21]
    assert session.sequence(1)[5:] == [31, 32, 33, 34]


def test_an_append_computes_what_it_appends_so_that_reading_logits_runs_nothing(engine: Engine) -> None:
    session = Session(engine).append(prompt(30))
    before = engine.stats().prefill_tokens
    session.logits()
    assert engine.stats().prefill_tokens == before


def test_appending_clears_done(any_engine: Engine) -> None:
    session = Session(any_engine, [11, 12], max_new_tokens=2)
    session.generate(None)
    assert session.state.is_done
    assert not session.append([13]).state.is_done
    assert session.generate(None).steps == 2


def test_an_append_clears_done_of_the_rows_it_names_only(engine: Engine) -> None:
    session = Session(engine, [11, 12], [13, 14], max_new_tokens=1)
    session.generate(1)
    session.append({1: [15]})
    assert session.finish_reasons() == [FinishReason.LENGTH, FinishReason.NONE]


def test_an_append_after_the_end_token_continues_the_sequence_with_it(engine: Engine) -> None:
    session = Session(engine, [11, 12])
    session.force(2).generate(1)
    assert session.state.rows[0].finish_reason is FinishReason.EOS
    session.append([13, 14])
    assert session.sequence() == [11, 12, 2, 13, 14]
    np.testing.assert_allclose(session.logits(), Session(engine, [11, 12, 2, 13, 14]).logits(), atol=1e-4)


@pytest.mark.parametrize("name", [LLAMA, GPT2, COMBINED])
def test_generating_and_appending_in_turns_equals_appending_everything_at_once(name: str) -> None:
    """The last generated token is in the cache before the append is (case 3)."""
    with running(load_model(name)) as engine:
        turns = Session(engine, prompt(5), min_new_tokens=10_000)
        turns.generate(5)
        turns.append(prompt(4, 1))
        at_once = Session(engine, turns.sequence(), min_new_tokens=10_000)
        np.testing.assert_allclose(turns.logits(), at_once.logits(), atol=1e-4)
        assert turns.tokens(5) == at_once.tokens(5)


@pytest.mark.parametrize("name", [LLAMA, GPT2])
def test_50_turns_compute_each_token_once_and_keep_one_row(name: str) -> None:
    """No prefill is done again, and nothing grows but the tokens (case 4)."""
    with running(load_model(name)) as engine:
        session = Session(engine, min_new_tokens=10_000)
        for turn in range(50):
            session.append(prompt(2, turn)).generate(2)
        stats = engine.stats()
    assert session.state.length == 200
    assert (stats.prefill_tokens, stats.generated_tokens) == (100, 100)
    assert (stats.sessions, stats.slots_used, stats.parked) == (1, 1, 0)


# --- refused, with nothing changed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("inputs", [{}, {0: []}, {0: [11], 1: []}], ids=str)
def test_nothing_to_append_is_refused(engine: Engine, inputs: dict[int, list[int]]) -> None:
    session = Session(engine, [11, 12], [13])
    with pytest.raises(InvalidArgument, match="at least one"):
        session.append(inputs)
    assert session.sequences() == [[11, 12], [13]]


@pytest.mark.parametrize("row", [-1, 2, 2**31])
def test_rows_that_are_not_there_are_refused(engine: Engine, row: int) -> None:
    session = Session(engine, [11], [12])
    with raises(InvalidArgument, field="inputs.row"):
        session.append({0: [13], row: [13]})
    assert session.sequences() == [[11], [12]]


@pytest.mark.parametrize("token", BAD_TOKENS)
def test_tokens_outside_the_vocabulary_are_refused_by_place_and_mates_are_unharmed(
    llama: Model, engine: Engine, token: int
) -> None:
    """In a create, an append and a generate (case 9)."""
    mate = Session(engine, prompt(6), min_new_tokens=10_000)
    stepping = mate.start(ops.Generate, steps=30)
    session = Session(engine, [11], [12])
    inputs = tokens_of([[13], [14, token]])
    for kind in (ops.Append, ops.Generate):
        with raises(InvalidArgument, field="inputs[1].tokens[1]"):
            session.do(kind, inputs=inputs)
    with raises(InvalidArgument, field="inputs[1].tokens[1]"):
        Session(engine, [13], [14, token])
    assert session.sequences() == [[11], [12]]
    with running(llama) as other:
        expected = Session(other, prompt(6), min_new_tokens=10_000).tokens(30)
    assert stepping.result().rows[0].token_ids == expected


def test_an_append_past_max_length_appends_nothing_to_any_row(engine: Engine) -> None:
    session = Session(engine, [11, 12], [13], max_length=4)
    with raises(ContextLengthExceeded, reason="CONTEXT_LENGTH_EXCEEDED"):
        session.append([14], [15, 16, 17, 18])
    assert session.sequences() == [[11, 12], [13]]
    assert not session.refresh().is_done
    session.append([14, 15], [16])
    assert session.finish_reasons() == [FinishReason.LENGTH, FinishReason.NONE]


def test_a_create_that_cannot_append_leaves_no_session(engine: Engine) -> None:
    before = engine.stats().sessions
    with pytest.raises(ContextLengthExceeded):
        Session(engine, prompt(5), max_length=4, session_id="never-there")
    assert engine.stats().sessions == before
    assert not engine.has_session("never-there")


def test_the_largest_length_is_that_of_the_model(llama: Model, engine: Engine) -> None:
    session = Session(engine, prompt(llama.max_length - 1), min_new_tokens=10_000)
    assert session.generate(None).steps == 1
    assert session.finish_reasons() == [FinishReason.LENGTH]
    session.close()
