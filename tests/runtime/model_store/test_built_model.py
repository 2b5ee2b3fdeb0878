"""A folder built from a GGUF file holds the model of that file, whatever its precision.

Logits are held against a numpy decoder with the same weights; quantised ones against the same decoder with the weights
that the codes stand for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from llama_reference import logits_of
from peer import greedy
from tiny_gguf import CONTEXT, HIDDEN, TOKENS, Weights, draw_weights

from runtime import Engine, Generator, Model, ModelOptions
from runtime.kv_cache import RunRow, SlotCache, open_cache
from runtime.model_store.quantization import dequantize, quantize

Built = Callable[[str, bool], Path]
KINDS = [(precision, tied) for precision in ("fp32", "uint4", "uint4-lm-head") for tied in (True, False)]
TOLERANCE = {"fp32": 1e-4, "uint4": 0.25, "uint4-lm-head": 0.25}
"""Largest difference of a logit, of which the deviation is 1. Quantised products also round what they multiply with to
8 bits (accuracy_level 4), which the reference does not: by that, logits moved by 0.12. Against the weights before they
were quantised it is 1.1 and more."""
PROMPTS = [[5, 80, 3, 255, 17, 17, 9], [60], [200, 4, 90], list(range(10, 50))]
CHUNK, STEPS = 4, 3
LENGTH = 40


def quantized(weights: Weights, precision: str, tied: bool) -> Weights:
    """The weights that the built graph computes with. A quantised head is a matrix of its own."""
    if precision == "fp32":
        return weights
    kept = {"token_embd.weight"} if precision == "uint4-lm-head" else {"token_embd.weight", "output.weight"}
    head = {"output.weight": weights["token_embd.weight"]} if tied and precision == "uint4-lm-head" else {}
    return {
        name: values if values.ndim == 1 or name in kept else dequantize(quantize(values))
        for name, values in (weights | head).items()
    }


@pytest.mark.parametrize(("precision", "tied"), KINDS)
def test_logits_are_those_of_the_weights(built: Built, precision: str, tied: bool) -> None:
    """Ragged rows in one shared buffer: prompts are computed row by row, in chunks; then all rows step together."""
    model = Model.load(built(precision, tied), options=ModelOptions(threads=1, slots=len(PROMPTS)))
    cache = open_cache(model)
    assert isinstance(cache, SlotCache)
    rows = [row_of(slot) for slot in range(len(PROMPTS))]
    expected = [logits_of(quantized(draw_weights(tied=tied), precision, tied), row) for row in rows]
    differences: list[np.ndarray] = []
    for slot, prompt in enumerate(PROMPTS):
        for start in range(0, len(prompt), CHUNK):
            output = cache.run_row(RunRow(slot, start, np.array(prompt[start : start + CHUNK], np.int64)), "")
        differences.append(output.logits - expected[slot][len(prompt) - 1])
    for step in range(STEPS):
        ends = [len(prompt) + step for prompt in PROMPTS]
        runs = [RunRow(slot, end, np.array(rows[slot][end : end + 1], np.int64)) for slot, end in enumerate(ends)]
        for slot, values in enumerate(cache.decode(runs, "")):
            differences.append(values - expected[slot][ends[slot]])
    assert np.abs(differences).max() < TOLERANCE[precision]


def row_of(slot: int) -> list[int]:
    """A prompt and the tokens that follow it."""
    return [*PROMPTS[slot], *np.random.default_rng(slot).integers(0, len(TOKENS), STEPS).tolist()]


@pytest.mark.parametrize("precision", ["fp32", "uint4"])
def test_the_folder_runs_in_the_peer_with_the_same_greedy_tokens(built: Built, precision: str) -> None:
    expected = greedy(built(precision, True), PROMPTS[0], max_length=LENGTH, min_length=LENGTH)
    with Engine.open(built(precision, True), ModelOptions(threads=1)) as engine:
        generator = Generator(engine, max_length=LENGTH, min_new_tokens=LENGTH)
        generator.append_tokens(PROMPTS[0])
        generator.generate_tokens()
        assert generator.get_sequence(0).tolist() == expected


def test_a_tied_head_is_kept_once(built: Built) -> None:
    tied, untied = (built("fp32", tied) / "model.onnx.data" for tied in (True, False))
    assert untied.stat().st_size - tied.stat().st_size == pytest.approx(len(TOKENS) * HIDDEN * 4, abs=4096)


def test_the_last_hidden_state_is_an_output(built: Built) -> None:
    with Engine.open(built("fp32", True), ModelOptions(threads=1)) as engine:
        generator = Generator(engine)
        generator.append_tokens(PROMPTS[0])
        hidden = generator.get_output("hidden_states")
        assert hidden.shape == (1, 1, HIDDEN)
        head = draw_weights()["token_embd.weight"]
        np.testing.assert_allclose(hidden[0, 0] @ head.T, generator.get_logits()[0], atol=1e-4)


def test_the_context_is_the_file_s(built: Built) -> None:
    assert Model.load(built("fp32", True)).max_length == CONTEXT
