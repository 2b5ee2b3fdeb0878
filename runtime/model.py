"""A loaded model: its graph's signature held against its configuration, its tokenizer, and one way to run it.

Knows tensors and names, nothing of sequences, sessions or scheduling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from runtime.adapters import AdapterSet
from runtime.device import Device, open_device
from runtime.errors import FailedPrecondition, InvalidArgument, NotFound
from runtime.generation_config import GenerationConfig
from runtime.model_config import ModelConfig, read_model_config
from runtime.tokenizer import Tokenizer

_DTYPES: dict[str, np.dtype[Any]] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(float16)": np.dtype(np.float16),
    "tensor(double)": np.dtype(np.float64),
    "tensor(int32)": np.dtype(np.int32),
    "tensor(int64)": np.dtype(np.int64),
    "tensor(bool)": np.dtype(np.bool_),
}


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How to load a model.

    device: "cpu" or "cuda". threads: of ONNX Runtime, 0 for one per core. slots: rows in the cache at once.
    max_length: tokens per row, None for the model's context length.
    """

    device: str = "cpu"
    threads: int = 0
    slots: int = 16
    max_length: int | None = None


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor of the signature. `shape` has names for dimensions that vary."""

    name: str
    type: str
    shape: tuple[int | str, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type. Raises FailedPrecondition for types numpy does not have."""
        if self.type not in _DTYPES:
            raise FailedPrecondition("MODEL_INVALID", f"{self.name} is {self.type}; known: {', '.join(_DTYPES)}")
        return _DTYPES[self.type]


