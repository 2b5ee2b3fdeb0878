"""What a model folder says about its model, whichever tool wrote it.

Reads onnxruntime-genai folders (genai_config.json) and Optimum folders (config.json, generation_config.json). Knows
nothing of the graph itself: `runtime.model` holds the two against each other.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.errors import FailedPrecondition
from runtime.generation_config import GenerationConfig

logger = logging.getLogger(__name__)

_SEARCH_FIELDS = (
    "max_length",
    "max_new_tokens",
    "min_new_tokens",
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "stop_strings",
)
"""Of the "search" part of genai_config.json, and of generation_config.json, those this version executes."""
_NOT_EXECUTED = {
    "min_length": 0,
    "num_beams": 1,
    "num_return_sequences": 1,
    "max_time": None,
    "top_h": None,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "encoder_repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "diversity_penalty": 0.0,
    "bad_words_ids": None,
    "sequence_bias": None,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "remove_invalid_values": False,
    "exponential_decay_length_penalty": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "renormalize_logits": False,
    "guidance_scale": 1.0,
    "watermarking_config": None,
    "token_healing": False,
}
"""Those it does not, with the values that change nothing."""


LONG_ROPE_TYPES = {"phi3": 4096, "phi3v": 4096, "phi4mm": 4096, "phimoe": 4096, "phi3small": 8192}
"""Model types of onnxruntime-genai whose graphs switch between short and long rotary factors, and the length at which
they do: their folders do not say it."""


@dataclass(frozen=True, slots=True)
class TensorNames:
    """Names of the graph's inputs and outputs. `%d` stands for the layer."""

    input_ids: str = "input_ids"
    attention_mask: str = "attention_mask"
    position_ids: str = "position_ids"
    logits: str = "logits"
    past: tuple[str, ...] = ("past_key_values.%d.key", "past_key_values.%d.value")
    present: tuple[str, ...] = ("present.%d.key", "present.%d.value")

    @property
    def combined(self) -> bool:
        """Whether keys and values of a layer share one tensor [2, batch, heads, length, head_size]."""
        return len(self.past) == 1


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Facts about a model. Lengths in tokens."""

    type: str
    graph: Path
    vocab_size: int
    context_length: int
    num_hidden_layers: int
    head_size: int | None
    names: TensorNames
    shared_buffer: bool
    """Whether past and present may be one buffer (GroupQueryAttention), else present = concat(past, new)."""
    sliding_window: int | None
    generation: GenerationConfig


def read_model_config(folder: Path) -> ModelConfig:
    """Reads the folder's configuration. Raises FailedPrecondition with reason MODEL_INVALID where it is not usable."""
    if (folder / "genai_config.json").is_file():
        return _from_genai(folder, _read_json(folder / "genai_config.json"))
    if (folder / "config.json").is_file():
        return _from_optimum(folder, _read_json(folder / "config.json"))
    raise FailedPrecondition(
        "MODEL_INVALID",
        f"{folder.name}: neither genai_config.json (onnxruntime-genai) nor config.json (Optimum) is there",
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise FailedPrecondition("MODEL_INVALID", f"{path.name} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise FailedPrecondition("MODEL_INVALID", f"{path.name} is not a JSON object")
    return value


def _from_genai(folder: Path, config: dict[str, Any]) -> ModelConfig:
    try:
        model, search = config["model"], config.get("search", {})
        decoder = model["decoder"]
        inputs, outputs = decoder.get("inputs", {}), decoder.get("outputs", {})
        names = _genai_names(inputs, outputs)
        window = decoder.get("sliding_window", {}).get("window_size")
        return ModelConfig(
            type=str(model["type"]),
            graph=folder / decoder["filename"],
            vocab_size=int(model["vocab_size"]),
            context_length=usable_context(
                folder.name, int(model["context_length"]), LONG_ROPE_TYPES.get(str(model["type"]))
            ),
            num_hidden_layers=int(decoder["num_hidden_layers"]),
            head_size=int(decoder["head_size"]) if "head_size" in decoder else None,
            names=names,
            shared_buffer=bool(search.get("past_present_share_buffer", False)),
            sliding_window=int(window) if window else None,
            generation=_generation(model, search),
        )
    except KeyError as error:
        raise FailedPrecondition("MODEL_INVALID", f"genai_config.json lacks {error}") from error


def _genai_names(inputs: dict[str, str], outputs: dict[str, str]) -> TensorNames:
    default = TensorNames()
    past: tuple[str, ...] = (
        inputs.get("past_key_names", default.past[0]),
        inputs.get("past_value_names", default.past[1]),
    )
    present: tuple[str, ...] = (
        outputs.get("present_key_names", default.present[0]),
        outputs.get("present_value_names", default.present[1]),
    )
    if "past_names" in inputs:
        past, present = (inputs["past_names"],), (outputs["present_names"],)
    return TensorNames(
        input_ids=inputs.get("input_ids", default.input_ids),
        attention_mask=inputs.get("attention_mask", default.attention_mask),
        position_ids=inputs.get("position_ids", default.position_ids),
        logits=outputs.get("logits", default.logits),
        past=past,
        present=present,
    )


def _from_optimum(folder: Path, config: dict[str, Any]) -> ModelConfig:
    candidates = [folder / "model.onnx", folder / "decoder_model.onnx", folder / "onnx" / "model.onnx"]
    graph = next((path for path in candidates if path.is_file()), None)
    if graph is None:
        raise FailedPrecondition("MODEL_INVALID", f"{folder.name}: no decoder graph (model.onnx, onnx/model.onnx)")
    generation_path = folder / "generation_config.json"
    generation = _read_json(generation_path) if generation_path.is_file() else {}
    context = next((config[key] for key in ("max_position_embeddings", "n_positions") if key in config), None)
    layers = next((config[key] for key in ("num_hidden_layers", "n_layer") if key in config), None)
    if context is None or layers is None or "vocab_size" not in config:
        raise FailedPrecondition(
            "MODEL_INVALID", "config.json must have vocab_size, max_position_embeddings and num_hidden_layers"
        )
    return ModelConfig(
        type=str(config.get("model_type", "")),
        graph=graph,
        vocab_size=int(config["vocab_size"]),
        context_length=usable_context(folder.name, int(context), _rope_change(config)),
        num_hidden_layers=int(layers),
        head_size=None,
        names=TensorNames(),
        shared_buffer=False,
        sliding_window=None,
        generation=_generation({**config, **generation}, generation),
    )


def _generation(tokens: dict[str, Any], settings: dict[str, Any]) -> GenerationConfig:
    eos = tokens.get("eos_token_id")
    eos_ids = tuple(int(token) for token in (eos if isinstance(eos, list) else [eos] if eos is not None else []))
    pad = tokens.get("pad_token_id")
    for name, neutral in _NOT_EXECUTED.items():
        if settings.get(name) not in (None, [], neutral):
            logger.warning("%s = %r of the model's folder has no effect: it is not implemented", name, settings[name])
    special = {
        "eos_token_id": eos_ids,
        "pad_token_id": int(pad) if pad is not None else (eos_ids[0] if eos_ids else 0),
    }
    given = {name: settings[name] for name in _SEARCH_FIELDS if settings.get(name) is not None}
    return GenerationConfig.from_mapping(given | special)


def usable_context(name: str, context_length: int, rope_change: int | None) -> int:
    """The context up to where the graph changes its rotary frequencies.

    Past it, keys in the cache would have been computed with other frequencies than the new ones: silently wrong.
    """
    if rope_change is None or rope_change >= context_length:
        return context_length
    logger.warning("%s: the context is limited to %d tokens, where its rotary scaling changes", name, rope_change)
    return rope_change


def _rope_change(config: dict[str, Any]) -> int | None:
    """Length at which an Optimum graph's rotary frequencies change, where its configuration says so."""
    scaling = config.get("rope_scaling") or {}
    if scaling.get("rope_type", scaling.get("type")) not in ("longrope", "su"):
        return None
    original = scaling.get("original_max_position_embeddings") or config.get("original_max_position_embeddings")
    if original is None:
        raise FailedPrecondition(
            "MODEL_UNSUPPORTED", "config.json has long-rope scaling without original_max_position_embeddings"
        )
    return int(original)
