"""A Llama decoder in numpy, all positions at once and no cache: what a built model's logits are held against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tiny_gguf import EPSILON, HEAD_SIZE, HEADS, KV_HEADS, LAYERS, ROPE_BASE, Weights

Array = NDArray[np.float64]


def logits_of(weights: Weights, tokens: Sequence[int]) -> Array:
    """Logits [n, vocab_size] after each token."""
    hidden = weights["token_embd.weight"][list(tokens)].astype(np.float64)
    for block in range(LAYERS):
        part = {name.removeprefix(f"blk.{block}."): values for name, values in weights.items()}
        hidden = hidden + _attention(_norm(hidden, part["attn_norm.weight"]), part)
        normed = _norm(hidden, part["ffn_norm.weight"])
        gate, up = normed @ part["ffn_gate.weight"].T, normed @ part["ffn_up.weight"].T
        hidden = hidden + (gate / (1 + np.exp(-gate)) * up) @ part["ffn_down.weight"].T
    head = weights.get("output.weight", weights["token_embd.weight"])
    return _norm(hidden, weights["output_norm.weight"]) @ head.T


def _attention(hidden: Array, part: Weights) -> Array:
    count = len(hidden)
    query = _rotated((hidden @ part["attn_q.weight"].T).reshape(count, HEADS, HEAD_SIZE))
    key = _rotated((hidden @ part["attn_k.weight"].T).reshape(count, KV_HEADS, HEAD_SIZE))
    value = (hidden @ part["attn_v.weight"].T).reshape(count, KV_HEADS, HEAD_SIZE)
    key, value = (np.repeat(each, HEADS // KV_HEADS, axis=1) for each in (key, value))
    scores = np.einsum("qhd,khd->hqk", query, key) / np.sqrt(HEAD_SIZE)
    scores = np.where(np.tril(np.ones((count, count), bool)), scores, -np.inf)
    weight = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weight /= weight.sum(axis=-1, keepdims=True)
    mixed = np.einsum("hqk,khd->qhd", weight, value).reshape(count, HEADS * HEAD_SIZE)
    return mixed @ part["attn_output.weight"].T


def _rotated(heads: Array) -> Array:
    """Interleaved rotary positions: dimensions 2i and 2i + 1 of [n, heads, size] are a pair."""
    angles = np.outer(np.arange(len(heads)), ROPE_BASE ** (-np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE))[:, None]
    even, odd = heads[..., 0::2], heads[..., 1::2]
    turned = np.stack([even * np.cos(angles) - odd * np.sin(angles), even * np.sin(angles) + odd * np.cos(angles)], -1)
    return turned.reshape(heads.shape)


def _norm(hidden: Array, gains: NDArray[np.float32]) -> Array:
    return hidden / np.sqrt((hidden**2).mean(axis=-1, keepdims=True) + EPSILON) * gains
