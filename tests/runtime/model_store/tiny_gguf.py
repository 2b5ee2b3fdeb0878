"""Tiny GGUF files of the Llama architecture, with weights drawn from a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from tokenizers.pre_tokenizers import ByteLevel

Weights = dict[str, NDArray[np.float32]]

LAYERS, HIDDEN, FEED_FORWARD, HEADS, KV_HEADS, HEAD_SIZE, CONTEXT = 2, 64, 96, 4, 2, 16, 128
EPSILON, ROPE_BASE = 1e-5, 10000.0
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ t", "Ġt he", "Ġ w", "o r", "Ġw or", "Ġwor l", "Ġworl d", "1 2"]
"""The last one never applies: digits are split before."""
TOKENS = [*SPECIAL, *sorted(ByteLevel.alphabet()), *(merge.replace(" ", "") for merge in MERGES)]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FIELDS: dict[str, Any] = {
    "general.name": "Tiny",
    "general.organization": "Somebody",
    "general.license": "mit",
    "llama.block_count": LAYERS,
    "llama.context_length": CONTEXT,
    "llama.embedding_length": HIDDEN,
    "llama.feed_forward_length": FEED_FORWARD,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.attention.layer_norm_rms_epsilon": EPSILON,
    "llama.rope.dimension_count": HEAD_SIZE,
    "llama.rope.freq_base": ROPE_BASE,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * (len(TOKENS) - len(SPECIAL)),
    "tokenizer.ggml.merges": MERGES,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.ggml.padding_token_id": 2,
    "tokenizer.chat_template": TEMPLATE,
}


def draw_weights(seed: int = 0, tied: bool = True) -> Weights:
    """All tensors of the file by name; matrices are [out, in]."""
    generator = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        return generator.normal(0, columns**-0.5, (rows, columns)).astype(np.float32)

    def gains() -> NDArray[np.float32]:
        return generator.uniform(0.5, 1.5, HIDDEN).astype(np.float32)

    weights = {"token_embd.weight": matrix(len(TOKENS), HIDDEN), "output_norm.weight": gains()}
    if not tied:
        weights["output.weight"] = matrix(len(TOKENS), HIDDEN)
    for block in range(LAYERS):
        weights |= {
            f"blk.{block}.attn_norm.weight": gains(),
            f"blk.{block}.attn_q.weight": matrix(HEADS * HEAD_SIZE, HIDDEN),
            f"blk.{block}.attn_k.weight": matrix(KV_HEADS * HEAD_SIZE, HIDDEN),
            f"blk.{block}.attn_v.weight": matrix(KV_HEADS * HEAD_SIZE, HIDDEN),
            f"blk.{block}.attn_output.weight": matrix(HIDDEN, HEADS * HEAD_SIZE),
            f"blk.{block}.ffn_norm.weight": gains(),
            f"blk.{block}.ffn_gate.weight": matrix(FEED_FORWARD, HIDDEN),
            f"blk.{block}.ffn_up.weight": matrix(FEED_FORWARD, HIDDEN),
            f"blk.{block}.ffn_down.weight": matrix(HIDDEN, FEED_FORWARD),
        }
    return weights


def write_gguf(path: Path, weights: Weights, architecture: str = "llama", **changes: Any) -> Path:
    """Writes FIELDS with `changes` over them (dots of names as __); a change to None leaves the field out."""
    fields = FIELDS | {name.replace("__", "."): value for name, value in changes.items()}
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in fields.items():
        if isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif value is not None:
            writer.add_array(name, value)
    for name, values in weights.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