class Model:
    """One model on one device. Made by `Model.load`; used by one engine."""

    def __init__(self, name: str, config: ModelConfig, options: ModelOptions, device: Device) -> None:
        self.name = name
        self.config = config
        self.options = options
        self.device = device
        self.session = device.load(config.graph, options.threads)
        self.inputs = {info.name: info for info in map(_tensor_info, self.session.get_inputs())}
        self.optional_inputs = {
            info.name: info for info in map(_tensor_info, self.session.get_overridable_initializers())
        }
        self.outputs = {info.name: info for info in map(_tensor_info, self.session.get_outputs())}
        self._check_signature()
        self.adapters = AdapterSet(self.optional_inputs)
        self.tokenizer: Tokenizer | None = None
        self.max_length = self._max_length()

    @classmethod
    def load(cls, path: Path, name: str = "", options: ModelOptions | None = None) -> Model:
        """Loads the folder at `path`.

        Raises FailedPrecondition (MODEL_INVALID, DEVICE_UNAVAILABLE) and InvalidArgument (options).
        """
        options = options or ModelOptions()
        if not 1 <= options.slots <= 4096:
            raise InvalidArgument("slots", options.slots, "an integer in [1, 4096]")
        model = cls(name or path.name, read_model_config(path), options, open_device(options.device))
        if (path / "tokenizer.json").is_file():
            model.tokenizer = Tokenizer.load(path)
        return model

    # --- facts -------------------------------------------------------------------------------------------------------

    @property
    def type(self) -> str:
        return self.config.type

    @property
    def slots(self) -> int:
        return self.options.slots

    @cached_property
    def logits_width(self) -> int:
        """Extent of the last dimension of the logits: at least vocab_size, often padded to a round number."""
        width = self.outputs[self.config.names.logits].shape[-1]
        return width if isinstance(width, int) else self.config.vocab_size

    @cached_property
    def vocab_size(self) -> int:
        """Tokens that exist: ids are below it, and none at or above it is ever sampled."""
        sizes = [self.config.vocab_size, self.logits_width]
        if self.tokenizer is not None:
            sizes.append(self.tokenizer.vocab_size)
        return min(sizes)

    @property
    def default_config(self) -> GenerationConfig:
        """Settings where a request gives none."""
        config = self.config.generation
        return replace(
            config,
            max_length=min(config.max_length or self.max_length, self.max_length),
            eos_token_id=tuple(token for token in config.eos_token_id if token < self.vocab_size),
            pad_token_id=config.pad_token_id if (config.pad_token_id or 0) < self.vocab_size else 0,
        )

    @cached_property
    def keeps_last_logits_only(self) -> bool:
        """Whether the graph gives logits of the last position alone: [batch, 1, width]."""
        return self.outputs[self.config.names.logits].shape[1] == 1

    @cached_property
    def managed_inputs(self) -> frozenset[str]:
        """Inputs the engine itself provides."""
        names = self.config.names
        past = [name % layer for name in names.past for layer in range(self.config.num_hidden_layers)]
        return frozenset({names.input_ids, names.attention_mask, names.position_ids, *past})

    @cached_property
    def extra_inputs(self) -> dict[str, TensorInfo]:
        """Inputs a session may set: those beyond tokens, mask, positions, cache and adapters."""
        return {name: info for name, info in self.inputs.items() if name not in self.managed_inputs}

    def past_info(self) -> TensorInfo:
        """Signature of the first cache input: [batch, heads, length, head_size], or combined with a leading 2."""
        return self.inputs[self.config.names.past[0] % 0]

    # --- running -----------------------------------------------------------------------------------------------------

    def run_inputs(
        self, tokens: NDArray[np.int64], starts: Sequence[int], mask_length: int | None = None
    ) -> dict[str, NDArray[Any]]:
        """Token, mask and position inputs the graph has, in its own integer types.

        tokens: [rows, n], of which row i begins at position starts[i]. The mask is [rows, mask_length] with ones up to
        each row's end; mask_length defaults to the longest row's end.
        """
        names, count = self.config.names, tokens.shape[1]
        begin = np.asarray(starts, np.int64)[:, None]
        values: dict[str, NDArray[Any]] = {names.input_ids: tokens}
        if names.attention_mask in self.inputs:
            length = mask_length or int(begin.max()) + count
            values[names.attention_mask] = np.arange(length)[None, :] < begin + count
        if names.position_ids in self.inputs:
            values[names.position_ids] = begin + np.arange(count)[None, :]
        return {
            name: np.ascontiguousarray(value, self.inputs[name].dtype)
            for name, value in values.items()
            if name in self.inputs
        }

    def adapter_values(self, adapter: str) -> Mapping[str, onnxruntime.OrtValue]:
        """What to bind for an adapter; nothing for the base model."""
        return self.adapters.parameters(adapter) if adapter else {}

    # --- checks ------------------------------------------------------------------------------------------------------

    def _max_length(self) -> int:
        limit = self.options.max_length
        if limit is not None and not 1 <= limit <= self.config.context_length:
            raise InvalidArgument(
                "max_length", limit, f"an integer in [1, {self.config.context_length}] for {self.name}"
            )
        return limit or self.config.context_length

    def _check_signature(self) -> None:
        config, names = self.config, self.config.names
        past = [name % layer for name in names.past for layer in range(config.num_hidden_layers)]
        for name in [names.input_ids, *past]:
            if name not in self.inputs:
                raise FailedPrecondition(
                    "MODEL_INVALID", f"the graph has no input {name!r}; it has: {', '.join(self.inputs)}"
                )
        for name in [names.logits, *(present % 0 for present in names.present)]:
            if name not in self.outputs:
                raise FailedPrecondition(
                    "MODEL_INVALID", f"the graph has no output {name!r}; it has: {', '.join(self.outputs)}"
                )
        if config.sliding_window is not None and config.sliding_window < config.context_length:
            raise FailedPrecondition(
                "MODEL_UNSUPPORTED",
                f"sliding windows ({config.sliding_window} tokens) are not supported; rewinding needs the whole cache",
            )

    def output_info(self, name: str) -> TensorInfo:
        """Signature of an output. "logits" and the like also name it by its role. Raises NotFound listing the known."""
        real = self.config.names.logits if name == "logits" else name
        if real not in self.outputs:
            raise NotFound("output", name, self.outputs)
        return self.outputs[real]


def _tensor_info(argument: Any) -> TensorInfo:
    shape = tuple(extent if isinstance(extent, int) else str(extent) for extent in argument.shape)
    return TensorInfo(argument.name, argument.type, shape)
