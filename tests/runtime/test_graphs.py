"""Shapes and types that a graph may have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from driver import COMBINED, LLAMA, Session, copy_of, load_model, prompt, raises, running
from onnx import helper, numpy_helper

from runtime import Model, ModelOptions
from runtime import operations as ops
from runtime.errors import InvalidArgument

NEVER_DONE = {"min_new_tokens": 10_000}


def test_lengths_may_be_given_to_attention_as_a_column(llama: Model, tmp_path: Path) -> None:
    """seqlens_k of shape [batch, 1] (case 25)."""
    folder = copy_of(LLAMA, tmp_path)
    graph = onnx.load(folder / "model.onnx")
    nodes = list(graph.graph.node)
    attention = [node for node in nodes if node.op_type == "GroupQueryAttention"]
    assert attention
    lengths = attention[0].input[5]
    graph.graph.initializer.append(numpy_helper.from_array(np.array([-1, 1], np.int64), "column"))
    reshape = helper.make_node("Reshape", [lengths, "column"], ["lengths_column"])
    for node in attention:
        node.input[5] = "lengths_column"
    del graph.graph.node[:]
    graph.graph.node.extend([*nodes[: nodes.index(attention[0])], reshape, *nodes[nodes.index(attention[0]) :]])
    onnx.save(graph, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data")
    with running(Model.load(folder, options=ModelOptions(threads=1))) as column, running(llama) as plain:
        sessions = [Session(engine, prompt(5), prompt(9), **NEVER_DONE) for engine in (column, plain)]
        first, second = (session.generate(6).rows for session in sessions)
        assert first == second


def test_inputs_may_be_int32() -> None:
    with running(load_model(COMBINED)) as engine:
        session = Session(engine, [0, 0, 0, 52], max_length=10)
        assert session.tokens(None) == [204] * 6
        assert session.rewind(9).append([5]).do(ops.GetInput, name="input_ids").value.dtype == np.int32


@pytest.mark.parametrize("settings", [{}, {"do_sample": True, "temperature": 5.0, "top_k": 0, "seed": 1}], ids=str)
def test_logits_wider_than_the_vocabulary_never_give_a_padded_id(tmp_path: Path, settings: dict[str, object]) -> None:
    """Case 26. The graph's logits have 512 columns, the model says 400 tokens."""
    folder = copy_of(LLAMA, tmp_path)
    config = folder / "genai_config.json"
    config.write_text(config.read_text().replace('"vocab_size": 512', '"vocab_size": 400'))
    model = Model.load(folder, options=ModelOptions(threads=1))
    assert (model.vocab_size, model.logits_width) == (400, 512)
    with running(model) as engine:
        session = Session(engine, prompt(8, 0, 400), prompt(5, 1, 400), **{**NEVER_DONE, **settings})
        assert session.logits().shape == (2, 400)
        session.generate(100)
        assert max(max(row) for row in session.sequences()) < 400
        with raises(InvalidArgument, field="inputs[0].tokens[0]"):
            session.append([400])
