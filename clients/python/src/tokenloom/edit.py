"""Changes to the logits of the next token, for `set_logits`, `generate_tokens(edits=...)` and logits hooks.

    from tokenloom import edit
    session.set_logits([edit.deny([7, 8]), edit.add([42], [1.5], row=0)])

Each function makes one change; lists are applied in order. `row` names one row; None means every unfinished row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tokenloom._tensors import float_tensor, token_ids
from tokenloom.errors import invalid
from tokenloom.v1 import generation_pb2, types_pb2

LogitsEdit = generation_pb2.LogitsEdit


def dense(values: ArrayLike, row: int | None = None) -> LogitsEdit:
    """Replace all logits. values: float [vocab_size], or [rows, vocab_size] where `row` is None. -inf is legal."""
    return LogitsEdit(row=row, dense=float_tensor(values, "values"))


def replace(ids: Sequence[int], values: Sequence[float], row: int | None = None) -> LogitsEdit:
    """Replace the logits of these tokens. ids, values: [k], each id once."""
    return _sparse(generation_pb2.EDIT_OPERATION_SET, ids, values, row)


def add(ids: Sequence[int], values: Sequence[float], row: int | None = None) -> LogitsEdit:
    """Add to the logits of these tokens. ids, values: [k], each id once."""
    return _sparse(generation_pb2.EDIT_OPERATION_ADD, ids, values, row)


def multiply(ids: Sequence[int], values: Sequence[float], row: int | None = None) -> LogitsEdit:
    """Multiply the logits of these tokens. ids, values: [k], each id once."""
    return _sparse(generation_pb2.EDIT_OPERATION_MULTIPLY, ids, values, row)


def allow(mask: ArrayLike, row: int | None = None) -> LogitsEdit:
    """Let only some tokens through. mask: bool [vocab_size]; tokens that are False become -inf."""
    bits = np.asarray(mask)
    if bits.dtype != np.bool_ or bits.ndim != 1:
        raise invalid("mask", f"expected bool [vocab_size], got {bits.dtype} {bits.shape}")
    return LogitsEdit(row=row, allow_mask=np.packbits(bits, bitorder="little").tobytes())


def deny(ids: Sequence[int], row: int | None = None) -> LogitsEdit:
    """Never choose these tokens: their logits become -inf."""
    return LogitsEdit(row=row, deny_ids=types_pb2.TokenIds(ids=token_ids(ids, "ids")))


def _sparse(
    operation: generation_pb2.EditOperation, ids: Sequence[int], values: Sequence[float], row: int | None
) -> LogitsEdit:
    numbers = np.asarray(values, dtype=np.float32)
    if numbers.ndim != 1 or len(numbers) != len(ids):
        raise invalid("values", f"expected one value per token ({len(ids)}), got shape {numbers.shape}")
    return LogitsEdit(
        row=row,
        sparse=generation_pb2.SparseEdit(operation=operation, token_ids=token_ids(ids, "ids"), values=numbers.tolist()),
    )
