"""Converse: operations of one session on one stream, in order, steered while they run."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import code_pb2
from serving import TIMEOUT, Refusal, Served, Stream, refused, serving, tensor, tokens, wait_until

from tokenloom.v1 import generation_pb2, types_pb2
from tokenloom.v1 import generator_pb2 as pb

PROMPT = [5, 9, 21, 33]
ENDLESS = {"min_new_tokens": 400}
"""Settings under which a generate goes on for long."""


def ended(stream: Stream) -> Refusal:
    """How the stream ended, which must be with an error; replies before that are passed over."""
    with pytest.raises(grpc.RpcError) as caught:
        stream.rest()
    return Refusal(caught.value)


def generate(**fields: Any) -> dict[str, Any]:
    return {"generate_tokens": pb.GenerateTokensRequest(**fields)}


def chosen(steps: list[pb.ConverseResponse]) -> list[int]:
    return [token for reply in steps for row in reply.step.rows for token in row.token_ids]


def length_after_others_stepped(served: Served, session_id: str) -> int:
    """The session's length once the engine had every chance to make it longer."""
    served.generate(served.create(PROMPT), 5)
    return served.engine.snapshot(session_id).snapshot.length


# --- order -----------------------------------------------------------------------------------------------------------


def test_operations_sent_without_waiting_are_answered_in_order(served: Served) -> None:
    stream = served.converse()
    stream.send(create=pb.CreateSessionRequest(inputs=[tokens(PROMPT)]))
    stream.send(**generate(steps=4))
    stream.send(rewind_to=pb.RewindToRequest(length=6))
    stream.send(append_tokens=pb.AppendTokensRequest(inputs=[tokens([1, 2])]))
    stream.send(append_tokens=pb.AppendTokensRequest(inputs=[tokens([512])]))
    stream.send(**generate(steps=3))
    stream.send(get_sequence=pb.GetSequenceRequest())
    stream.half_close()
    replies = stream.rest()
    finals = [reply for reply in replies if reply.final]
    assert [reply.operation_id for reply in finals] == [1, 2, 3, 4, 5, 6, 7]
    assert [reply.operation_id for reply in replies] == sorted(reply.operation_id for reply in replies)
    assert [reply.WhichOneof("result") for reply in finals] == [
        "create",
        "generate_tokens",
        "rewind_to",
        "append_tokens",
        "error",
        "generate_tokens",
        "get_sequence",
    ]
    assert len([reply for reply in replies if reply.HasField("step")]) == 7
    assert finals[-1].get_sequence.state.length == 11


def test_the_stream_and_unary_calls_do_the_same(served: Served) -> None:
    session = served.create(PROMPT)
    unary = served.generate(session, 5)
    stream = served.converse()
    stream.create(PROMPT)
    stream.send(**generate(steps=5))
    replies = [stream.receive() for _ in range(6)]
    assert chosen(replies[:5]) == list(unary.rows[0].token_ids)
    assert "".join(row.text for reply in replies for row in reply.step.rows) == unary.rows[0].text
    final = replies[5].generate_tokens
    assert (final.steps, list(final.rows), final.state.length) == (5, [], unary.state.length)
    stream.half_close()
    assert not stream.rest()


