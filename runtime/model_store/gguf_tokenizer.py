"""Tokenizer files out of a GGUF's tokenizer fields: byte-level BPE, in the form the `tokenizers` library reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runtime.errors import InvalidArgument
from runtime.model_store.gguf_model import GgufModel

CONTROL, USER_DEFINED = 3, 4
"""GGUF token types of special tokens and of ones added to the vocabulary."""
LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_PRE_TOKENIZERS: dict[str, list[dict[str, Any]]] = {
    "gpt-2": [_BYTE_LEVEL],
    "smollm": [{"type": "Digits", "individual_digits": True}, _BYTE_LEVEL],
    "llama-bpe": [
        {"type": "Split", "pattern": {"Regex": LLAMA3_PATTERN}, "behavior": "Isolated", "invert": False},
        {**_BYTE_LEVEL, "use_regex": False},
    ],
}
_IGNORE_MERGES = {"llama-bpe"}
"""Those whose vocabulary has words that no merges lead to: they are looked up whole first."""


def write_tokenizer(model: GgufModel, folder: Path) -> None:
    """Writes tokenizer.json, tokenizer_config.json and chat_template.jinja.

    Raises InvalidArgument for tokenizers other than byte-level BPE with a known pre-tokenizer.
    """
    kind = model.field("tokenizer.ggml.model")
    if kind != "gpt2":
        raise InvalidArgument("tokenizer.ggml.model", kind, "'gpt2' (byte-level BPE)")
    pre_tokenizer = model.field("tokenizer.ggml.pre")
    if pre_tokenizer not in _PRE_TOKENIZERS:
        raise InvalidArgument("tokenizer.ggml.pre", pre_tokenizer, f"one of {', '.join(_PRE_TOKENIZERS)}")
    tokens: list[str] = model.field("tokenizer.ggml.tokens")
    _write_json(folder / "tokenizer.json", _tokenizer(model, tokens, pre_tokenizer))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(model, tokens))
    template = model.field("tokenizer.chat_template", "")
    if template:
        (folder / "chat_template.jinja").write_text(template, "utf-8")


def _tokenizer(model: GgufModel, tokens: list[str], pre_tokenizer: str) -> dict[str, Any]:
    kinds = model.field("tokenizer.ggml.token_type")
    added = [
        {
            "id": index,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == CONTROL,
        }
        for index, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
        if kind in (CONTROL, USER_DEFINED)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": _PRE_TOKENIZERS[pre_tokenizer]},
        "post_processor": _frame(model, tokens),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre_tokenizer in _IGNORE_MERGES,
            "vocab": {token: index for index, token in enumerate(tokens)},
            "merges": model.field("tokenizer.ggml.merges"),
        },
    }


def _frame(model: GgufModel, tokens: list[str]) -> dict[str, Any] | None:
    """What encoding with special tokens puts around a text: a beginning of sequence, where the file asks for one."""
    if not model.field("tokenizer.ggml.add_bos_token", False):
        return None
    bos = model.field("tokenizer.ggml.bos_token_id")
    start: dict[str, Any] = {"SpecialToken": {"id": tokens[bos], "type_id": 0}}
    texts: list[dict[str, Any]] = [{"Sequence": {"id": name, "type_id": kind}} for kind, name in enumerate("AB")]
    return {
        "type": "TemplateProcessing",
        "single": [start, texts[0]],
        "pair": [start, *texts],
        "special_tokens": {tokens[bos]: {"id": tokens[bos], "ids": [bos], "tokens": [tokens[bos]]}},
    }


def _tokenizer_config(model: GgufModel, tokens: list[str]) -> dict[str, Any]:
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.parameters.context_length,
        "clean_up_tokenization_spaces": False,
    }
    for role, name in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        token = model.field(f"tokenizer.ggml.{name}_token_id", -1)
        if token >= 0:
            config[f"{role}_token"] = tokens[token]
    return config


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
