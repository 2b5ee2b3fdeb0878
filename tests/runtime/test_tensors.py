"""Named inputs and outputs of the graph: what can be set and read, checked against its signature before any run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from driver import COMBINED, EMBEDDED, GPT2, LLAMA, Session, copy_of, load_model, prompt, raises, running
from onnx import helper, numpy_helper

from runtime import Engine, Model, ModelOptions
from runtime import operations as ops
from runtime.errors import FailedPrecondition, InvalidArgument, NotFound

NEVER_DONE = {"min_new_tokens": 10_000}


@pytest.fixture(scope="module")
def embedded() -> Iterator[Engine]:
    """Takes inputs_embeds [rows, tokens, 64] beside the tokens."""
    with running(load_model(EMBEDDED)) as engine:
        yield engine


def embeddings(rows: int, tokens: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, tokens, 64)).astype(np.float32)


def set_input(session: Session, name: str, value: np.ndarray) -> None:
    session.do(ops.SetInputs, inputs={name: value})


def get_input(session: Session, name: str) -> np.ndarray:
    return session.do(ops.GetInput, name=name).value


def get_output(session: Session, name: str) -> np.ndarray:
    return session.do(ops.GetOutput, name=name).value


# --- setting ---------------------------------------------------------------------------------------------------------


def test_an_input_that_was_set_is_run_with_and_read_back(embedded: Engine) -> None:
    session = Session(embedded)
    value = embeddings(1, 4)
    set_input(session, "inputs_embeds", value)
    np.testing.assert_array_equal(get_input(session, "inputs_embeds"), value)
    session.append([2, 3, 4, 5])
    direct = embedded.model.session.run(
        ["logits"],
        {
            "input_ids": np.array([[2, 3, 4, 5]], np.int32),
            "inputs_embeds": value,
            **{
                name: np.zeros((1, 4, 0, 16), info.dtype)
                for name, info in embedded.model.inputs.items()
                if name.startswith("past_key_values")
            },
            **{
                name: np.ones((1, 4), info.dtype)
                for name, info in embedded.model.inputs.items()
                if name == "attention_mask"
            },
        },
    )[0]
    np.testing.assert_allclose(session.logits(), direct[:, -1, :], atol=1e-5)


def test_a_run_that_lacks_an_input_is_an_error_that_names_it(embedded: Engine) -> None:
    session = Session(embedded)
    with raises(FailedPrecondition, reason="INPUT_MISSING"):
        session.append([2, 3])
    with raises(FailedPrecondition, reason="INPUT_MISSING"):
        get_input(session, "inputs_embeds")
    assert session.length == 0
    set_input(session, "inputs_embeds", embeddings(1, 2))
    assert session.append([2, 3]).length == 2


def test_an_input_must_cover_the_tokens_that_are_appended(embedded: Engine) -> None:
    session = Session(embedded)
    set_input(session, "inputs_embeds", embeddings(1, 2))
    with raises(FailedPrecondition, reason="INPUT_MISSING"):
        session.append([2, 3, 4])


@pytest.mark.parametrize(
    "value",
    [
        embeddings(1, 2).astype(np.float64),
        embeddings(1, 2).astype(np.float16),
        embeddings(2, 2),
        embeddings(1, 2)[0],
        embeddings(1, 2)[:, :, :63],
    ],
    ids=lambda value: f"{value.dtype}{list(value.shape)}",
)
def test_other_types_and_shapes_than_the_signatures_are_refused(embedded: Engine, value: np.ndarray) -> None:
    session = Session(embedded)
    with raises(InvalidArgument, field="inputs_embeds"):
        set_input(session, "inputs_embeds", value)
    with raises(FailedPrecondition, reason="INPUT_MISSING"):
        get_input(session, "inputs_embeds")


def test_all_inputs_are_set_or_none(embedded: Engine) -> None:
    session = Session(embedded)
    with raises(NotFound, reason="INPUT_NOT_FOUND"):
        session.do(ops.SetInputs, inputs={"inputs_embeds": embeddings(1, 2), "pixel_values": embeddings(1, 1)})
    with raises(FailedPrecondition, reason="INPUT_MISSING"):
        get_input(session, "inputs_embeds")
    with raises(InvalidArgument, field="inputs"):
        session.do(ops.SetInputs, inputs={})


def test_unknown_names_list_the_known(embedded: Engine, engine: Engine) -> None:
    with pytest.raises(NotFound, match="did you mean 'inputs_embeds'"):
        set_input(Session(embedded), "input_embeds", embeddings(1, 1))
    with pytest.raises(NotFound, match="attention_mask, input_ids"):
        set_input(Session(engine), "zzz", embeddings(1, 1))
    for operation in (ops.GetInput, ops.GetOutput):
        with pytest.raises(NotFound):
            Session(engine, [5]).do(operation, name="zzz")


@pytest.mark.parametrize("name", ["input_ids", "past_key_values.0.key"])
def test_inputs_that_the_engine_keeps_cannot_be_set(engine: Engine, name: str) -> None:
    with raises(FailedPrecondition, reason="INPUT_MANAGED"):
        set_input(Session(engine, [5]), name, np.zeros((1, 1), np.int64))


# --- masks (case 24) -------------------------------------------------------------------------------------------------


def test_a_mask_that_says_what_is_so_is_accepted(engine: Engine) -> None:
    session = Session(engine, [5, 6, 7], [8])
    for dtype in (np.int64, np.int32, np.bool_):
        set_input(session, "attention_mask", np.array([[1, 1, 1], [1, 0, 0]], dtype))
    assert len(session.tokens(1)) == 1


@pytest.mark.parametrize(
    "mask",
    [
        [[1, 1, 1], [0, 0, 0]],  # nothing of a row
        [[1, 1, 1], [0, 0, 1]],  # padding on the left
        [[1, 1, 1, 1], [1, 0, 0, 0]],  # longer than the cache
        [[1, 1], [1, 0]],
        [[1, 1, 1]],
        [[1, 1, -1], [1, 0, 0]],
        [[1, 1, 2], [1, 0, 0]],
        [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]],
    ],
    ids=str,
)
def test_other_masks_are_refused_before_anything_runs(engine: Engine, mask: list[list[float]]) -> None:
    session = Session(engine, [5, 6, 7], [8], **NEVER_DONE)
    before = engine.stats().model_seconds
    with raises(InvalidArgument, field="attention_mask"):
        set_input(session, "attention_mask", np.array(mask))
    assert engine.stats().model_seconds == before
    assert session.length == 3


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [LLAMA, GPT2, COMBINED])
def test_what_the_engine_keeps_can_be_read_as_the_graph_has_it(name: str) -> None:
    with running(load_model(name)) as engine:
        model = engine.model
        session = Session(engine, [11, 12, 13], [21, 22, 23], **NEVER_DONE)
        for known in model.inputs:
            value = get_input(session, known)
            info = model.inputs[known]
            assert value.dtype == info.dtype
            assert value.ndim == len(info.shape)
        np.testing.assert_array_equal(get_input(session, model.config.names.input_ids), [[11, 12, 13], [21, 22, 23]])
        session.generate(1)
        session.logits()
        assert get_input(session, model.config.names.input_ids).shape == (2, 1)


@pytest.mark.parametrize("name", [LLAMA, GPT2, COMBINED])
def test_every_output_can_be_read_and_reading_changes_nothing(name: str) -> None:
    with running(load_model(name)) as engine:
        read, unread = (Session(engine, prompt(5), prompt(5, 1), **NEVER_DONE) for _ in range(2))
        for session in (read, unread):
            session.generate(2)
        for output in engine.model.outputs:
            value = get_output(read, output)
            assert value.shape[1 if engine.model.config.names.combined and output != "logits" else 0] == 2
        np.testing.assert_array_equal(get_output(read, "logits"), unread.logits())
        np.testing.assert_array_equal(read.logits(), unread.logits())
        assert read.generate(3).rows == unread.generate(3).rows


def test_present_keys_are_those_of_the_tokens_so_far(engine: Engine) -> None:
    session = Session(engine, prompt(5), **NEVER_DONE)
    before = get_output(session, "present.0.key")
    assert before.shape == (1, 2, 5, 16)
    session.generate(2)
    after = get_output(session, "present.0.key")
    assert after.shape == (1, 2, 7, 16)
    np.testing.assert_array_equal(after[:, :, :5], before)


def test_a_tensor_of_rows_of_other_lengths_is_refused(engine: Engine) -> None:
    session = Session(engine, prompt(5), prompt(3))
    with raises(FailedPrecondition, reason="ROWS_DIFFER"):
        get_output(session, "present.0.key")


def test_inputs_of_a_run_are_there_after_a_run(engine: Engine) -> None:
    with raises(FailedPrecondition, reason="NOTHING_RUN"):
        get_input(Session(engine), "input_ids")


@pytest.fixture(scope="module")
def with_hidden_states(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """tiny-gpt2, whose graph also gives the last hidden states."""
    folder = copy_of(GPT2, tmp_path_factory.mktemp("hidden"))
    graph = onnx.load(folder / "model.onnx")
    producer = next(node for node in graph.graph.node if "logits" in node.output)
    hidden = helper.make_tensor_value_info(
        "hidden_states", onnx.TensorProto.FLOAT, ["batch_size", "sequence_length", 64]
    )
    graph.graph.node.append(helper.make_node("Identity", [producer.input[0]], ["hidden_states"]))
    graph.graph.output.append(hidden)
    onnx.save(graph, folder / "model.onnx")
    return Model.load(folder, options=ModelOptions(threads=1))


def test_hidden_states_are_those_of_the_last_position_of_each_row(with_hidden_states: Model) -> None:
    """Also of rows of unequal lengths, and after a step."""
    graph = onnx.load(with_hidden_states.config.graph).graph
    name = next(node for node in graph.node if "logits" in node.output).input[1]
    head = next(numpy_helper.to_array(value) for value in graph.initializer if value.name == name)
    with running(with_hidden_states) as engine:
        session = Session(engine, prompt(5), prompt(3), [7], **NEVER_DONE)
        for _ in range(2):
            hidden = get_output(session, "hidden_states")
            assert hidden.shape == (3, 1, 64)
            np.testing.assert_allclose(hidden[:, 0] @ head, session.logits(), atol=1e-3)
            session.generate(1)
