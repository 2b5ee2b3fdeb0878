"""What a GGUF file says about a Llama model: sizes, weights, tokenizer fields. Nothing of graphs or folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from runtime.errors import InvalidArgument

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LlamaParameters:
    """Sizes of a Llama-architecture decoder."""

    block_count: int
    context_length: int
    hidden_size: int
    feed_forward_size: int
    head_count: int
    kv_head_count: int
    head_size: int
    vocab_size: int
    norm_epsilon: float
    rope_base: float

    def shape(self, tensor: str) -> tuple[int, ...]:
        """What a tensor of that name must have: matrices [out, in], norms and biases [out]."""
        hidden, wide, vocab = self.hidden_size, self.feed_forward_size, self.vocab_size
        queries, keys = self.head_count * self.head_size, self.kv_head_count * self.head_size
        matrices = {
            "token_embd": (vocab, hidden),
            "output": (vocab, hidden),
            "attn_q": (queries, hidden),
            "attn_k": (keys, hidden),
            "attn_v": (keys, hidden),
            "attn_output": (hidden, queries),
            "ffn_gate": (wide, hidden),
            "ffn_up": (wide, hidden),
            "ffn_down": (hidden, wide),
        }
        *_, layer, kind = tensor.split(".")
        if layer not in matrices:
            return (hidden,)
        return matrices[layer] if kind == "weight" else matrices[layer][:1]


class GgufModel:
    """A GGUF file of architecture "llama". Weights are read and dequantised one at a time, when asked for."""

    def __init__(self, path: Path) -> None:
        """Raises InvalidArgument for files that are not GGUF, or hold something this version does not build."""
        self.path = path
        try:
            self._reader = gguf.GGUFReader(path)
        except Exception as error:  # the library trips over damaged files in many ways, none of them its own class
            raise InvalidArgument("gguf", path.name, f"a readable GGUF file ({error})") from error
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        architecture = self.field("general.architecture")
        if architecture != "llama":
            raise InvalidArgument("general.architecture", architecture, "'llama'")
        self._check_rope()
        if self.field("llama.expert_count", 0):
            raise InvalidArgument("llama.expert_count", self.field("llama.expert_count"), "0: no mixture of experts")
        self.parameters = self._parameters()

    def field(self, name: str, default: Any = None) -> Any:
        """A metadata value. Raises InvalidArgument for one that is missing and has no default."""
        field = self._reader.get_field(name)
        if field is not None:
            return field.contents()
        if default is None:
            raise InvalidArgument(name, None, "a GGUF file with this field")
        return default

    def has_weight(self, name: str) -> bool:
        return name in self._tensors

    def weight(self, name: str) -> FloatArray:
        """A tensor as float32, in the order of its file: matrices are [out, in]. Raises InvalidArgument."""
        if name not in self._tensors:
            raise InvalidArgument(name, None, f"a GGUF file with this tensor; {self.path.name} lacks it")
        tensor = self._tensors[name]
        shape, expected = tuple(int(extent) for extent in reversed(tensor.shape)), self.parameters.shape(name)
        if shape != expected:
            raise InvalidArgument(name, shape, f"the shape that the file's own sizes call for: {expected}")
        try:
            return np.asarray(gguf.quants.dequantize(tensor.data, tensor.tensor_type), np.float32)
        except NotImplementedError as error:
            raise InvalidArgument(name, tensor.tensor_type.name, "a tensor type that can be dequantised") from error

    def source_precision(self) -> str:
        """The most frequent tensor type: what the file is usually called by."""
        kinds = [tensor.tensor_type.name for tensor in self._tensors.values() if len(tensor.shape) > 1]
        return max(set(kinds), key=kinds.count)

    def _check_rope(self) -> None:
        """Scaled positions are told by a type, by a factor alone (older files), or by a table of factors."""
        for name in ("llama.rope.scaling.factor", "llama.rope.scale_linear"):
            if self.field("llama.rope.scaling.type", "") != "none" and self.field(name, 1.0) not in (0.0, 1.0):
                raise InvalidArgument(name, self.field(name), "1: scaled rotary positions are not supported")
        scaling = self.field("llama.rope.scaling.type", "none")
        if scaling != "none" or "rope_freqs.weight" in self._tensors:
            raise InvalidArgument(
                "llama.rope.scaling.type", scaling, "'none': scaled rotary positions are not supported"
            )

    def _parameters(self) -> LlamaParameters:
        heads = int(self.field("llama.attention.head_count"))
        kv_heads = int(self.field("llama.attention.head_count_kv", heads))
        hidden = int(self.field("llama.embedding_length"))
        if heads < 1 or hidden % heads:
            raise InvalidArgument("llama.attention.head_count", heads, f"a divisor of the embedding's length {hidden}")
        if kv_heads < 1 or heads % kv_heads:
            raise InvalidArgument("llama.attention.head_count_kv", kv_heads, f"a divisor of head_count {heads}")
        head_size = hidden // heads
        for name in ("rope.dimension_count", "attention.key_length", "attention.value_length"):
            if (size := int(self.field(f"llama.{name}", head_size))) != head_size:
                raise InvalidArgument(f"llama.{name}", size, f"{head_size}: embedding_length / head_count")
        return LlamaParameters(
            block_count=int(self.field("llama.block_count")),
            context_length=int(self.field("llama.context_length")),
            hidden_size=hidden,
            feed_forward_size=int(self.field("llama.feed_forward_length")),
            head_count=heads,
            kv_head_count=kv_heads,
            head_size=head_size,
            vocab_size=len(self.field("tokenizer.ggml.tokens")),
            norm_epsilon=float(self.field("llama.attention.layer_norm_rms_epsilon")),
            rope_base=float(self.field("llama.rope.freq_base", 10000.0)),
        )