def test_every_operation_of_a_session_works_on_a_stream(served: Served) -> None:
    stream = served.converse()
    stream.create(PROMPT)
    assert stream.do(append_tokens=pb.AppendTokensRequest(inputs=[tokens([8])])).append_tokens.state.length == 5
    assert len(stream.do(generate_next_token=pb.GenerateNextTokenRequest()).generate_next_token.next_tokens) == 1
    assert len(stream.do(get_next_tokens=pb.GetNextTokensRequest()).get_next_tokens.next_tokens) == 1
    assert stream.do(get_token_count=pb.GetTokenCountRequest()).get_token_count.state.length == 6
    assert stream.do(rewind_to=pb.RewindToRequest(length=4)).rewind_to.state.length == 4
    logits = stream.do(get_logits=pb.GetLogitsRequest()).get_logits.logits
    assert list(logits.values.shape) == [1, 512]
    edit = generation_pb2.LogitsEdit(deny_ids=types_pb2.TokenIds(ids=[1]))
    assert stream.do(set_logits=pb.SetLogitsRequest(edits=[edit])).HasField("set_logits")
    assert stream.do(get_sequence=pb.GetSequenceRequest()).get_sequence.token_ids == PROMPT
    mask = types_pb2.NamedTensor(name="attention_mask", tensor=tensor(np.ones((1, 4), np.int64)))
    assert stream.do(set_inputs=pb.SetInputsRequest(inputs=[mask])).HasField("set_inputs")
    assert stream.do(set_model_input=pb.SetModelInputRequest(input=mask)).HasField("set_model_input")
    assert stream.do(get_input=pb.GetInputRequest(name="input_ids")).get_input.input.name == "input_ids"
    output = stream.do(get_output=pb.GetOutputRequest(name="logits")).get_output.output
    assert list(output.tensor.shape) == [1, 512]
    assert stream.do(set_active_adapter=pb.SetActiveAdapterRequest()).HasField("set_active_adapter")
    option = pb.SetRuntimeOptionRequest(key="cuda_graph", value="1")
    assert stream.do(set_runtime_option=option).HasField("set_runtime_option")
    assert stream.do(interrupt=pb.InterruptRequest()).HasField("interrupt")
    fork = stream.do(fork=pb.ForkSessionRequest()).fork
    assert (fork.state.length, fork.state.attached) == (4, False)
    assert stream.do(close=pb.CloseSessionRequest()).HasField("close")
    assert not stream.rest(), "the stream ends after the reply to close"
    handled = set(pb.ConverseRequest.DESCRIPTOR.oneofs_by_name["operation"].fields)
    assert {field.name for field in handled} - {"attach", "logits_hook_reply", "grant_credits"} == {
        "create", "append_tokens", "generate_tokens", "generate_next_token", "rewind_to", "get_logits", "set_logits",
        "fork", "get_sequence", "get_next_tokens", "get_token_count", "set_inputs", "set_model_input", "get_input",
        "get_output", "set_active_adapter", "set_runtime_option", "interrupt", "close",
    }  # fmt: skip


def test_headers_come_before_anything_is_said(served: Served) -> None:
    stream = served.converse()
    assert stream.call.initial_metadata() is not None
    stream.half_close()
    assert not stream.rest()


# --- errors ----------------------------------------------------------------------------------------------------------


def test_an_operations_error_leaves_the_stream_open(served: Served) -> None:
    stream = served.converse()
    stream.create(PROMPT)
    error = stream.do(append_tokens=pb.AppendTokensRequest(inputs=[tokens([1, 600])])).error
    assert (error.code, error.reason) == (code_pb2.INVALID_ARGUMENT, "FIELD_INVALID")
    assert [violation.field for violation in error.field_violations] == ["inputs[0].tokens.ids[1]"]
    error = stream.do(rewind_to=pb.RewindToRequest(length=9)).error
    assert (error.code, error.reason) == (code_pb2.FAILED_PRECONDITION, "REWIND_BEYOND_LENGTH")
    error = stream.do(rewind_to=pb.RewindToRequest(length=1, expected_length=7)).error
    assert (error.code, error.metadata["actual"]) == (code_pb2.ABORTED, "4")
    error = stream.do(**generate(session_id="another", steps=1)).error
    assert [violation.field for violation in error.field_violations] == ["session_id"]
    error = stream.do(create=pb.CreateSessionRequest()).error
    assert [violation.field for violation in error.field_violations] == ["operation"]
    error = stream.do(append_tokens=pb.AppendTokensRequest(inputs=[tokens([1])]), credits=3).error
    assert [violation.field for violation in error.field_violations] == ["credits"]
    assert stream.do(get_sequence=pb.GetSequenceRequest()).get_sequence.token_ids == PROMPT


@pytest.mark.parametrize(
    ("first", "code", "reason"),
    [
        ({"get_logits": pb.GetLogitsRequest(session_id="x")}, "INVALID_ARGUMENT", "FIELD_INVALID"),
        ({"attach": pb.AttachSessionRequest(session_id="nobody")}, "NOT_FOUND", "SESSION_NOT_FOUND"),
        ({"create": pb.CreateSessionRequest(model="nothing")}, "NOT_FOUND", "MODEL_NOT_FOUND"),
        (
            {"create": pb.CreateSessionRequest(generation_config={"top_p": 7})},
            "INVALID_ARGUMENT",
            "FIELD_INVALID",
        ),
    ],
)
def test_a_stream_that_gets_no_session_ends(served: Served, first: dict[str, Any], code: str, reason: str) -> None:
    stream = served.converse()
    final = stream.do(**first)
    assert (final.error.code, final.error.reason) == (code_pb2.Code.Value(code), reason)
    refusal = ended(stream)
    assert (refusal.code.name, refusal.reason) == (code, reason)
    assert refusal.fields == [violation.field for violation in final.error.field_violations]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"operation_id": 1, "get_token_count": pb.GetTokenCountRequest()}, "operation_id"),
        ({"operation_id": 0, "get_token_count": pb.GetTokenCountRequest()}, "operation_id"),
        ({"operation_id": 2}, "operation"),
        ({"operation_id": 9, "logits_hook_reply": pb.LogitsHookReply()}, "operation_id"),
        ({"operation_id": 9, "grant_credits": pb.GrantCredits(events=1)}, "operation_id"),
        ({"operation_id": 1, "grant_credits": pb.GrantCredits(events=0)}, "grant_credits.events"),
    ],
)
def test_a_client_that_breaks_the_protocol_loses_its_stream_and_not_its_session(
    served: Served, message: dict[str, Any], field: str
) -> None:
    stream = served.converse()
    session = stream.create(PROMPT)
    stream.send(**message)
    refusal = ended(stream)
    assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, [field])
    assert served.sequence(session) == PROMPT


