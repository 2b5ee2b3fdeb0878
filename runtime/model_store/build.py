"""A model folder out of a GGUF file: graph, weights, tokenizer, configuration, model card."""

from __future__ import annotations

import json
from pathlib import Path

from runtime.model_store.gguf_model import GgufModel
from runtime.model_store.gguf_tokenizer import write_tokenizer
from runtime.model_store.llama_graph import write_graph
from runtime.model_store.precision import Precision
from runtime.model_store.progress import Progress

_CARD = """# {name}

| | |
|---|---|
| base model | {base} |
| organisation | {organization} |
| licence | {license} |
| source | {source} ({source_precision}) |
| precision here | {precision}: {explanation} |
| context | {context} tokens |

Built from the GGUF file by Tokenloom. Weights are the source's own, dequantised{requantized}. `manifest.json` has the
size and SHA-256 of each file.
"""
_EXPLANATIONS = {
    Precision.FP32: "all weights float32",
    Precision.UINT4: "matrices of the blocks in 4 bits (blocks of 32), embedding and lm_head float32",
    Precision.UINT4_LM_HEAD: "matrices of the blocks and the lm_head in 4 bits (blocks of 32), embedding float32",
}


def build_folder(gguf: Path, folder: Path, name: str, precision: Precision, progress: Progress) -> None:
    """Writes everything into `folder`, which exists. Raises InvalidArgument for files that cannot be built."""
    model = GgufModel(gguf)
    steps = model.parameters.block_count + 1
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        progress(f"Building {name}", done, steps)

    progress(f"Building {name}", 0, steps)
    write_tokenizer(model, folder)
    _write_config(model, folder)
    write_graph(model, precision, folder, advance)
    _write_card(model, folder, name, precision)


def _write_config(model: GgufModel, folder: Path) -> None:
    size = model.parameters
    eos = model.field("tokenizer.ggml.eos_token_id")
    config = {
        "model": {
            "type": "llama",
            "vocab_size": size.vocab_size,
            "context_length": size.context_length,
            "bos_token_id": model.field("tokenizer.ggml.bos_token_id", eos),
            "eos_token_id": eos,
            "pad_token_id": model.field("tokenizer.ggml.padding_token_id", eos),
            "decoder": {
                "session_options": {"log_id": "tokenloom", "provider_options": []},
                "filename": "model.onnx",
                "head_size": size.head_size,
                "hidden_size": size.hidden_size,
                "num_attention_heads": size.head_count,
                "num_hidden_layers": size.block_count,
                "num_key_value_heads": size.kv_head_count,
                "inputs": {
                    "input_ids": "input_ids",
                    "attention_mask": "attention_mask",
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
        },
        "search": {"do_sample": False, "max_length": size.context_length, "past_present_share_buffer": True},
    }
    (folder / "genai_config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def _write_card(model: GgufModel, folder: Path, name: str, precision: Precision) -> None:
    card = _CARD.format(
        name=name,
        base=model.field("general.name", "unknown"),
        organization=model.field("general.organization", "unknown"),
        license=model.field("general.license", "unknown: see the source"),
        source=model.path.name,
        source_precision=model.source_precision(),
        precision=precision.value,
        explanation=_EXPLANATIONS[precision],
        context=model.parameters.context_length,
        requantized="" if precision is Precision.FP32 else " and quantised anew",
    )
    (folder / "MODEL_CARD.md").write_text(card, "utf-8")
