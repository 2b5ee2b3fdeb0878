"""When rows are done, why, and what a step gives for those that are."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from driver import GPT2, MODELS, Session, prompt, raises, running

from runtime import Engine, Model
from runtime import operations as ops
from runtime.errors import FailedPrecondition, InvalidArgument
from runtime.operations import FinishReason, LogitsEdit

NEVER_DONE = {"min_new_tokens": 10_000}
GREEDY = [54, 298, 83, 409, 353, 267, 340, 370, 75, 274, 72, 95, 407, 88, 299, 281, 74]
"""Ends by itself after nine tokens, the last of them the end token."""
GREEDY_TOKENS = [377, 162, 16, 508, 442, 183, 503, 12, 2]


def reasons(session: Session) -> list[str]:
    return [reason.name for reason in session.finish_reasons()]


def test_the_end_token_ends_a_row_and_is_part_of_it(engine: Engine) -> None:
    session = Session(engine, GREEDY)
    assert session.tokens(None) == GREEDY_TOKENS
    assert session.sequence() == GREEDY + GREEDY_TOKENS
    assert reasons(session) == ["EOS"]
    assert session.state.is_done


@pytest.mark.parametrize("end", [442, 16])
def test_every_token_of_a_list_of_end_tokens_ends_a_row(engine: Engine, end: int) -> None:
    session = Session(engine, GREEDY, eos_token_id=(500, end))
    assert session.tokens(None) == GREEDY_TOKENS[: GREEDY_TOKENS.index(end) + 1]
    assert reasons(session) == ["EOS"]


def test_end_tokens_of_a_request_replace_those_of_the_model(engine: Engine) -> None:
    session = Session(engine, GREEDY, eos_token_id=(511,), max_new_tokens=12)
    assert session.tokens(None)[:9] == GREEDY_TOKENS
    assert session.generate(0).snapshot.rows[0].new_tokens > 9


def test_max_new_tokens_counts_from_the_last_append(engine: Engine) -> None:
    session = Session(engine, GREEDY, max_new_tokens=3)
    assert session.generate(None).steps == 3
    assert reasons(session) == ["LENGTH"]
    assert session.append([11, 12]).generate(None).steps == 3


def test_max_length_counts_everything(engine: Engine) -> None:
    session = Session(engine, GREEDY, max_length=20)
    assert session.generate(None).steps == 3
    assert reasons(session) == ["LENGTH"]


def test_min_new_tokens_puts_the_end_token_off(engine: Engine) -> None:
    session = Session(engine, GREEDY, min_new_tokens=12, max_new_tokens=40)
    tokens = session.tokens(None)
    assert tokens[:8] == GREEDY_TOKENS[:8]
    assert 2 not in tokens[:12]


def test_the_end_token_wins_over_the_limit_it_comes_with(engine: Engine) -> None:
    session = Session(engine, GREEDY, max_new_tokens=9)
    session.generate(None)
    assert reasons(session) == ["EOS"]


def test_rows_finish_on_their_own_and_then_give_the_pad_token(any_engine: Engine) -> None:
    pad, end = 7, 9
    session = Session(any_engine, prompt(3), prompt(4), eos_token_id=(end,), pad_token_id=pad)
    ending = LogitsEdit(row=0, values=np.array([1e9], np.float32), token_ids=np.array([end]))
    first = session.generate(1, edits=[ending])
    assert first.next_tokens[0] == end
    second = session.generate(1)
    assert second.next_tokens[0] == pad
    assert [output.row for output in second.rows] == [1]
    assert session.do(ops.GetNextTokens).value == second.next_tokens
    assert session.sequence(0) == [*prompt(3), end]
    assert reasons(session) == ["EOS", "NONE"]


def test_a_step_of_a_finished_session_is_an_error_and_leaves_it_as_it_is(engine: Engine) -> None:
    session = Session(engine, GREEDY, max_new_tokens=2)
    session.generate(None)
    for steps in (1, None, 5):
        with raises(FailedPrecondition, reason="SESSION_DONE"):
            session.generate(steps)
    assert session.sequence() == GREEDY + GREEDY_TOKENS[:2]
    assert reasons(session) == ["LENGTH"]


def test_reading_a_finished_session_leaves_it_finished(engine: Engine) -> None:
    session = Session(engine, GREEDY, max_new_tokens=2)
    session.generate(None)
    session.logits()
    session.generate(0, read=ops.LogitsSelector(top_k=1))
    assert reasons(session) == ["LENGTH"]


def test_steps_stop_where_the_session_is_done(engine: Engine) -> None:
    generated = Session(engine, GREEDY).generate(100)
    assert generated.steps == 9
    assert generated.next_tokens == (2,)


def test_no_steps_are_allowed_and_negative_ones_are_not(engine: Engine) -> None:
    session = Session(engine, GREEDY)
    assert session.generate(0).steps == 0
    with raises(InvalidArgument, field="steps"):
        session.generate(-1)


def test_every_step_is_told_with_the_rows_that_got_a_token(engine: Engine) -> None:
    session = Session(engine, GREEDY, [11, 12], max_new_tokens=9, eos_token_id=(GREEDY_TOKENS[2],))
    pending = session.start(ops.Generate, steps=None)
    generated = pending.result()
    told = [pending.next_step() for _ in range(pending.steps_told())]
    assert len(told) == generated.steps
    by_row = [[token.token_id for step in told for token in step.rows if token.row == row] for row in (0, 1)]
    assert by_row == [output.token_ids for output in generated.rows]
    assert by_row[0] == GREEDY_TOKENS[:3]
    assert told[2].rows[0].finish_reason is FinishReason.EOS


def test_there_are_no_next_tokens_before_the_first_step(engine: Engine) -> None:
    session = Session(engine, GREEDY)
    with raises(FailedPrecondition, reason="NOTHING_GENERATED"):
        session.do(ops.GetNextTokens)


def test_a_sequence_can_be_read_from_any_place(engine: Engine) -> None:
    session = Session(engine, [11, 12, 13])
    assert [session.sequence(0, start) for start in range(4)] == [[11, 12, 13], [12, 13], [13], []]
    for field, value in [("start", 4), ("start", -1), ("row", 1), ("row", -1)]:
        with raises(InvalidArgument, field=field):
            session.do(ops.GetSequence, **{field: value})


STOP = "copy of that"


# --- stop strings ----------------------------------------------------------------------------------------------------


def along(engine: Engine, tokens: list[int], stop_strings: tuple[str, ...]) -> tuple[list[str], Session]:
    """Deltas of the steps that give these tokens, until a stop string ends the row."""
    session = Session(engine, [11], stop_strings=stop_strings)
    deltas = []
    for token in tokens:
        if session.state.is_done:
            break
        session.force(token)
        pending = session.start(ops.Generate, steps=1)
        pending.result()
        session.refresh()
        deltas.append(pending.next_step().rows[0].text)
    return deltas, session


@pytest.mark.parametrize(
    ("text", "stop", "before"),
    [
        ("of Paris, and", "Pari", "of "),  # ends inside a token or a word (case 6)
        ("int j; k", ";", "int j"),  # the token may be "j;"
        ("the software and associated", "are and ass", "the softw"),  # over several tokens
        ("naïve café", "é", "naïve caf"),  # of several bytes
        ("one two", "one", ""),
    ],
)
def test_a_stop_string_ends_the_row_before_it_and_is_told(engine: Engine, text: str, stop: str, before: str) -> None:
    deltas, session = along(engine, engine.tokenizer.encode(text), ("never", stop))
    assert "".join(deltas) == before
    row = session.state.rows[0]
    assert (row.finish_reason, row.stop_string) == (FinishReason.STOP_STRING, stop)


def test_what_may_still_become_a_stop_string_is_held_back_until_it_cannot(engine: Engine) -> None:
    """Case 7."""
    tokens = engine.tokenizer.encode("a copy of this software")
    deltas, session = along(engine, tokens, (STOP,))
    for count in range(1, len(tokens) + 1):
        text = engine.tokenizer.decode(tokens[:count])
        held = max(length for length in range(len(STOP)) if text.endswith(STOP[:length]))
        assert "".join(deltas[:count]) == text[: len(text) - held]
    assert max(len(delta) for delta in deltas) > len("copy")  # what was held back came at once
    assert session.finish_reasons() == [FinishReason.NONE]


def test_the_end_of_a_row_lets_go_of_what_was_held_back(engine: Engine) -> None:
    session = Session(engine, [11], stop_strings=(STOP,), max_new_tokens=4)
    tokens = engine.tokenizer.encode("copy of")[:3]
    text = ""
    for token in [*tokens, 2]:
        text += session.force(token).generate(1).rows[0].text
    assert text == engine.tokenizer.decode(tokens)


def test_the_token_that_completed_a_stop_string_is_in_the_sequence(engine: Engine) -> None:
    tokens = engine.tokenizer.encode("one two three")
    _, session = along(engine, tokens, ("two",))
    sequence = session.sequence()[1:]
    assert sequence == tokens[: len(sequence)]
    assert "two" in engine.tokenizer.decode(sequence)


def test_an_append_starts_the_text_anew(engine: Engine) -> None:
    """What was said before it is no beginning of a stop string."""
    one, two = engine.tokenizer.encode("on"), engine.tokenizer.encode("e")
    session = Session(engine, [11], stop_strings=("one",))
    for token in one:
        session.force(token).generate(1)
    session.append([12])
    for token in two:
        session.force(token).generate(1)
    assert session.finish_reasons() == [FinishReason.NONE]


def test_stop_strings_need_a_tokenizer(tmp_path: Path) -> None:
    for name in ("config.json", "model.onnx"):
        shutil.copy(MODELS / GPT2 / name, tmp_path)
    with running(Model.load(tmp_path)) as engine, raises(InvalidArgument, field="stop_strings"):
        Session(engine, [11], stop_strings=("a",))