def test_bytes_that_are_no_message_end_the_stream_with_an_invalid_argument(served: Served) -> None:
    call = served.channel.stream_stream("/tokenloom.v1.Generator/Converse")(iter([b"\xff\xff"]), timeout=TIMEOUT)
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert Refusal(caught.value).code == grpc.StatusCode.INVALID_ARGUMENT


def test_late_credits_and_hook_replies_are_no_error(served: Served) -> None:
    stream = served.converse()
    stream.create(PROMPT)
    operation = stream.send(credits=2, **generate(steps=1))
    assert stream.finals(1)[0].operation_id == operation
    stream.send(operation_id=operation, grant_credits=pb.GrantCredits(events=5))
    stream.send(operation_id=operation, logits_hook_reply=pb.LogitsHookReply())
    assert stream.do(get_token_count=pb.GetTokenCountRequest()).get_token_count.state.length == 5


def test_too_many_operations_at_once_are_refused_one_by_one() -> None:
    with serving(max_queued_operations=4) as served:
        stream = served.converse()
        session = stream.create(PROMPT, generation_config=ENDLESS)
        blocked = stream.send(credits=1, **generate())
        assert stream.receive().HasField("step")
        for _ in range(6):
            stream.send(get_token_count=pb.GetTokenCountRequest())
        wait_until(lambda: served.engine.snapshot(session).snapshot.length == 5, "one step")
        stream.send(interrupt=pb.InterruptRequest())
        finals = stream.finals(8)
        assert [reply.operation_id for reply in finals] == [blocked, *range(blocked + 1, blocked + 8)]
        refusals = [reply.error for reply in finals if reply.HasField("error")]
        assert [(error.code, error.reason) for error in refusals] == [(code_pb2.RESOURCE_EXHAUSTED, "QUEUE_FULL")] * 2
        assert all(error.HasField("retry_delay") for error in refusals)


# --- steering --------------------------------------------------------------------------------------------------------


def test_interrupt_overtakes_and_keeps_what_was_generated(served: Served) -> None:
    stream = served.converse()
    session = stream.create(PROMPT, generation_config=ENDLESS)
    running = stream.send(**generate())
    queued = stream.send(**generate(steps=7))
    first = stream.receive()
    interrupt = stream.send(interrupt=pb.InterruptRequest())
    seen, finals = [first], []
    while len(finals) < 3:
        reply = stream.receive()
        (finals if reply.final else seen).append(reply)
    assert [reply.operation_id for reply in finals] == [running, queued, interrupt]
    assert finals[0].generate_tokens.interrupted
    assert (finals[1].generate_tokens.interrupted, finals[1].generate_tokens.steps) == (True, 0)
    assert finals[0].generate_tokens.steps == len(seen) < 400
    assert served.sequence(session) == PROMPT + chosen(seen)


def test_a_unary_interrupt_reaches_the_streams_generate(served: Served) -> None:
    stream = served.converse()
    session = stream.create(PROMPT, generation_config=ENDLESS)
    stream.send(**generate())
    stream.receive()
    served.generator.Interrupt(pb.InterruptRequest(session_id=session), timeout=TIMEOUT)
    assert stream.finals(1)[0].generate_tokens.interrupted


