"""What every method of a session does, over a real server, for both clients."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

import tokenloom
from tokenloom import FinishReason, edit, errors

VOCABULARY = 512
PROMPT = 5


def greedy(session: Any, steps: int = 12) -> list[int]:
    """The tokens that would come, leaving the session as it was."""
    with session.fork() as fork:
        return [token.token_id for token in fork.tokens(steps)]


# --- append ----------------------------------------------------------------------------------------------------------


def test_appended_tokens_are_in_the_sequence(session: Any) -> None:
    session.append_tokens([7, 8, 9])
    session.append_tokens(np.array([10], dtype=np.int64))
    assert session.get_sequence().tolist()[PROMPT:] == [7, 8, 9, 10]
    assert session.token_count() == PROMPT + 4


def test_rows_may_be_appended_at_different_lengths(client: Any) -> None:
    with client.create_session(model="tiny", batch_size=2) as session:
        session.append_tokens([[7, 8, 9], [10]])
        session.append_tokens(np.array([[11, 12], [13, 14]]))
        session.append_tokens([15], rows=[1])
        assert session.get_sequence(0).tolist() == [7, 8, 9, 11, 12]
        assert session.get_sequence(1).tolist() == [10, 13, 14, 15]
        assert [session.token_count(row) for row in (0, 1)] == [5, 4]


def test_masked_tokens_are_padding_and_dropped(session: Any) -> None:
    session.append_tokens([0, 0, 7, 8], attention_mask=[0, 0, 1, 1])
    assert session.get_sequence(start=PROMPT).tolist() == [7, 8]


def test_text_and_messages_are_tokenized_by_the_server(client: Any, session: Any) -> None:
    session.append_text(" return None")
    assert session.get_text() == "def main( return None"
    before = session.token_count()
    session.append_messages([{"role": "user", "content": "hi"}])
    template = client.apply_chat_template([{"role": "user", "content": "hi"}], model="tiny")
    assert session.get_sequence(start=before).tolist() == template.token_ids.tolist()


def test_an_append_past_max_length_is_refused_and_appends_nothing(client: Any) -> None:
    with client.create_session("def main(", model="tiny", max_length=8) as session:
        with pytest.raises(errors.ContextLengthExceeded) as caught:
            session.append_tokens([7] * 5)
        assert caught.value.metadata["limit"] == "8"
        assert session.refresh().length == PROMPT


# --- generate --------------------------------------------------------------------------------------------------------


def test_a_step_gives_the_token_it_appended(session: Any) -> None:
    tokens = session.generate_next_token()
    assert tokens.shape == (1,) and tokens.dtype == np.int32
    assert session.get_next_tokens().tolist() == tokens.tolist()
    assert session.get_sequence(start=PROMPT).tolist() == tokens.tolist()


def test_next_tokens_after_an_append_are_refused(session: Any) -> None:
    session.generate_next_token()
    session.append_tokens([7])
    with pytest.raises(errors.FailedPrecondition) as caught:
        session.get_next_tokens()
    assert caught.value.reason == "NOTHING_GENERATED"


def test_next_tokens_are_those_of_the_session_for_whoever_asks(client: Any, session: Any) -> None:
    tokens = session.generate_next_token()
    assert client.attach(session.id).get_next_tokens().tolist() == tokens.tolist()


def test_one_operation_appends_edits_steps_and_reads(session: Any) -> None:
    result = session.generate_tokens(
        3, prompt=[7, 8], edits=[edit.replace([42], [1000.0])], return_logits=True, top_k=2
    )
    assert result.steps == 3 and not result.interrupted
    assert result.rows[0].token_ids[0] == 42
    assert session.get_sequence(start=PROMPT).tolist() == [7, 8, *result.rows[0].token_ids.tolist()]
    assert result.logits.values.shape == result.logits.token_ids.shape == (1, 2)


def test_no_step_is_a_legal_number_of_steps(session: Any) -> None:
    assert session.generate_tokens(0).steps == 0
    assert session.token_count() == PROMPT


def test_a_session_is_done_when_every_row_is_finished(client: Any) -> None:
    with client.create_session(["def main(", "class"], model="tiny", max_new_tokens=3) as session:
        assert not session.is_done()
        session.generate_tokens()
        assert session.is_done()
        assert [row.finish_reason for row in session.state.rows] == [FinishReason.LENGTH] * 2
        with pytest.raises(errors.FailedPrecondition) as caught:
            session.generate_next_token()
        assert caught.value.reason == "SESSION_DONE"
        session.append_tokens([[7], [7]])
        assert not session.is_done()


def test_an_empty_session_cannot_step(client: Any) -> None:
    with client.create_session(model="tiny") as session, pytest.raises(errors.FailedPrecondition) as caught:
        session.generate_next_token()
    assert caught.value.reason == "SESSION_EMPTY"


def test_the_effective_settings_tell_the_seed(client: Any) -> None:
    with client.create_session("def", model="tiny", do_sample=True, temperature=0.5) as session:
        assert session.generation_config["temperature"] == 0.5
        seed = session.generation_config["seed"]
        first = [token.token_id for token in session.tokens(8)]
    with client.create_session("def", model="tiny", do_sample=True, temperature=0.5, seed=seed) as again:
        assert [token.token_id for token in again.tokens(8)] == first


# --- streams ---------------------------------------------------------------------------------------------------------


def test_tokens_come_one_by_one_with_the_text_that_is_certain(session: Any) -> None:
    expected = greedy(session)
    tokens = list(session.tokens(12))
    assert [token.token_id for token in tokens] == expected
    assert session.get_sequence(start=PROMPT).tolist() == expected
    assert "".join(token.text for token in tokens) == session.get_text(start=PROMPT)


def test_text_is_that_of_one_row(client: Any) -> None:
    with client.create_session(["def main(", "class"], model="tiny", max_new_tokens=6) as session:
        text = "".join(session.text(row=1))
        assert text and text == session.get_text(1, start=len(client.encode("class", model="tiny")))
        assert session.is_done()


def test_a_prompt_can_come_with_the_stream(session: Any) -> None:
    with session.fork() as fork:
        fork.append_tokens([7, 8])
        expected = "".join(fork.text(5))
    assert "".join(session.text(5, prompt=[7, 8])) == expected


def test_leaving_the_loop_ends_the_generation_and_keeps_the_session(client: Any) -> None:
    with client.create_session("def", model="tiny", do_sample=True, temperature=100.0, seed=5) as session:
        stream = session.tokens()
        seen = [token.token_id for token in islice(stream, 3)]
        stream.close()
        length = session.refresh().length
        assert length < 400
        assert session.get_sequence(start=1).tolist()[:3] == seen
        session.append_tokens([7])
        assert session.token_count() == length + 1


def test_a_hook_sees_the_logits_of_each_step_and_edits_them(session: Any) -> None:
    seen: list[Any] = []

    def forbid_what_is_likeliest(logits: Any) -> list[Any]:
        seen.append(logits)
        return [edit.deny(logits.token_ids[0].tolist())]

    hook = tokenloom.LogitsHook(forbid_what_is_likeliest, top_k=1)
    tokens = [token.token_id for token in session.tokens(4, logits_hook=hook)]
    assert len(seen) == len(tokens) == 4
    assert all(token not in logits.token_ids for token, logits in zip(tokens, seen, strict=True))


def test_a_hook_can_stop_rows(session: Any) -> None:
    hook = tokenloom.LogitsHook(lambda logits: tokenloom.HookReply(stop_rows=[0]))
    assert list(session.tokens(logits_hook=hook)) == []
    assert session.is_done()
    assert session.state.rows[0].finish_reason is FinishReason.STOPPED


def test_an_error_in_a_hook_reaches_the_caller_and_the_session_lives_on(session: Any) -> None:
    def fail(logits: Any) -> None:
        raise ZeroDivisionError("in the hook")

    with pytest.raises(ZeroDivisionError, match="in the hook"):
        list(session.tokens(logits_hook=tokenloom.LogitsHook(fail)))
    assert session.generate_next_token().shape == (1,)


# --- logits ----------------------------------------------------------------------------------------------------------


def test_logits_can_be_read_whole_or_in_part(session: Any) -> None:
    logits = session.get_logits()
    assert logits.shape == (1, VOCABULARY) and logits.dtype == np.float32
    assert session.get_logits(dtype=np.float16).dtype == np.float16
    best = session.get_logits(top_k=3)
    assert best.token_ids[0].tolist() == np.argsort(-logits[0])[:3].tolist()
    assert best.values[0].tolist() == logits[0, best.token_ids[0]].tolist()
    assert session.get_logits(token_ids=[9, 3]).values[0].tolist() == logits[0, [9, 3]].tolist()


def test_reading_logits_changes_nothing(session: Any) -> None:
    expected = greedy(session)
    for token in expected:
        session.get_logits()
        assert session.generate_next_token().tolist() == [token]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dense_logits_decide_the_next_token(session: Any, dtype: Any) -> None:
    logits = session.get_logits().astype(dtype)
    logits[:, 77] = 1000.0
    session.set_logits(logits)
    assert session.get_logits()[0, 77] == 1000.0
    assert session.generate_next_token().tolist() == [77]


def test_sparse_edits_are_made_in_order(session: Any) -> None:
    session.set_logits([edit.replace([77], [1000.0]), edit.add([78], [5000.0]), edit.multiply([77], [10.0])])
    assert session.generate_next_token().tolist() == [77]
    session.set_logits(edit.allow(np.arange(VOCABULARY) == 79))
    assert session.generate_next_token().tolist() == [79]
    likeliest = int(session.get_logits(top_k=1).token_ids[0, 0])
    session.set_logits(edit.deny([likeliest]))
    assert session.generate_next_token().tolist() != [likeliest]


def test_logits_that_are_not_numbers_are_refused_and_change_nothing(session: Any) -> None:
    expected = greedy(session, 1)
    logits = session.get_logits()
    logits[0, 5] = np.nan
    with pytest.raises(errors.InvalidArgument) as caught:
        session.set_logits(logits)
    assert caught.value.field_violations
    assert session.generate_next_token().tolist() == expected


# --- rewind, fork ----------------------------------------------------------------------------------------------------


def test_rewinding_gives_the_same_tokens_again(session: Any) -> None:
    first = [token.token_id for token in session.tokens(8)]
    session.rewind_to(PROMPT)
    assert session.token_count() == PROMPT
    assert [token.token_id for token in session.tokens(8)] == first


def test_one_row_can_be_rewound(client: Any) -> None:
    with client.create_session([[7, 8, 9], [7, 8, 9]], model="tiny") as session:
        session.rewind_to(1, row=1)
        assert [session.token_count(row) for row in (0, 1)] == [3, 1]


def test_a_new_seed_draws_other_tokens(client: Any) -> None:
    with client.create_session("def main(", model="tiny", do_sample=True, temperature=50.0, seed=1) as session:
        first = [token.token_id for token in session.tokens(8)]
        session.rewind_to(PROMPT, seed=2)
        assert [token.token_id for token in session.tokens(8)] != first


def test_rewinding_beyond_the_length_is_refused(session: Any) -> None:
    with pytest.raises(errors.FailedPrecondition) as caught:
        session.rewind_to(PROMPT + 1)
    assert caught.value.reason == "REWIND_BEYOND_LENGTH"


def test_a_fork_goes_on_by_itself(session: Any) -> None:
    expected = greedy(session)
    with session.fork(session_id="its-own-name", max_new_tokens=3) as fork:
        assert fork.id == "its-own-name"
        assert [token.token_id for token in fork.tokens()] == expected[:3]
    assert session.token_count() == PROMPT
    assert [token.token_id for token in session.tokens(12)] == expected


# --- tensors, adapters, options --------------------------------------------------------------------------------------


def test_outputs_are_those_of_the_last_position(session: Any) -> None:
    assert np.array_equal(session.get_output("logits").reshape(1, VOCABULARY), session.get_logits())


def test_inputs_can_be_read_back(session: Any) -> None:
    session.get_logits()
    assert session.get_input("input_ids").dtype.kind == "i"


def test_unknown_tensors_are_not_found_and_the_known_are_listed(session: Any) -> None:
    for read in (session.get_input, session.get_output):
        with pytest.raises(errors.NotFound) as caught:
            read("no-such-tensor")
        assert "known:" in caught.value.message


def test_inputs_of_the_engine_cannot_be_set(session: Any) -> None:
    name, value = "past_key_values.0.key", np.zeros((1, 2, PROMPT, 16), dtype=np.float32)
    for write in (lambda: session.set_model_input(name, value), lambda: session.set_inputs({name: value})):
        with pytest.raises(errors.FailedPrecondition) as caught:
            write()
        assert caught.value.reason == "INPUT_MANAGED"


def test_adapters_are_switched_in_the_middle_of_a_session(client: Any, session: Any) -> None:
    base = session.get_logits()
    client.load_adapter("adapter_b.onnx_adapter", "b", model="tiny")
    try:
        session.set_active_adapter("b", recompute=True)
        assert session.state.adapter == "b"
        assert not np.array_equal(session.get_logits(), base)
        with pytest.raises(errors.FailedPrecondition) as caught:
            client.unload_adapter("b", model="tiny")
        assert caught.value.reason == "ADAPTER_IN_USE"
        session.set_active_adapter("", recompute=True)
        assert np.array_equal(session.get_logits(), base)
        with pytest.raises(errors.NotFound):
            session.set_active_adapter("c")
    finally:
        session.set_active_adapter("")
        client.unload_adapter("b", model="tiny")


def test_unknown_runtime_options_are_refused(session: Any) -> None:
    session.set_runtime_option("enable_profiling", "0")
    with pytest.raises(errors.InvalidArgument):
        session.set_runtime_option("no-such-option", "1")


# --- sharing and ending ----------------------------------------------------------------------------------------------


def test_expected_length_finds_out_that_another_client_wrote(client: Any, session: Any) -> None:
    client.attach(session.id).append_tokens([7])
    with pytest.raises(errors.LengthMismatch) as caught:
        session.append_tokens([8], expected_length=session.token_count())
    assert caught.value.actual_length == PROMPT + 1
    assert session.refresh().length == session.token_count() == PROMPT + 1


def test_a_context_manager_closes_its_session(client: Any) -> None:
    with client.create_session("def", model="tiny") as session:
        pass
    with pytest.raises(errors.NotFound) as caught:
        client.attach(session.id)
    assert caught.value.reason == "SESSION_NOT_FOUND"


def test_a_session_closed_inside_its_context_is_no_error(client: Any) -> None:
    with client.create_session("def", model="tiny") as session:
        session.close()


def test_an_expired_session_is_told_apart(client: Any) -> None:
    session = client.create_session("def", model="tiny", idle_timeout=0.05)
    with pytest.raises(errors.NotFound) as caught:
        while True:
            session.refresh()
    assert isinstance(caught.value, errors.SessionExpired)
