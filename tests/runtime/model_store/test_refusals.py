"""GGUF files that cannot be built are refused by the field that says why, and leave nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_gguf import FIELDS, HIDDEN, draw_weights, write_gguf

from runtime.errors import InvalidArgument
from runtime.model_store import ModelStore

UNSUPPORTED: list[tuple[str, Any]] = [
    ("llama.rope.scaling.type", "yarn"),
    ("llama.rope.scaling.factor", 4.0),
    ("llama.rope.scale_linear", 4.0),
    ("llama.expert_count", 8),
    ("llama.rope.dimension_count", 8),
    ("llama.attention.key_length", 32),
    ("llama.attention.value_length", 32),
    ("llama.attention.head_count", 5),
    ("llama.attention.head_count", 0),
    ("llama.attention.head_count_kv", 3),
    ("tokenizer.ggml.model", "llama"),
    ("tokenizer.ggml.pre", "deepseek-llm"),
    ("tokenizer.ggml.pre", "default"),
]
NEEDED = sorted(
    FIELDS.keys()
    - {"general.name", "general.organization", "general.license", "tokenizer.chat_template", "llama.rope.freq_base"}
    - {"llama.rope.dimension_count", "llama.attention.head_count_kv"}
    - {f"tokenizer.ggml.{role}_token_id" for role in ("bos", "unknown", "padding")}
)
"""Fields without a default."""


def check_refused(store: ModelStore, gguf: Path, field: str) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        store.build(gguf, "tiny", "fp32")
    assert caught.value.field == field
    assert store.list() == []
    return caught.value


@pytest.mark.parametrize(("field", "value"), UNSUPPORTED, ids=lambda value: str(value))
def test_what_is_not_supported_is_refused(store: ModelStore, tmp_path: Path, field: str, value: Any) -> None:
    error = check_refused(store, write_gguf(tmp_path / "odd.gguf", draw_weights(), **{field: value}), field)
    assert repr(value) in error.message


def test_another_architecture_is_refused(store: ModelStore, tmp_path: Path) -> None:
    gguf = write_gguf(tmp_path / "odd.gguf", draw_weights(), architecture="qwen2")
    assert "'qwen2'" in check_refused(store, gguf, "general.architecture").message


@pytest.mark.parametrize("field", NEEDED)
def test_a_missing_field_is_named(store: ModelStore, tmp_path: Path, field: str) -> None:
    check_refused(store, write_gguf(tmp_path / "odd.gguf", draw_weights(), **{field: None}), field)


def test_a_table_of_rotary_factors_is_refused(store: ModelStore, tmp_path: Path) -> None:
    weights = draw_weights() | {"rope_freqs.weight": np.ones(8, np.float32)}
    check_refused(store, write_gguf(tmp_path / "odd.gguf", weights), "llama.rope.scaling.type")


@pytest.mark.parametrize("tensor", sorted(draw_weights()))
def test_a_missing_tensor_is_named(store: ModelStore, tmp_path: Path, tensor: str) -> None:
    weights = draw_weights()
    del weights[tensor]
    check_refused(store, write_gguf(tmp_path / "odd.gguf", weights), tensor)


@pytest.mark.parametrize("tensor", sorted(draw_weights(tied=False)))
def test_a_tensor_of_a_wrong_shape_is_named(store: ModelStore, tmp_path: Path, tensor: str) -> None:
    weights = draw_weights(tied=False)
    weights[tensor] = weights[tensor][:-1]
    check_refused(store, write_gguf(tmp_path / "odd.gguf", weights), tensor)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"GGUF" + b"\xff" * 60, b"PK\x03\x04" + bytes(200), bytes(64)])
def test_a_file_that_is_no_gguf_is_refused(store: ModelStore, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(content)
    assert "model.gguf" in check_refused(store, file, "gguf").message


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(part=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_off_anywhere_is_refused(store: ModelStore, tiny_gguf: Path, tmp_path: Path, part: float) -> None:
    content = tiny_gguf.read_bytes()
    file = tmp_path / "cut.gguf"
    file.write_bytes(content[: int(part * len(content))])
    with pytest.raises(InvalidArgument):
        store.build(file, "cut", "fp32")
    assert store.list() == []


def test_biases_are_part_of_the_model(store: ModelStore, tmp_path: Path) -> None:
    biases = {f"blk.{block}.attn_q.bias": np.ones(HIDDEN, np.float32) for block in range(2)}
    plain, biased = (
        store.build(write_gguf(tmp_path / f"{name}.gguf", draw_weights() | extra), name, "fp32")
        for name, extra in (("plain", {}), ("biased", biases))
    )
    assert (plain / "model.onnx").read_bytes() != (biased / "model.onnx").read_bytes()