def test_credits_bound_the_steps_that_are_made(served: Served) -> None:
    stream = served.converse()
    session = stream.create(PROMPT, generation_config=ENDLESS)
    operation = stream.send(credits=3, **generate(steps=10))
    seen = [stream.receive() for _ in range(3)]
    assert length_after_others_stepped(served, session) == 7
    stream.send(operation_id=operation, grant_credits=pb.GrantCredits(events=2))
    seen += [stream.receive() for _ in range(2)]
    assert length_after_others_stepped(served, session) == 9
    stream.send(operation_id=operation, grant_credits=pb.GrantCredits(events=100))
    rest = [stream.receive() for _ in range(6)]
    assert rest[-1].generate_tokens.steps == 10
    assert served.sequence(session) == PROMPT + chosen(seen + rest[:-1])


def test_a_generate_without_credits_makes_no_step(served: Served) -> None:
    stream = served.converse()
    stream.create(PROMPT)
    error = stream.do(credits=0, **generate(steps=1)).error
    assert [violation.field for violation in error.field_violations] == ["credits"]


def test_a_hook_sees_and_changes_the_logits_of_each_step(served: Served) -> None:
    stream = served.converse()
    session = stream.create(PROMPT)
    plain = np.frombuffer(stream.do(get_logits=pb.GetLogitsRequest()).get_logits.logits.values.data, np.float32)
    hook = pb.LogitsHook(selector=generation_pb2.LogitsSelector(token_ids=types_pb2.TokenIds(ids=[3, 4])))
    operation = stream.send(**generate(steps=2, logits_hook=hook))
    for wanted in (3, 4):
        call = stream.receive()
        assert (call.operation_id, call.final) == (operation, False)
        assert list(call.logits_hook_call.logits.token_ids) == [3, 4]
        values = np.frombuffer(call.logits_hook_call.logits.values.data, np.float32)
        if wanted == 3:
            assert values.tolist() == plain[[3, 4]].tolist()
        edit = generation_pb2.LogitsEdit(sparse=generation_pb2.SparseEdit(token_ids=[wanted], values=[1000]))
        stream.send(operation_id=operation, logits_hook_reply=pb.LogitsHookReply(edits=[edit]))
        assert chosen([stream.receive()]) == [wanted]
    assert stream.receive().generate_tokens.steps == 2
    assert served.sequence(session) == [*PROMPT, 3, 4]


def test_a_hook_may_stop_rows(served: Served) -> None:
    stream = served.converse()
    stream.create(PROMPT, [7], generation_config=ENDLESS)
    operation = stream.send(**generate(logits_hook=pb.LogitsHook()))
    stream.receive()
    stream.send(operation_id=operation, logits_hook_reply=pb.LogitsHookReply(stop_rows=[1]))
    assert [row.row for row in stream.receive().step.rows] == [0]
    stream.receive()
    stream.send(operation_id=operation, logits_hook_reply=pb.LogitsHookReply(stop_rows=[0]))
    state = stream.finals(1)[0].generate_tokens.state
    assert [row.finish_reason for row in state.rows] == [types_pb2.FINISH_REASON_STOPPED] * 2
    assert state.is_done


@pytest.mark.parametrize(
    ("reply", "field"),
    [
        ({"edits": [generation_pb2.LogitsEdit(deny_ids=types_pb2.TokenIds(ids=[1, 512]))]}, "edits[0].deny_ids.ids[1]"),
        ({"edits": [generation_pb2.LogitsEdit()]}, "edits[0]"),
        ({"edits": [generation_pb2.LogitsEdit(allow_mask=bytes(64))]}, "edits"),
        ({"stop_rows": [0, 1]}, "stop_rows[1]"),
    ],
)
def test_a_hook_answered_with_nonsense_ends_the_operation_and_not_the_stream(
    served: Served, reply: dict[str, Any], field: str
) -> None:
    stream = served.converse()
    stream.create(PROMPT)
    operation = stream.send(**generate(steps=2, logits_hook=pb.LogitsHook()))
    stream.receive()
    stream.send(operation_id=operation, logits_hook_reply=pb.LogitsHookReply(**reply))
    final = stream.receive()
    assert (final.operation_id, final.final) == (operation, True)
    assert [violation.field for violation in final.error.field_violations] == [field]
    assert stream.do(**generate(steps=1)).generate_tokens.state.length == 5


def test_a_hook_may_be_interrupted(served: Served) -> None:
    stream = served.converse()
    stream.create(PROMPT)
    operation = stream.send(**generate(steps=2, logits_hook=pb.LogitsHook()))
    stream.receive()
    stream.send(interrupt=pb.InterruptRequest())
    stream.send(operation_id=operation, logits_hook_reply=pb.LogitsHookReply())
    first, second = stream.finals(2)
    assert (first.generate_tokens.interrupted, first.generate_tokens.steps) == (True, 0)
    assert second.HasField("interrupt")


