"""Logits: which to read, how they are told, how they are changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runtime.errors import InvalidArgument
from runtime.operations import EditKind, FloatArray, LogitsEdit, LogitsSelector, SelectedLogits
from service.convert.inputs import check_ids, to_tokens
from service.convert.tensors import from_array, to_array
from tokenloom.v1 import generation_pb2, types_pb2

_KINDS = {
    generation_pb2.EDIT_OPERATION_UNSPECIFIED: EditKind.SET,
    generation_pb2.EDIT_OPERATION_SET: EditKind.SET,
    generation_pb2.EDIT_OPERATION_ADD: EditKind.ADD,
    generation_pb2.EDIT_OPERATION_MULTIPLY: EditKind.MULTIPLY,
}
MAX_VARINT_BYTES = 5
"""Of a token id in a message."""
_FLOATS = (types_pb2.DATA_TYPE_FLOAT32, types_pb2.DATA_TYPE_FLOAT16)


def to_selector(message: generation_pb2.LogitsSelector, vocab_size: int, field: str) -> LogitsSelector:
    """Which logits to read. How they are told (`dtype`) is checked here and used in `from_logits`."""
    if message.dtype not in (types_pb2.DATA_TYPE_UNSPECIFIED, *_FLOATS):
        raise InvalidArgument(f"{field}.dtype", message.dtype, "FLOAT32 or FLOAT16")
    match message.WhichOneof("selection"):
        case "top_k":
            if not 1 <= message.top_k <= vocab_size:
                raise InvalidArgument(f"{field}.top_k", message.top_k, f"an integer in [1, {vocab_size}]")
            return LogitsSelector(top_k=message.top_k)
        case "token_ids":
            tokens = to_tokens(message.token_ids, vocab_size, f"{field}.token_ids")
            if not len(tokens):
                raise InvalidArgument(f"{field}.token_ids", "no token", "at least one")
            return LogitsSelector(token_ids=tokens)
        case _:
            return LogitsSelector()


def size_of_logits(message: generation_pb2.LogitsSelector, vocab_size: int) -> int:
    """Bytes a row of these logits takes in a message, at most."""
    value = 2 if message.dtype == types_pb2.DATA_TYPE_FLOAT16 else 4
    match message.WhichOneof("selection"):
        case "top_k":
            return message.top_k * (value + MAX_VARINT_BYTES)
        case "token_ids":
            return len(message.token_ids.ids) * (value + MAX_VARINT_BYTES)
        case _:
            return vocab_size * value


def from_logits(selected: SelectedLogits, dtype: types_pb2.DataType) -> generation_pb2.Logits:
    """Logits as a message, in the element type that the selector asked for."""
    values: NDArray[np.float32 | np.float16] = selected.values
    if dtype == types_pb2.DATA_TYPE_FLOAT16:
        with np.errstate(over="ignore"):  # beyond float16's range is infinite, as it should be
            values = values.astype(np.float16)
    token_ids = () if selected.token_ids is None else selected.token_ids.ravel().tolist()
    return generation_pb2.Logits(values=from_array(values), token_ids=token_ids)


def to_edits(
    messages: Sequence[generation_pb2.LogitsEdit], vocab_size: int, rows: int, field: str = "edits"
) -> tuple[LogitsEdit, ...]:
    """Edits in their order. `rows` is the number of rows of the session."""
    return tuple(_edit(message, vocab_size, rows, f"{field}[{index}]") for index, message in enumerate(messages))


def _edit(message: generation_pb2.LogitsEdit, vocab_size: int, rows: int, field: str) -> LogitsEdit:
    row = message.row if message.HasField("row") else None
    if row is not None and row >= rows:
        raise InvalidArgument(f"{field}.row", row, f"a row in [0, {rows})")
    match message.WhichOneof("edit"):
        case "dense":
            return LogitsEdit(row=row, values=_dense(message.dense, vocab_size, rows, row, f"{field}.dense"))
        case "sparse":
            return _sparse(message.sparse, vocab_size, row, f"{field}.sparse")
        case "allow_mask":
            expected = (vocab_size + 7) // 8
            if len(message.allow_mask) != expected:
                raise InvalidArgument(
                    f"{field}.allow_mask", f"{len(message.allow_mask)} bytes", f"{expected}, a bit per token"
                )
            bits = np.unpackbits(np.frombuffer(message.allow_mask, np.uint8), count=vocab_size, bitorder="little")
            return LogitsEdit(row=row, allowed=bits.view(np.bool_))
        case "deny_ids":
            return LogitsEdit(row=row, token_ids=to_tokens(message.deny_ids, vocab_size, f"{field}.deny_ids"))
        case _:
            raise InvalidArgument(field, None, "one of dense, sparse, allow_mask and deny_ids")


def _dense(tensor: types_pb2.Tensor, vocab_size: int, rows: int, row: int | None, field: str) -> FloatArray:
    if tensor.dtype not in _FLOATS:
        raise InvalidArgument(f"{field}.dtype", tensor.dtype, "FLOAT32 or FLOAT16")
    shapes = [[vocab_size]] if row is not None else [[vocab_size], [rows, vocab_size]]
    if list(tensor.shape) not in shapes:
        raise InvalidArgument(f"{field}.shape", list(tensor.shape), " or ".join(map(str, shapes)))
    values = to_array(tensor, field).astype(np.float32, copy=False)
    _check_values(values, f"{field}.data")
    return values


def _sparse(message: generation_pb2.SparseEdit, vocab_size: int, row: int | None, field: str) -> LogitsEdit:
    if message.operation not in _KINDS:
        raise InvalidArgument(f"{field}.operation", message.operation, "SET, ADD or MULTIPLY")
    if len(message.values) != len(message.token_ids):
        raise InvalidArgument(
            f"{field}.values", f"{len(message.values)} values", f"{len(message.token_ids)}, one per token"
        )
    tokens = np.array(message.token_ids, dtype=np.int64)
    check_ids(tokens, vocab_size, lambda index: f"{field}.token_ids[{index}]")
    if len(np.unique(tokens)) != len(tokens):
        raise InvalidArgument(f"{field}.token_ids", "a token twice", "each token at most once")
    values = np.array(message.values, dtype=np.float32)
    _check_values(values, f"{field}.values")
    return LogitsEdit(row=row, kind=_KINDS[message.operation], values=values, token_ids=tokens)


def _check_values(values: FloatArray, field: str) -> None:
    bad = ~(values < np.inf)  # NaN compares false
    if bad.any():
        where = np.unravel_index(int(bad.argmax()), values.shape)
        path = field + "".join(f"[{index}]" for index in where)
        raise InvalidArgument(path, float(values[where]), "a number or -inf; no NaN, no +inf")
