"""Pipelined operations on one stream, for both clients."""

from __future__ import annotations

from typing import Any

import pytest

from tokenloom import errors

PROMPT = 5


def test_operations_run_in_the_order_they_were_sent(session: Any) -> None:
    with session.converse() as conversation:
        conversation.append_tokens([7, 8])
        first = conversation.generate_tokens(5)
        conversation.rewind_to(PROMPT + 2)
        second = conversation.generate_tokens(5)
        sequence = conversation.get_sequence(start=PROMPT)
        assert second.result().rows[0].token_ids.tolist() == first.result().rows[0].token_ids.tolist()
        assert sequence.result().tolist() == [7, 8, *second.result().rows[0].token_ids.tolist()]
    assert session.token_count() == PROMPT + 7


def test_steps_come_while_the_operation_runs(session: Any) -> None:
    with session.converse() as conversation:
        reply = conversation.generate_tokens(5, credits=1)
        steps = list(reply)
        assert len(steps) == reply.result().steps == 5
        assert [step.tokens[0].token_id for step in steps] == reply.result().rows[0].token_ids.tolist()


def test_a_failed_operation_leaves_the_stream_open(session: Any) -> None:
    with session.converse() as conversation:
        bad = conversation.append_tokens([100_000])
        good = conversation.append_tokens([7])
        good.result()
        with pytest.raises(errors.InvalidArgument) as caught:
            bad.result()
    assert caught.value.field_violations[0].field == "inputs[0].tokens.ids[0]"
    assert session.token_count() == PROMPT + 1


def test_one_stream_at_a_time_holds_a_session_and_other_calls_go_on(client: Any, session: Any) -> None:
    other = client.attach(session.id)
    with session.converse() as conversation:
        conversation.append_tokens([7]).result()
        assert other.refresh().attached
        with pytest.raises(errors.FailedPrecondition) as caught:
            list(other.tokens(1))
        assert caught.value.reason == "SESSION_ATTACHED"
        other.append_tokens([8])
    assert len(list(other.tokens(1))) == 1


def test_a_stream_to_a_session_that_is_not_there_says_so_in_every_reply(client: Any) -> None:
    session = client.create_session("def", model="tiny")
    session.close()
    with session.converse() as conversation:
        replies = [conversation.append_tokens([7]), conversation.get_logits()]
        for reply in replies:
            with pytest.raises(errors.NotFound) as caught:
                reply.result()
            assert caught.value.reason == "SESSION_NOT_FOUND"


def test_interrupt_ends_the_generation_and_keeps_its_tokens(client: Any) -> None:
    with client.create_session("def", model="tiny", do_sample=True, temperature=100.0, seed=5) as session:
        with session.converse() as conversation:
            reply = conversation.generate_tokens()
            next(iter(reply))
            conversation.interrupt()
            result = reply.result()
        assert result.interrupted
        assert session.get_sequence(start=1).tolist() == result.rows[0].token_ids.tolist()
        assert not session.is_done()


def test_a_call_from_outside_interrupts_a_stream(client: Any) -> None:
    with client.create_session("def", model="tiny", do_sample=True, temperature=100.0, seed=5) as session:
        tokens = []
        for token in session.tokens():
            tokens.append(token.token_id)
            if len(tokens) == 2:
                session.interrupt()
        assert not session.is_done()
        assert session.get_sequence(start=1).tolist() == tokens


def test_leaving_a_conversation_detaches(client: Any, session: Any) -> None:
    with session.converse() as conversation:
        conversation.generate_tokens(2)
    assert not session.refresh().attached


def test_a_closed_conversation_refuses_operations(session: Any) -> None:
    with session.converse() as conversation:
        pass
    with pytest.raises(errors.Cancelled):
        conversation.append_tokens([7]).result()
