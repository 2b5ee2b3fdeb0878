"""Sessions over unary calls: every method, its answer, and how it says no."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.duration_pb2 import Duration
from serving import TIMEOUT, Served, refused, serving, tensor, tokens

from tokenloom.v1 import generation_pb2, types_pb2
from tokenloom.v1 import generator_pb2 as pb

PROMPT = [5, 9, 21, 33]


def logits_of(message: generation_pb2.Logits) -> np.ndarray:
    return np.frombuffer(message.values.data, np.float32).reshape(tuple(message.values.shape)).copy()


# --- creating and ending ---------------------------------------------------------------------------------------------


def test_a_session_has_the_rows_and_settings_it_was_asked_for(served: Served) -> None:
    config = generation_pb2.GenerationConfig(do_sample=True, temperature=0.5, max_new_tokens=9, seed=2**63)
    request = pb.CreateSessionRequest(
        session_id="rows-and-settings", inputs=[tokens(PROMPT), tokens([7])], generation_config=config
    )
    created = served.generator.CreateSession(request, timeout=TIMEOUT)
    assert created.state.session_id == "rows-and-settings"
    assert created.state.model == "tiny-llama"
    assert [row.length for row in created.state.rows] == [4, 1]
    assert created.state.length == 4
    assert (created.generation_config.temperature, created.generation_config.seed) == (0.5, 2**63)
    assert created.generation_config.top_k == 50
    found = served.generator.GetSession(pb.GetSessionRequest(session_id="rows-and-settings"), timeout=TIMEOUT)
    assert found.generation_config == created.generation_config
    assert found.state.rows == created.state.rows


def test_a_session_without_inputs_has_as_many_rows_as_asked(served: Served) -> None:
    request = pb.CreateSessionRequest(batch_size=3)
    state = served.generator.CreateSession(request, timeout=TIMEOUT).state
    assert [row.length for row in state.rows] == [0, 0, 0]


def test_a_seed_that_was_drawn_is_told_and_draws_the_same_again(served: Served) -> None:
    config = generation_pb2.GenerationConfig(do_sample=True, min_new_tokens=8)
    first = served.generator.CreateSession(
        pb.CreateSessionRequest(inputs=[tokens(PROMPT)], generation_config=config), timeout=TIMEOUT
    )
    again = served.create(PROMPT, generation_config=first.generation_config)
    drawn = served.generate(first.state.session_id, 8).rows
    assert served.generate(again, 8).rows == drawn


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"session_id": "Not Allowed"}, "session_id"),
        ({"session_id": "x" * 64}, "session_id"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 2**32 - 1}, "batch_size"),
        ({"batch_size": 2, "inputs": [tokens([1])]}, "inputs"),
        ({"inputs": [tokens([1, 512])]}, "inputs[0].tokens.ids[1]"),
        ({"inputs": [tokens([2**32 - 1])]}, "inputs[0].tokens.ids[0]"),
        ({"request_id": "x" * 129}, "request_id"),
        ({"idle_timeout": Duration(seconds=0)}, "idle_timeout"),
        ({"idle_timeout": Duration(seconds=10**9)}, "idle_timeout"),
        ({"generation_config": {"temperature": 0}}, "generation_config.temperature"),
        ({"generation_config": {"temperature": float("nan")}}, "generation_config.temperature"),
        ({"generation_config": {"top_p": 1.5}}, "generation_config.top_p"),
        ({"generation_config": {"max_length": 513}}, "generation_config.max_length"),
        ({"generation_config": {"eos_token_id": [1, 512]}}, "generation_config.eos_token_id[1]"),
        ({"generation_config": {"eos_token_id": [2**32 - 1]}}, "generation_config.eos_token_id[0]"),
        ({"generation_config": {"pad_token_id": 2**31 - 1}}, "generation_config.pad_token_id"),
        ({"generation_config": {"stop_strings": ["a", ""]}}, "generation_config.stop_strings[1]"),
        ({"generation_config": {"min_new_tokens": 9, "max_new_tokens": 8}}, "generation_config.min_new_tokens"),
    ],
)
def test_a_session_that_cannot_be_is_refused_by_field(served: Served, fields: dict[str, Any], field: str) -> None:
    refusal = refused(served.generator.CreateSession, pb.CreateSessionRequest(**fields))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "FIELD_INVALID")
    assert refusal.fields == [field]
    assert refusal.message.startswith(f"{field}: ")


def test_a_taken_id_an_unknown_model_and_an_unknown_adapter_are_told_apart(served: Served) -> None:
    served.create(PROMPT, session_id="taken")
    create = served.generator.CreateSession
    taken = refused(create, pb.CreateSessionRequest(session_id="taken"))
    assert (taken.code, taken.reason) == (grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS")
    model = refused(create, pb.CreateSessionRequest(model="tiny-lama"))
    assert (model.code, model.reason) == (grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND")
    assert "tiny-llama" in model.message
    adapter = refused(create, pb.CreateSessionRequest(adapter="none"))
    assert (adapter.code, adapter.reason) == (grpc.StatusCode.NOT_FOUND, "ADAPTER_NOT_FOUND")


def test_a_closed_session_is_gone(served: Served) -> None:
    session = served.create(PROMPT)
    served.close(session)
    for call, request in (
        (served.generator.GetSession, pb.GetSessionRequest(session_id=session)),
        (served.generator.GetTokenCount, pb.GetTokenCountRequest(session_id=session)),
        (served.generator.CloseSession, pb.CloseSessionRequest(session_id=session)),
    ):
        refusal = refused(call, request)
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
        assert refusal.info.metadata["session"] == session


def test_every_method_of_a_session_says_that_an_unknown_one_is_not_found(served: Served) -> None:
    for method in pb.DESCRIPTOR.services_by_name["Generator"].methods:
        if "session_id" in method.input_type.fields_by_name and method.name != "CreateSession":
            request = getattr(pb, method.input_type.name)(session_id="nobody")
            refusal = refused(getattr(served.generator, method.name), request)
            assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"), method.name


def test_sessions_are_listed_by_id_a_page_at_a_time() -> None:
    with serving(models={"b": "tiny-llama", "a": "tiny-gpt2"}, default_model="b") as served:
        ids = [served.create([1], session_id=f"list-{index}", model="ab"[index % 2]) for index in range(5)]

        def listed(**fields: Any) -> tuple[list[str], str]:
            page = served.generator.ListSessions(pb.ListSessionsRequest(**fields), timeout=TIMEOUT)
            return [session.session_id for session in page.sessions], page.next_page_token

        first, token = listed(page_size=3)
        second, end = listed(page_size=3, page_token=token)
        assert (first + second, end) == (ids, "")
        assert listed(model="a") == (["list-0", "list-2", "list-4"], "")
        lister = served.generator.ListSessions
        assert refused(lister, pb.ListSessionsRequest(page_size=1001)).fields == ["page_size"]
        assert refused(lister, pb.ListSessionsRequest(page_token="?")).fields == ["page_token"]
        assert refused(lister, pb.ListSessionsRequest(model="c")).reason == "MODEL_NOT_FOUND"


def test_looking_at_a_session_is_no_use_of_it_and_using_it_is(served: Served) -> None:
    session = served.create(PROMPT)

    def expires() -> int:
        state = served.generator.GetSession(pb.GetSessionRequest(session_id=session), timeout=TIMEOUT).state
        return state.expire_time.ToNanoseconds()

    before = expires()
    assert expires() == before
    served.generate(session, 1)
    assert expires() > before


# --- tokens ----------------------------------------------------------------------------------------------------------


def test_appending_grows_the_named_rows_and_only_those(served: Served) -> None:
    session = served.create(PROMPT, [7])
    append = served.generator.AppendTokens
    state = append(pb.AppendTokensRequest(session_id=session, inputs=[tokens([1, 2], row=1)]), timeout=TIMEOUT).state
    assert [row.length for row in state.rows] == [4, 3]
    both = pb.AppendTokensRequest(session_id=session, inputs=[tokens([3]), tokens([4, 5])])
    assert [row.length for row in append(both, timeout=TIMEOUT).state.rows] == [5, 5]
    assert served.sequence(session, 1) == [7, 1, 2, 4, 5]


@pytest.mark.parametrize(
    ("inputs", "field"),
    [
        ([], "inputs"),
        ([tokens([1])], "inputs"),
        ([tokens([1], row=2)], "inputs[0].row"),
        ([tokens([1]), tokens([])], "inputs[1].tokens"),
        ([tokens([1]), tokens([1, 2, 512])], "inputs[1].tokens.ids[2]"),
        ([tokens([1]), tokens([1, 2], mask=[True])], "inputs[1].tokens.attention_mask"),
        ([tokens([1]), tokens([1, 2], mask=[False, False])], "inputs[1].tokens"),
        ([tokens([1]), types_pb2.RowInput()], "inputs[1]"),
    ],
)
def test_an_append_that_is_refused_changes_no_row(served: Served, inputs: list[Any], field: str) -> None:
    session = served.create([1, 2], [3])
    refusal = refused(served.generator.AppendTokens, pb.AppendTokensRequest(session_id=session, inputs=inputs))
    assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, [field])
    assert [served.sequence(session, row) for row in (0, 1)] == [[1, 2], [3]]


def test_an_append_past_the_end_appends_to_no_row(served: Served) -> None:
    session = served.create([1, 2], [3], generation_config={"max_length": 4})
    request = pb.AppendTokensRequest(session_id=session, inputs=[tokens([1, 1, 1]), tokens([1])])
    refusal = refused(served.generator.AppendTokens, request)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.OUT_OF_RANGE, "CONTEXT_LENGTH_EXCEEDED")
    assert dict(refusal.info.metadata) == {"length": "2", "appended": "3", "limit": "4", "row": "0"}
    assert [served.sequence(session, row) for row in (0, 1)] == [[1, 2], [3]]


def test_stepping_one_at_a_time_or_many_at_once_gives_the_same(served: Served) -> None:
    one, many = served.create(PROMPT), served.create(PROMPT)
    step = pb.GenerateNextTokenRequest(session_id=one)
    stepped = [served.generator.GenerateNextToken(step, timeout=TIMEOUT).next_tokens[0] for _ in range(6)]
    generated = served.generate(many, 6)
    assert list(generated.rows[0].token_ids) == stepped
    assert generated.steps == 6
    assert not generated.interrupted
    assert served.sequence(one) == served.sequence(many) == PROMPT + stepped


def test_a_request_may_append_edit_step_and_read_at_once(served: Served) -> None:
    session = served.create(PROMPT)
    edit = generation_pb2.LogitsEdit(allow_mask=bytes(10) + bytes([0b1000]) + bytes(53))
    request = pb.GenerateTokensRequest(
        session_id=session,
        steps=1,
        inputs=[tokens([8])],
        edits=[edit],
        return_logits=generation_pb2.LogitsSelector(top_k=3, dtype=types_pb2.DATA_TYPE_FLOAT16),
        skip_text=True,
    )
    reply = served.generator.GenerateTokens(request, timeout=TIMEOUT)
    assert [(list(row.token_ids), row.text) for row in reply.rows] == [([83], "")]
    assert served.sequence(session) == [*PROMPT, 8, 83]
    assert (list(reply.logits.values.shape), reply.logits.values.dtype) == ([1, 3], types_pb2.DATA_TYPE_FLOAT16)
    assert len(reply.logits.token_ids) == 3


def test_no_steps_are_made_where_none_are_asked_for(served: Served) -> None:
    session = served.create(PROMPT)
    reply = served.generate(session, 0, inputs=[tokens([1])])
    assert (reply.steps, list(reply.rows), reply.state.length) == (0, [], 5)


def test_without_a_number_of_steps_rows_run_until_they_finish(served: Served) -> None:
    session = served.create(PROMPT, [7, 8], generation_config={"max_new_tokens": 5, "min_new_tokens": 5})
    reply = served.generator.GenerateTokens(pb.GenerateTokensRequest(session_id=session), timeout=TIMEOUT)
    assert [row.finish_reason for row in reply.rows] == [types_pb2.FINISH_REASON_LENGTH] * 2
    assert reply.state.is_done
    for call, request in (
        (served.generator.GenerateNextToken, pb.GenerateNextTokenRequest(session_id=session)),
        (served.generator.GenerateTokens, pb.GenerateTokensRequest(session_id=session, steps=1)),
    ):
        refusal = refused(call, request)
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_DONE")


def test_stepping_needs_something_in_every_row(served: Served) -> None:
    session = served.generator.CreateSession(pb.CreateSessionRequest(batch_size=2), timeout=TIMEOUT).state.session_id
    request = pb.AppendTokensRequest(session_id=session, inputs=[tokens([1], row=0)])
    served.generator.AppendTokens(request, timeout=TIMEOUT)
    refusal = refused(served.generator.GenerateNextToken, pb.GenerateNextTokenRequest(session_id=session))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_EMPTY")


def test_next_tokens_are_those_of_the_last_step(served: Served) -> None:
    session = served.create(PROMPT, [7])
    ask = pb.GetNextTokensRequest(session_id=session)
    nothing = refused(served.generator.GetNextTokens, ask)
    assert (nothing.code, nothing.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "NOTHING_GENERATED")
    stepped = served.generator.GenerateNextToken(pb.GenerateNextTokenRequest(session_id=session), timeout=TIMEOUT)
    assert list(served.generator.GetNextTokens(ask, timeout=TIMEOUT).next_tokens) == list(stepped.next_tokens)


def test_a_sequence_can_be_read_from_anywhere_as_tokens_and_text(served: Served) -> None:
    text = "hello world"
    created = served.generator.CreateSession(
        pb.CreateSessionRequest(inputs=[types_pb2.RowInput(text=text)]), timeout=TIMEOUT
    )
    session, length = created.state.session_id, created.state.length
    get = served.generator.GetSequence
    whole = get(pb.GetSequenceRequest(session_id=session, return_text=True), timeout=TIMEOUT)
    assert whole.text == text
    rest = get(pb.GetSequenceRequest(session_id=session, start=2), timeout=TIMEOUT)
    assert (list(rest.token_ids), rest.text) == (list(whole.token_ids)[2:], "")
    assert not get(pb.GetSequenceRequest(session_id=session, start=length), timeout=TIMEOUT).token_ids
    assert refused(get, pb.GetSequenceRequest(session_id=session, start=length + 1)).fields == ["start"]
    assert refused(get, pb.GetSequenceRequest(session_id=session, row=1)).fields == ["row"]


def test_rewinding_goes_back_by_row_and_not_forward(served: Served) -> None:
    session = served.create(PROMPT, PROMPT)
    first = served.generate(session, 4)
    rewind = served.generator.RewindTo
    beyond = refused(rewind, pb.RewindToRequest(session_id=session, length=9))
    assert (beyond.code, beyond.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "REWIND_BEYOND_LENGTH")
    assert served.length(session) == 8
    state = rewind(pb.RewindToRequest(session_id=session, length=4, row=1), timeout=TIMEOUT).state
    assert [row.length for row in state.rows] == [8, 4]
    rewind(pb.RewindToRequest(session_id=session, length=4), timeout=TIMEOUT)
    assert served.generate(session, 4).rows == first.rows
    assert refused(rewind, pb.RewindToRequest(session_id=session, length=1, row=2)).fields == ["row"]


def test_a_fork_goes_its_own_way_and_the_original_goes_on(served: Served) -> None:
    session = served.create(PROMPT)
    served.generate(session, 2)
    config = generation_pb2.GenerationConfig(max_new_tokens=9)
    request = pb.ForkSessionRequest(session_id=session, new_session_id="forked", generation_config=config)
    fork = served.generator.ForkSession(request, timeout=TIMEOUT)
    assert (fork.state.session_id, fork.state.length) == ("forked", 6)
    assert fork.generation_config.max_new_tokens == 9
    served.generate("forked", 1)
    assert served.length(session) == 6
    again = refused(served.generator.ForkSession, request)
    assert (again.code, again.reason) == (grpc.StatusCode.ALREADY_EXISTS, "SESSION_EXISTS")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"new_session_id": "NO"}, "new_session_id"),
        ({"generation_config": {"top_p": 0}}, "generation_config.top_p"),
        ({"generation_config": {"max_length": 2}}, "generation_config.max_length"),
        ({"idle_timeout": Duration(seconds=-1)}, "idle_timeout"),
    ],
)
def test_a_fork_that_cannot_be_is_refused_by_field(served: Served, fields: dict[str, Any], field: str) -> None:
    session = served.create(PROMPT)
    refusal = refused(served.generator.ForkSession, pb.ForkSessionRequest(session_id=session, **fields))
    assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, [field])


# --- logits, inputs, outputs, adapters, options ----------------------------------------------------------------------


def test_logits_can_be_read_whole_in_part_and_as_set(served: Served) -> None:
    session = served.create(PROMPT, [7])
    get = served.generator.GetLogits
    whole = logits_of(get(pb.GetLogitsRequest(session_id=session), timeout=TIMEOUT).logits)
    assert whole.shape == (2, 512)
    top = pb.GetLogitsRequest(session_id=session, selector=generation_pb2.LogitsSelector(top_k=2))
    best = get(top, timeout=TIMEOUT).logits
    assert logits_of(best)[:, 0].tolist() == whole.max(axis=1).tolist()
    assert list(best.token_ids)[::2] == whole.argmax(axis=1).tolist()
    edit = generation_pb2.LogitsEdit(row=1, sparse=generation_pb2.SparseEdit(token_ids=[3], values=[99]))
    served.generator.SetLogits(pb.SetLogitsRequest(session_id=session, edits=[edit]), timeout=TIMEOUT)
    whole[1, 3] = 99
    assert logits_of(get(pb.GetLogitsRequest(session_id=session), timeout=TIMEOUT).logits).tolist() == whole.tolist()
    stepped = served.generator.GenerateNextToken(pb.GenerateNextTokenRequest(session_id=session), timeout=TIMEOUT)
    assert stepped.next_tokens[1] == 3


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        ({"dense": tensor(np.full(512, np.nan, np.float32))}, "edits[1].dense.data[0]"),
        ({"dense": tensor(np.full(512, np.inf, np.float32))}, "edits[1].dense.data[0]"),
        ({"dense": tensor(np.full(512, -np.inf, np.float32))}, "edits"),
        ({"allow_mask": bytes(64)}, "edits"),
        ({"deny_ids": types_pb2.TokenIds(ids=range(512))}, "edits"),
        ({"deny_ids": types_pb2.TokenIds(ids=[512])}, "edits[1].deny_ids.ids[0]"),
        ({"sparse": generation_pb2.SparseEdit(token_ids=[512], values=[1])}, "edits[1].sparse.token_ids[0]"),
        ({"row": 1, "deny_ids": types_pb2.TokenIds(ids=[1])}, "edits[1].row"),
    ],
)
def test_logits_that_nothing_could_be_drawn_from_are_refused(served: Served, edit: dict[str, Any], field: str) -> None:
    session = served.create(PROMPT)
    expected = served.generate(served.create(PROMPT), 1).rows
    harmless = generation_pb2.LogitsEdit(sparse=generation_pb2.SparseEdit(token_ids=[0], values=[99]))
    request = pb.SetLogitsRequest(session_id=session, edits=[harmless, generation_pb2.LogitsEdit(**edit)])
    refusal = refused(served.generator.SetLogits, request)
    assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, [field])
    assert served.generate(session, 1).rows == expected, "a refused edit must leave nothing behind"


def test_setting_logits_needs_an_edit(served: Served) -> None:
    session = served.create(PROMPT)
    assert refused(served.generator.SetLogits, pb.SetLogitsRequest(session_id=session)).fields == ["edits"]


def test_logits_of_a_very_large_vocabulary_pass_the_wire(served: Served) -> None:
    session = served.create(PROMPT)
    values = np.zeros((16, 256 * 1024), np.float32)
    edit = generation_pb2.LogitsEdit(dense=tensor(values))
    refusal = refused(served.generator.SetLogits, pb.SetLogitsRequest(session_id=session, edits=[edit]))
    assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, ["edits[0].dense.shape"])


def test_logits_that_no_message_could_carry_are_refused_before_they_are_computed() -> None:
    with serving(max_message_bytes=1024 * 1024, slots=512) as served:
        session = served.create(*[[1]] * 500)
        whole = generation_pb2.LogitsSelector()
        for call, request, field in (
            (served.generator.GetLogits, pb.GetLogitsRequest(session_id=session), "selector"),
            (
                served.generator.GenerateTokens,
                pb.GenerateTokensRequest(session_id=session, return_logits=whole),
                "return_logits",
            ),
        ):
            refusal = refused(call, request)
            assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, [field])
        output = refused(served.generator.GetOutput, pb.GetOutputRequest(session_id=session, name="logits"))
        assert (output.code, output.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "REPLY_TOO_LARGE")
        half = pb.GetLogitsRequest(session_id=session, selector={"dtype": types_pb2.DATA_TYPE_FLOAT16})
        assert len(served.generator.GetLogits(half, timeout=TIMEOUT).logits.values.data) == 500 * 512 * 2


def test_inputs_the_engine_keeps_cannot_be_set_and_unknown_ones_are_listed(served: Served) -> None:
    session = served.create(PROMPT)
    set_one = served.generator.SetModelInput
    ids = types_pb2.NamedTensor(name="input_ids", tensor=tensor(np.zeros((1, 4), np.int64)))
    managed = refused(set_one, pb.SetModelInputRequest(session_id=session, input=ids))
    assert (managed.code, managed.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "INPUT_MANAGED")
    wrong = types_pb2.NamedTensor(name="attention_musk", tensor=tensor(np.ones((1, 4), np.int64)))
    unknown = refused(set_one, pb.SetModelInputRequest(session_id=session, input=wrong))
    assert (unknown.code, unknown.reason) == (grpc.StatusCode.NOT_FOUND, "INPUT_NOT_FOUND")
    assert "attention_mask" in unknown.message


@pytest.mark.parametrize(
    "mask",
    [np.zeros((1, 4), np.int64), np.ones((1, 9), np.int64), np.full((1, 4), -1, np.int64), np.ones((1, 4), np.float32)],
    ids=["zeros", "long", "negative", "floats"],
)
def test_a_mask_that_hides_or_invents_tokens_never_reaches_the_model(served: Served, mask: np.ndarray) -> None:
    session = served.create(PROMPT)
    named = types_pb2.NamedTensor(name="attention_mask", tensor=tensor(mask))
    one = refused(served.generator.SetModelInput, pb.SetModelInputRequest(session_id=session, input=named))
    assert (one.code, one.fields) == (grpc.StatusCode.INVALID_ARGUMENT, ["input.tensor"])
    several = refused(served.generator.SetInputs, pb.SetInputsRequest(session_id=session, inputs=[named]))
    assert (several.code, several.fields) == (grpc.StatusCode.INVALID_ARGUMENT, ["inputs[0].tensor"])


def test_setting_inputs_needs_tensors_that_are_whole_and_named_once(served: Served) -> None:
    session = served.create(PROMPT)
    mask = types_pb2.NamedTensor(name="attention_mask", tensor=tensor(np.ones((1, 4), np.int64)))
    served.generator.SetInputs(pb.SetInputsRequest(session_id=session, inputs=[mask]), timeout=TIMEOUT)
    untyped = types_pb2.NamedTensor(name="attention_mask", tensor=types_pb2.Tensor(shape=[1], data=b"1"))
    for inputs, field in (([], "inputs"), ([mask, mask], "inputs[1].name"), ([untyped], "inputs[0].tensor.dtype")):
        refusal = refused(served.generator.SetInputs, pb.SetInputsRequest(session_id=session, inputs=inputs))
        assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, [field])


def test_inputs_and_outputs_can_be_read_by_name(served: Served) -> None:
    session = served.create(PROMPT)
    ids = served.generator.GetInput(pb.GetInputRequest(session_id=session, name="input_ids"), timeout=TIMEOUT).input
    assert (ids.name, list(ids.tensor.shape), ids.tensor.dtype) == ("input_ids", [1, 4], types_pb2.DATA_TYPE_INT64)
    output = served.generator.GetOutput(pb.GetOutputRequest(session_id=session, name="logits"), timeout=TIMEOUT).output
    logits = served.generator.GetLogits(pb.GetLogitsRequest(session_id=session), timeout=TIMEOUT).logits
    assert output.tensor == logits.values
    for call, request in (
        (served.generator.GetInput, pb.GetInputRequest(session_id=session, name="nothing")),
        (served.generator.GetOutput, pb.GetOutputRequest(session_id=session, name="nothing")),
    ):
        assert refused(call, request).code == grpc.StatusCode.NOT_FOUND


def test_runtime_options_are_known_ones(served: Served) -> None:
    session = served.create(PROMPT)
    set_option = served.generator.SetRuntimeOption
    key = refused(set_option, pb.SetRuntimeOptionRequest(session_id=session, key="speed", value="1"))
    assert (key.code, key.fields) == (grpc.StatusCode.INVALID_ARGUMENT, ["key"])
    assert "terminate_session" in key.message
    value = refused(set_option, pb.SetRuntimeOptionRequest(session_id=session, key="cuda_graph", value="yes"))
    assert value.fields == ["value"]
    set_option(pb.SetRuntimeOptionRequest(session_id=session, key="terminate_session", value="1"), timeout=TIMEOUT)
    stopped = refused(
        served.generator.GenerateTokens, pb.GenerateTokensRequest(session_id=session, inputs=[tokens([1])], steps=1)
    )
    assert stopped.code == grpc.StatusCode.FAILED_PRECONDITION
    set_option(pb.SetRuntimeOptionRequest(session_id=session, key="terminate_session", value="0"), timeout=TIMEOUT)
    assert served.generate(session, 1).steps == 1


def test_interrupting_an_idle_session_changes_nothing(served: Served) -> None:
    session = served.create(PROMPT)
    state = served.generator.Interrupt(pb.InterruptRequest(session_id=session), timeout=TIMEOUT).state
    assert (state.length, state.is_done) == (4, False)
    assert served.generate(session, 2).steps == 2


def test_hooks_are_for_streams(served: Served) -> None:
    session = served.create(PROMPT)
    request = pb.GenerateTokensRequest(session_id=session, steps=1, logits_hook=pb.LogitsHook())
    assert refused(served.generator.GenerateTokens, request).fields == ["logits_hook"]


# --- retries and writers ---------------------------------------------------------------------------------------------


def test_a_retry_gets_the_first_answer_and_does_nothing_again(served: Served) -> None:
    created = [
        served.generator.CreateSession(
            pb.CreateSessionRequest(inputs=[tokens(PROMPT)], request_id="create-once"), timeout=TIMEOUT
        )
        for _ in range(2)
    ]
    assert created[0].state.session_id == created[1].state.session_id
    session = created[0].state.session_id
    generated = [served.generate(session, 3, request_id="generate-once") for _ in range(3)]
    assert generated[1:] == generated[:1] * 2
    assert served.length(session) == 7
    append = pb.AppendTokensRequest(session_id=session, inputs=[tokens([1])], request_id="append-once")
    assert {served.generator.AppendTokens(append, timeout=TIMEOUT).state.length for _ in range(3)} == {8}


def test_a_retry_that_comes_while_the_first_still_waits_gets_its_answer_too(served: Served) -> None:
    session = served.create(PROMPT)
    request = pb.GenerateTokensRequest(session_id=session, steps=20, request_id="both")
    calls = [served.generator.GenerateTokens.future(request, timeout=TIMEOUT) for _ in range(4)]
    replies = [call.result() for call in calls]
    assert replies[1:] == replies[:1] * 3
    assert served.length(session) == 24


def test_an_id_means_nothing_to_a_request_of_another_kind(served: Served) -> None:
    session = served.create(PROMPT, request_id="one-id-for-all")
    append = pb.AppendTokensRequest(session_id=session, inputs=[tokens([1])], request_id="one-id-for-all")
    assert served.generator.AppendTokens(append, timeout=TIMEOUT).state.length == 5
    assert served.generate(session, 2, request_id="one-id-for-all").state.length == 7
    rewind = pb.RewindToRequest(session_id=session, length=4, request_id="one-id-for-all")
    assert served.generator.RewindTo(rewind, timeout=TIMEOUT).state.length == 4
    assert served.generator.AppendTokens(append, timeout=TIMEOUT).state.length == 5, "told, not done"
    assert served.length(session) == 4


def test_a_failed_request_may_be_tried_again_under_its_id(served: Served) -> None:
    session = served.create(PROMPT, generation_config={"max_length": 6})
    append = served.generator.AppendTokens
    too_long = pb.AppendTokensRequest(session_id=session, inputs=[tokens([1, 1, 1])], request_id="again")
    assert refused(append, too_long).code == grpc.StatusCode.OUT_OF_RANGE
    fits = pb.AppendTokensRequest(session_id=session, inputs=[tokens([1])], request_id="again")
    assert append(fits, timeout=TIMEOUT).state.length == 5


def test_an_expected_length_that_is_not_so_aborts_and_tells_the_real_one(served: Served) -> None:
    session = served.create(PROMPT)
    requests: list[tuple[Any, Any]] = [
        (served.generator.AppendTokens, pb.AppendTokensRequest(inputs=[tokens([1])])),
        (served.generator.GenerateNextToken, pb.GenerateNextTokenRequest()),
        (served.generator.GenerateTokens, pb.GenerateTokensRequest(steps=1)),
        (served.generator.RewindTo, pb.RewindToRequest(length=1)),
        (served.generator.ForkSession, pb.ForkSessionRequest()),
    ]
    for call, request in requests:
        request.session_id, request.expected_length = session, 0
        refusal = refused(call, request)
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.ABORTED, "POSITION_MISMATCH")
        assert (refusal.info.metadata["expected"], refusal.info.metadata["actual"]) == ("0", "4")
    assert served.sequence(session) == PROMPT
    good = pb.AppendTokensRequest(session_id=session, inputs=[tokens([1])], expected_length=4)
    assert served.generator.AppendTokens(good, timeout=TIMEOUT).state.length == 5


# --- limits and bytes ------------------------------------------------------------------------------------------------


def test_the_limit_on_sessions_is_told_with_when_to_try_again() -> None:
    with serving(max_sessions=2) as served:
        first = served.create([1])
        served.create([1])
        refusal = refused(served.generator.CreateSession, pb.CreateSessionRequest())
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SESSION_LIMIT")
        assert refusal.retry_seconds > 0
        served.close(first)
        served.create([1])


def test_bytes_that_are_no_message_are_an_invalid_argument(served: Served) -> None:
    for method in ("Generator/GetSession", "Models/GetModel", "Tokenizer/Encode"):
        call = served.channel.unary_unary(f"/tokenloom.v1.{method}")
        refusal = refused(call, b"\xff\xff\xff")
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "FIELD_INVALID")


def test_methods_that_do_not_exist_are_unimplemented(served: Served) -> None:
    call = served.channel.unary_unary("/tokenloom.v1.Generator/Nothing")
    assert refused(call, b"").code == grpc.StatusCode.UNIMPLEMENTED
