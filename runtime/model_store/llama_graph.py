"""The ONNX graph of a Llama decoder, in the shape onnxruntime-genai's models have.

Past and present can share one buffer; ragged lengths come in through the attention mask (GroupQueryAttention counts
its ones). The last hidden state is taken before the lm_head, so that a prompt does not cost a row of logits per token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from runtime.model_store.gguf_model import FloatArray, GgufModel
from runtime.model_store.precision import Precision
from runtime.model_store.quantization import BLOCK, quantize
from runtime.model_store.weight_file import WeightFile

CONTRIB = "com.microsoft"
OPSET = 21
IR_VERSION = 10


def write_graph(model: GgufModel, precision: Precision, folder: Path, advance: Callable[[], None]) -> None:
    """Writes model.onnx and model.onnx.data. Calls `advance` after each block and after the head."""
    weights = WeightFile(folder / "model.onnx.data")
    try:
        graph = _LlamaGraph(model, precision, weights).build(advance)
    finally:
        weights.close()
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="tokenloom")
    onnx.save_model(proto, str(folder / "model.onnx"))


class _LlamaGraph:
    def __init__(self, model: GgufModel, precision: Precision, weights: WeightFile) -> None:
        self._model = model
        self._precision = precision
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []

    def build(self, advance: Callable[[], None]) -> onnx.GraphProto:
        size = self._model.parameters
        self._positions()
        self._weights.add("embedding", self._model.weight("token_embd.weight"))
        hidden = self._node("Gather", ["embedding", "input_ids"], "hidden")
        residual, update = hidden, ""
        for block in range(size.block_count):
            residual, update = self._block(block, residual, update)
            advance()
        normed, _ = self._norm("output_norm", residual, update)
        self._node("Gather", [normed, self._constant("last", np.array([-1], np.int64))], "hidden_states", axis=1)
        self._head()
        advance()
        batch, past, total = "batch_size", "past_sequence_length", "total_sequence_length"
        integers: list[tuple[str, list[str]]] = [
            ("input_ids", [batch, "sequence_length"]),
            ("attention_mask", [batch, total]),
        ]
        results = [("logits", size.vocab_size), ("hidden_states", size.hidden_size)]
        sides = [f"{block}.{side}" for block in range(size.block_count) for side in ("key", "value")]
        cache: list[int | str] = [batch, size.kv_head_count]
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name, shape in integers]
        inputs += [_float(f"past_key_values.{side}", [*cache, past, size.head_size]) for side in sides]
        outputs = [_float(name, [batch, 1, width]) for name, width in results]
        outputs += [_float(f"present.{side}", [*cache, total, size.head_size]) for side in sides]
        return helper.make_graph(self._nodes, "llama", inputs, outputs, self._weights.initializers)

    def _positions(self) -> None:
        """Row lengths for GroupQueryAttention out of the mask, and the tables of rotary angles."""
        size = self._model.parameters
        one, axis = self._constant("one", np.array([1], np.int64)), self._constant("axis", np.array(1, np.int64))
        length = self._node("ReduceSum", ["attention_mask", one], "length", keepdims=0)
        before = self._node("Sub", [length, one], "length_before")
        self._node("Cast", [before], "seqlens_k", to=TensorProto.INT32)
        shape = self._node("Shape", ["attention_mask"], "mask_shape")
        total = self._node("Gather", [shape, axis], "mask_length")
        self._node("Cast", [total], "total_sequence_length", to=TensorProto.INT32)
        frequencies = 1.0 / size.rope_base ** (np.arange(0, size.head_size, 2) / size.head_size)
        angles = np.outer(np.arange(size.context_length), frequencies)
        self._constant("cos", np.cos(angles).astype(np.float32))
        self._constant("sin", np.sin(angles).astype(np.float32))

    def _block(self, block: int, residual: str, update: str) -> tuple[str, str]:
        size, name = self._model.parameters, f"blk.{block}"
        normed, residual = self._norm(f"{name}.attn_norm", residual, update)
        query, key, value = (self._linear(f"{name}.attn_{part}", normed) for part in "qkv")
        past = [f"past_key_values.{block}.{side}" for side in ("key", "value")]
        self._node(
            "GroupQueryAttention",
            [query, key, value, *past, "seqlens_k", "total_sequence_length", "cos", "sin"],
            [f"{name}.attention", f"present.{block}.key", f"present.{block}.value"],
            CONTRIB,
            num_heads=size.head_count,
            kv_num_heads=size.kv_head_count,
            do_rotary=1,
            rotary_interleaved=1,  # GGUF keeps the rows of q and k in the order of interleaved rotary
            scale=size.head_size**-0.5,
        )
        update = self._linear(f"{name}.attn_output", f"{name}.attention")
        normed, residual = self._norm(f"{name}.ffn_norm", residual, update)
        gate, up = self._linear(f"{name}.ffn_gate", normed), self._linear(f"{name}.ffn_up", normed)
        sigmoid = self._node("Sigmoid", [gate], f"{name}.sigmoid")
        activated = self._node("Mul", [gate, sigmoid], f"{name}.activated")
        product = self._node("Mul", [activated, up], f"{name}.product")
        return residual, self._linear(f"{name}.ffn_down", product)

    def _norm(self, name: str, residual: str, update: str) -> tuple[str, str]:
        """RMS norm of residual + update. Gives (normed, the sum)."""
        weight = self._weights.add(name, self._model.weight(f"{name}.weight"))
        epsilon = self._model.parameters.norm_epsilon
        if not update:
            normed = self._node(
                "SimplifiedLayerNormalization",
                [residual, weight],
                f"{name}.out",
                axis=-1,
                epsilon=epsilon,
                stash_type=1,
            )
            return normed, residual
        outputs = [f"{name}.out", "", "", f"{name}.sum"]
        self._node("SkipSimplifiedLayerNormalization", [residual, update, weight], outputs, CONTRIB, epsilon=epsilon)
        return outputs[0], outputs[3]

    def _linear(self, name: str, source: str) -> str:
        if self._model.has_weight(f"{name}.bias"):
            self._linear_weight(name, self._model.weight(f"{name}.weight"), source, f"{name}.product")
            bias = self._weights.add(f"{name}.bias", self._model.weight(f"{name}.bias"))
            return self._node("Add", [f"{name}.product", bias], f"{name}.out")
        return self._linear_weight(name, self._model.weight(f"{name}.weight"), source, f"{name}.out")

    def _linear_weight(self, name: str, weight: FloatArray, source: str, target: str, quantized: bool = True) -> str:
        """source [.., in] times weight [out, in] transposed."""
        if self._precision is Precision.FP32 or not quantized or weight.shape[1] % BLOCK:
            return self._node("MatMul", [source, self._weights.add(name, weight.T)], target)
        blocks = quantize(weight)
        return self._node(
            "MatMulNBits",
            [
                source,
                self._weights.add(f"{name}.values", blocks.values),
                self._weights.add(f"{name}.scales", blocks.scales),
                self._weights.add(f"{name}.zero_points", blocks.zero_points),
            ],
            target,
            CONTRIB,
            K=weight.shape[1],
            N=weight.shape[0],
            bits=4,
            block_size=BLOCK,
            accuracy_level=4,
        )

    def _head(self) -> None:
        tied = not self._model.has_weight("output.weight")
        quantized = self._precision is Precision.UINT4_LM_HEAD
        if tied and not quantized:
            # The embedding itself, transposed by the product: one copy in the file.
            size = self._model.parameters.hidden_size
            flat = self._constant("flat", np.array([-1, size], np.int64))
            rows = self._node("Reshape", ["hidden_states", flat], "head_rows")
            product = self._node("Gemm", [rows, "embedding"], "head_product", transB=1)
            self._node("Unsqueeze", [product, "one"], "logits")
            return
        weight = self._model.weight("token_embd.weight" if tied else "output.weight")
        self._linear_weight("lm_head", weight, "hidden_states", "logits", quantized)

    def _constant(self, name: str, values: np.ndarray) -> str:
        return self._weights.add(name, values)

    def _node(
        self, kind: str, inputs: Sequence[str], outputs: str | Sequence[str], domain: str = "", **attributes: Any
    ) -> str:
        names = [outputs] if isinstance(outputs, str) else list(outputs)
        self._nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], domain=domain, **attributes))
        return names[0]


def _float(name: str, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))