def test_a_reply_to_no_hook_breaks_the_protocol(served: Served) -> None:
    stream = served.converse()
    stream.create(PROMPT, generation_config=ENDLESS)
    operation = stream.send(credits=1, **generate())
    stream.receive()
    stream.send(operation_id=operation, logits_hook_reply=pb.LogitsHookReply())
    assert ended(stream).fields == ["operation_id"]


# --- attaching, detaching, ending ------------------------------------------------------------------------------------


def test_a_session_outlives_its_stream_and_can_be_attached_again(served: Served) -> None:
    stream = served.converse()
    session = stream.create(PROMPT)
    stream.do(**generate(steps=2))
    stream.half_close()
    assert not stream.rest()
    other = served.converse()
    attached = other.attach(session).attach
    assert (attached.state.length, attached.state.attached) == (6, True)
    assert attached.generation_config.max_length == 512
    assert other.do(**generate(steps=2)).generate_tokens.state.length == 8


def test_a_session_has_one_stream_at_most(served: Served) -> None:
    stream = served.converse()
    session = stream.create(PROMPT)
    ask = pb.GetSessionRequest(session_id=session)
    assert served.generator.GetSession(ask, timeout=TIMEOUT).state.attached
    other = served.converse()
    final = other.attach(session)
    assert (final.error.code, final.error.reason) == (code_pb2.FAILED_PRECONDITION, "SESSION_ATTACHED")
    assert ended(other).reason == "SESSION_ATTACHED"
    assert stream.do(**generate(steps=1)).generate_tokens.state.attached
    assert served.generate(session, 1).steps == 1, "unary calls may still use the session"
    stream.half_close()
    stream.rest()
    assert not served.generator.GetSession(ask, timeout=TIMEOUT).state.attached


def test_half_closing_lets_what_was_asked_for_finish(served: Served) -> None:
    stream = served.converse()
    stream.create(PROMPT, generation_config=ENDLESS)
    stream.send(**generate(steps=50))
    stream.send(get_token_count=pb.GetTokenCountRequest())
    stream.half_close()
    finals = [reply for reply in stream.rest() if reply.final]
    assert (finals[0].generate_tokens.steps, finals[0].generate_tokens.interrupted) == (50, False)
    assert finals[1].get_token_count.state.length == 54


@pytest.mark.parametrize("how", ["hook", "credits"])
def test_half_closing_ends_what_would_wait_for_the_client_forever(served: Served, how: str) -> None:
    stream = served.converse()
    stream.create(PROMPT, generation_config=ENDLESS)
    if how == "hook":
        stream.send(**generate(steps=9, logits_hook=pb.LogitsHook()))
    else:
        stream.send(credits=2, **generate(steps=9))
    stream.receive()
    stream.half_close()
    (final,) = [reply for reply in stream.rest() if reply.final]
    assert final.generate_tokens.interrupted
    assert final.generate_tokens.steps == (0 if how == "hook" else 2)


def test_a_session_closed_by_somebody_else_ends_its_stream_with_a_clear_status(served: Served) -> None:
    stream = served.converse()
    session = stream.create(PROMPT, generation_config=ENDLESS)
    stream.send(credits=1, **generate())
    stream.receive()
    served.close(session)
    final = stream.receive()
    assert (final.final, final.error.code) == (True, code_pb2.CANCELLED)
    refusal = ended(stream)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")


def test_closing_on_the_stream_cancels_what_waits_and_ends_the_stream(served: Served) -> None:
    stream = served.converse()
    session = stream.create(PROMPT, generation_config=ENDLESS)
    stream.send(credits=1, **generate())
    stream.receive()
    stream.send(get_token_count=pb.GetTokenCountRequest())
    stream.send(close=pb.CloseSessionRequest())
    finals = stream.rest()
    assert [final.error.code for final in finals[:-1]] == [code_pb2.CANCELLED] * 2
    assert finals[-1].HasField("close")
    assert refused(served.generator.GetSession, pb.GetSessionRequest(session_id=session)).reason == "SESSION_NOT_FOUND"


def test_a_retry_on_another_stream_gets_the_first_answer(served: Served) -> None:
    stream = served.converse()
    session = stream.create(PROMPT)
    first = stream.do(**generate(steps=3, request_id="once")).generate_tokens
    stream.half_close()
    stream.rest()
    other = served.converse()
    other.attach(session)
    again = other.do(**generate(steps=3, request_id="once")).generate_tokens
    assert (again.steps, again.state.length) == (first.steps, first.state.length)
    assert served.length(session) == 7
