"""Messages and the runtime's values say the same, both ways; what is wrong is named as the client wrote it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from serving import MODELS, tensor, tokens

from runtime.errors import FailedPrecondition, InvalidArgument, Unimplemented
from runtime.generation_config import GenerationConfig
from runtime.model import Model
from runtime.operations import EditKind, FinishReason, LogitsSelector, RowSnapshot, SelectedLogits, SessionSnapshot
from service.convert import fields
from service.convert.inputs import from_tokens, to_inputs, to_tokens
from service.convert.logits import from_logits, to_edits, to_selector
from service.convert.settings import from_config, to_config
from service.convert.state import FINISH_REASONS, from_snapshot
from service.convert.tensors import from_array, to_array
from tokenloom.v1 import generation_pb2, generator_pb2, types_pb2

VOCABULARY = 10
dtypes = st.sampled_from([np.float32, np.float16, np.int32, np.int64, np.bool_])


def violated(call: Any, *arguments: Any) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        call(*arguments)
    return caught.value


# --- tensors ---------------------------------------------------------------------------------------------------------


@given(dtypes.flatmap(lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=4))))
def test_tensors_come_back_bit_for_bit(array: np.ndarray) -> None:
    back = to_array(from_array(array), "tensor")
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_tensors_are_sent_row_major_and_little_endian_whatever_they_are_in_memory() -> None:
    array = np.arange(6, dtype=">i4").reshape(2, 3).T
    message = from_array(array)
    assert list(message.shape) == [3, 2]
    assert message.data == np.array([[0, 3], [1, 4], [2, 5]], "<i4").tobytes()


def test_element_types_the_protocol_lacks_are_not_sent_as_something_else() -> None:
    with pytest.raises(Unimplemented, match="float64"):
        from_array(np.zeros(3, np.float64))


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (types_pb2.Tensor(shape=[1], data=b"1234"), "t.dtype"),
        (types_pb2.Tensor(dtype=99, shape=[1], data=b"1234"), "t.dtype"),
        (types_pb2.Tensor(dtype=1, shape=[2], data=b"1234"), "t.data"),
        (types_pb2.Tensor(dtype=1, shape=[1], data=b"12345"), "t.data"),
        (types_pb2.Tensor(dtype=1, shape=[], data=b""), "t.data"),
        (types_pb2.Tensor(dtype=1, shape=[0, 2**32 - 1, 2**32 - 1], data=b""), "t.data"),
        (types_pb2.Tensor(dtype=1, shape=[2**32 - 1] * 16, data=b"1234"), "t.data"),
        (types_pb2.Tensor(dtype=1, shape=[1] * 17, data=b"1234"), "t.shape"),
        (types_pb2.Tensor(dtype=5, shape=[2], data=b"\x01\x02"), "t.data"),
    ],
)
def test_tensors_whose_parts_do_not_fit_are_refused(message: types_pb2.Tensor, field: str) -> None:
    assert violated(to_array, message, "t").field == field


# --- settings --------------------------------------------------------------------------------------------------------

floats = st.floats(width=32, allow_nan=False)
configs = st.builds(
    GenerationConfig,
    **{
        "do_sample": st.none() | st.booleans(),
        "seed": st.none() | st.integers(0, 2**64 - 1),
        "eos_token_id": st.lists(st.integers(0, 2**32 - 1), max_size=4).map(tuple),
        "stop_strings": st.lists(st.text(max_size=5), max_size=4).map(tuple),
    },
    **{name: st.none() | floats for name in ("temperature", "top_p", "min_p", "repetition_penalty")},
    **{
        name: st.none() | st.integers(0, 2**32 - 1)
        for name in ("max_length", "max_new_tokens", "min_new_tokens", "top_k", "pad_token_id")
    },
)


@given(configs)
def test_settings_come_back_with_unset_apart_from_zero(config: GenerationConfig) -> None:
    assert to_config(from_config(config)) == config


def test_every_setting_of_the_runtime_is_in_the_message() -> None:
    names = {field.name for field in dataclasses.fields(GenerationConfig)}
    assert names == set(generation_pb2.GenerationConfig.DESCRIPTOR.fields_by_name)


# --- tokens and inputs -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> Model:
    return Model.load(MODELS / "tiny-llama")


def test_masked_tokens_are_dropped_before_anything_else_happens() -> None:
    message = types_pb2.TokenIds(ids=[99, 1, 2, 99], attention_mask=[False, True, True, False])
    assert to_tokens(message, VOCABULARY, "t").tolist() == [1, 2]
    assert from_tokens(np.array([1, 2])) == types_pb2.TokenIds(ids=[1, 2])


@pytest.mark.parametrize("bad", [VOCABULARY, 2**31 - 1, 2**32 - 1])
def test_an_id_outside_the_vocabulary_is_named_by_its_index_as_sent(bad: int) -> None:
    message = types_pb2.TokenIds(ids=[99, 1, bad], attention_mask=[False, True, True])
    error = violated(to_tokens, message, VOCABULARY, "inputs[0].tokens")
    assert (error.field, error.allowed) == ("inputs[0].tokens.ids[2]", "an id in [0, 10)")


def test_a_mask_of_another_length_is_refused() -> None:
    message = types_pb2.TokenIds(ids=[1, 2], attention_mask=[True])
    assert violated(to_tokens, message, VOCABULARY, "t").field == "t.attention_mask"


def test_inputs_without_rows_are_for_all_rows_in_order(model: Model) -> None:
    inputs = to_inputs([tokens([1]), tokens([2, 3])], model, 2)
    assert {row: ids.tolist() for row, ids in inputs.items()} == {0: [1], 1: [2, 3]}


def test_inputs_with_rows_are_for_those_rows_alone(model: Model) -> None:
    inputs = to_inputs([tokens([1], row=2), tokens([2], row=0)], model, 3)
    assert {row: ids.tolist() for row, ids in inputs.items()} == {2: [1], 0: [2]}


@pytest.mark.parametrize(
    ("inputs", "field"),
    [
        ([tokens([1])], "inputs"),
        ([tokens([1]), tokens([1]), tokens([1])], "inputs"),
        ([tokens([1], row=0), tokens([1])], "inputs[1].row"),
        ([tokens([1], row=0), tokens([1], row=0)], "inputs[1].row"),
        ([tokens([1], row=2)], "inputs[0].row"),
        ([types_pb2.RowInput(row=0)], "inputs[0]"),
        ([tokens([], row=0)], "inputs[0].tokens"),
        ([tokens([1, 2], row=0, mask=[False, False])], "inputs[0].tokens"),
        ([types_pb2.RowInput(row=0, text="")], "inputs[0].text"),
        ([types_pb2.RowInput(row=0, chat=types_pb2.ChatMessages())], "inputs[0].chat.messages"),
        (
            [types_pb2.RowInput(row=0, tokens=types_pb2.TokenIds(ids=[1]), add_special_tokens=False)],
            "inputs[0].add_special_tokens",
        ),
    ],
)
def test_inputs_that_do_not_fit_the_rows_are_refused_by_field(model: Model, inputs: list[Any], field: str) -> None:
    assert violated(to_inputs, inputs, model, 2).field == field


def test_text_is_tokenised_without_special_tokens_unless_asked_for(model: Model) -> None:
    assert model.tokenizer is not None
    plain = to_inputs([types_pb2.RowInput(text="hello")], model, 1)[0].tolist()
    framed = to_inputs([types_pb2.RowInput(text="hello", add_special_tokens=True)], model, 1)[0].tolist()
    assert plain == model.tokenizer.encode("hello")
    assert framed == model.tokenizer.encode("hello", add_special_tokens=True)


def test_a_conversation_goes_through_the_chat_template(model: Model) -> None:
    assert model.tokenizer is not None
    chat = types_pb2.ChatMessages(messages=[types_pb2.ChatMessage(role="user", content="hi")])
    text = model.tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], add_generation_prompt=True)
    assert to_inputs([types_pb2.RowInput(chat=chat)], model, 1)[0].tolist() == model.tokenizer.encode(text)


def test_text_needs_a_tokenizer() -> None:
    bare = Model.load(MODELS / "tiny-llama")
    bare.tokenizer = None
    with pytest.raises(FailedPrecondition) as caught:
        to_inputs([types_pb2.RowInput(text="hello")], bare, 1)
    assert caught.value.reason == "NO_TOKENIZER"


# --- logits ----------------------------------------------------------------------------------------------------------


def edit(**content: Any) -> generation_pb2.LogitsEdit:
    return generation_pb2.LogitsEdit(**content)


def sparse(ids: list[int], values: list[float], operation: int = 0) -> generation_pb2.LogitsEdit:
    return edit(sparse=generation_pb2.SparseEdit(token_ids=ids, values=values, operation=operation))


def test_selectors_select_all_or_the_largest_or_those_named() -> None:
    assert to_selector(generation_pb2.LogitsSelector(), VOCABULARY, "s") == LogitsSelector()
    assert to_selector(generation_pb2.LogitsSelector(top_k=3), VOCABULARY, "s").top_k == 3
    named = generation_pb2.LogitsSelector(token_ids=types_pb2.TokenIds(ids=[3, 1]))
    chosen = to_selector(named, VOCABULARY, "s").token_ids
    assert chosen is not None and chosen.tolist() == [3, 1]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (generation_pb2.LogitsSelector(top_k=0), "s.top_k"),
        (generation_pb2.LogitsSelector(top_k=VOCABULARY + 1), "s.top_k"),
        (generation_pb2.LogitsSelector(token_ids=types_pb2.TokenIds()), "s.token_ids"),
        (generation_pb2.LogitsSelector(token_ids=types_pb2.TokenIds(ids=[1, 10])), "s.token_ids.ids[1]"),
        (generation_pb2.LogitsSelector(dtype=types_pb2.DATA_TYPE_INT64), "s.dtype"),
    ],
)
def test_selectors_out_of_range_are_refused(message: generation_pb2.LogitsSelector, field: str) -> None:
    assert violated(to_selector, message, VOCABULARY, "s").field == field


def test_logits_are_told_in_the_type_asked_for() -> None:
    selected = SelectedLogits(np.array([[1.5, -np.inf], [1e6, 0]], np.float32), np.array([[4, 2], [1, 0]]))
    single = from_logits(selected, types_pb2.DATA_TYPE_UNSPECIFIED)
    half = from_logits(selected, types_pb2.DATA_TYPE_FLOAT16)
    assert list(single.token_ids) == [4, 2, 1, 0]
    assert to_array(single.values, "v").tolist() == selected.values.tolist()
    assert to_array(half.values, "v").dtype == np.float16
    assert to_array(half.values, "v").tolist() == [[1.5, -np.inf], [np.inf, 0]]


def test_edits_come_in_four_kinds() -> None:
    dense, spare, mask, deny = to_edits(
        [
            edit(row=1, dense=tensor(np.arange(10, dtype=np.float16))),
            sparse([3, 1], [0.5, -np.inf], generation_pb2.EDIT_OPERATION_ADD),
            edit(allow_mask=bytes([0b00000101, 0b10])),
            edit(deny_ids=types_pb2.TokenIds(ids=[7])),
        ],
        VOCABULARY,
        2,
    )
    assert dense.row == 1 and dense.values is not None and dense.values.dtype == np.float32
    assert dense.values.tolist() == list(range(10))
    assert spare.kind is EditKind.ADD and spare.row is None
    assert spare.values is not None and spare.values.tolist() == [0.5, -np.inf]
    assert spare.token_ids is not None and spare.token_ids.tolist() == [3, 1]
    assert mask.allowed is not None and np.flatnonzero(mask.allowed).tolist() == [0, 2, 9]
    assert deny.token_ids is not None and deny.token_ids.tolist() == [7] and deny.values is None


def test_a_dense_edit_may_differ_by_row() -> None:
    (made,) = to_edits([edit(dense=tensor(np.zeros((2, 10), np.float32)))], VOCABULARY, 2)
    assert made.values is not None and made.values.shape == (2, 10)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (edit(), "edits[0]"),
        (edit(row=2, deny_ids=types_pb2.TokenIds(ids=[1])), "edits[0].row"),
        (edit(dense=tensor(np.zeros(9, np.float32))), "edits[0].dense.shape"),
        (edit(row=0, dense=tensor(np.zeros((2, 10), np.float32))), "edits[0].dense.shape"),
        (edit(dense=tensor(np.zeros(10, np.int64))), "edits[0].dense.dtype"),
        (edit(dense=types_pb2.Tensor(dtype=1, shape=[10], data=b"")), "edits[0].dense.data"),
        (edit(dense=tensor(np.array([0, 1, np.nan, *[0] * 7], np.float32))), "edits[0].dense.data[2]"),
        (edit(dense=tensor(np.array([0, np.inf, *[0] * 8], np.float16))), "edits[0].dense.data[1]"),
        (sparse([1, 2], [0.5]), "edits[0].sparse.values"),
        (sparse([1, 10], [0.5, 0.5]), "edits[0].sparse.token_ids[1]"),
        (sparse([1, 1], [0.5, 0.5]), "edits[0].sparse.token_ids"),
        (sparse([1, 2], [0.5, np.nan]), "edits[0].sparse.values[1]"),
        (sparse([1, 2], [np.inf, 1]), "edits[0].sparse.values[0]"),
        (sparse([1], [1], 9), "edits[0].sparse.operation"),
        (edit(allow_mask=b"\xff"), "edits[0].allow_mask"),
        (edit(allow_mask=b"\xff\xff\xff"), "edits[0].allow_mask"),
        (edit(deny_ids=types_pb2.TokenIds(ids=[2**32 - 1])), "edits[0].deny_ids.ids[0]"),
    ],
)
def test_edits_that_cannot_be_made_are_refused_by_field(message: generation_pb2.LogitsEdit, field: str) -> None:
    assert violated(to_edits, [message], VOCABULARY, 2).field == field


# --- state and the rest ----------------------------------------------------------------------------------------------


def test_a_state_has_everything_of_its_snapshot() -> None:
    rows = (RowSnapshot(5, 2, FinishReason.STOP_STRING, "end"), RowSnapshot(7, 0, FinishReason.NONE, ""))
    state = from_snapshot(SessionSnapshot("s", "m", "a", rows, 1_700_000_000.25, True), attached=True)
    assert (state.session_id, state.model, state.adapter) == ("s", "m", "a")
    assert (state.length, state.is_done, state.parked, state.attached) == (7, False, True, True)
    assert state.expire_time.ToMilliseconds() == 1_700_000_000_250
    assert state.rows[0] == types_pb2.RowState(length=5, new_tokens=2, finish_reason=3, stop_string="end")
    assert state.rows[1] == types_pb2.RowState(length=7)


def test_every_finish_reason_has_its_own_number() -> None:
    assert set(FINISH_REASONS) == set(FinishReason)
    assert sorted(FINISH_REASONS.values()) == sorted(types_pb2.FinishReason.values())


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(0, 0), (-1, 0), (11, 0), (10, 1), (1, -1), (1, 10**9), (-(2**63), 0), (2**63 - 1, 0)]
)
def test_idle_timeouts_out_of_range_are_refused(seconds: int, nanos: int) -> None:
    request = generator_pb2.CreateSessionRequest(idle_timeout={"seconds": seconds, "nanos": nanos})
    assert violated(fields.idle_timeout, request.idle_timeout, 10.0).field == "idle_timeout"


@given(st.floats(0.001, 10))
def test_idle_timeouts_come_back(seconds: float) -> None:
    assert fields.idle_timeout(fields.duration(seconds), 10.0) == pytest.approx(seconds, abs=1e-9)


def test_request_ids_have_a_length() -> None:
    assert fields.request_id("x" * 128)
    assert violated(fields.request_id, "\N{SNOWMAN}" * 43).field == "request_id"


def test_a_moved_error_names_the_new_field_everywhere() -> None:
    error = fields.below("generation_config", InvalidArgument("temperature", 0, "more"))
    assert error.field == error.metadata["field"] == "generation_config.temperature"
    assert error.message.startswith("generation_config.temperature: 0 ")
