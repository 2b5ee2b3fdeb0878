"""Reading and changing a session's logits: selection, dense and sparse edits, allow masks and denied tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runtime.errors import InvalidArgument
from runtime.operations import EditKind, FloatArray, LogitsEdit, LogitsSelector, SelectedLogits, TokenArray
from runtime.sampler import largest


def select(logits: FloatArray, selector: LogitsSelector) -> SelectedLogits:
    """logits [rows, vocab_size] -> what the selector asks for."""
    vocab_size = logits.shape[1]
    if selector.top_k is not None:
        if not 1 <= selector.top_k <= vocab_size:
            raise InvalidArgument("top_k", selector.top_k, f"an integer in [1, {vocab_size}]")
        token_ids = np.stack([largest(row, selector.top_k)[: selector.top_k] for row in logits])
        return SelectedLogits(np.take_along_axis(logits, token_ids, axis=1), token_ids)
    if selector.token_ids is not None:
        check_tokens("token_ids", selector.token_ids, vocab_size)
        token_ids = np.broadcast_to(selector.token_ids, (len(logits), len(selector.token_ids)))
        return SelectedLogits(logits[:, selector.token_ids], token_ids)
    return SelectedLogits(logits)


def check_selector(selector: LogitsSelector, vocab_size: int) -> None:
    """Raises what `select` would raise, before a model run is spent."""
    select(np.zeros((1, vocab_size), np.float32), selector)


def check_tokens(field: str, token_ids: TokenArray, vocab_size: int) -> None:
    """Raises InvalidArgument naming the first id outside [0, vocab_size)."""
    outside = np.flatnonzero((token_ids < 0) | (token_ids >= vocab_size))
    if len(outside):
        index = int(outside[0])
        raise InvalidArgument(f"{field}[{index}]", int(token_ids[index]), f"a token id in [0, {vocab_size})")


def check_edit(edit: LogitsEdit, index: int, rows: int, vocab_size: int) -> None:
    """Raises InvalidArgument for an edit that can never be made, whatever the logits are."""
    field = f"edits[{index}]"
    if edit.row is not None and not 0 <= edit.row < rows:
        raise InvalidArgument(f"{field}.row", edit.row, f"a row in [0, {rows})")
    if edit.values is not None:
        if edit.token_ids is None:
            allowed = [(vocab_size,)] if edit.row is not None else [(vocab_size,), (rows, vocab_size)]
            if edit.values.shape not in allowed:
                raise InvalidArgument(f"{field}.dense", edit.values.shape, f"one of the shapes {allowed}")
        elif edit.values.shape != edit.token_ids.shape:
            raise InvalidArgument(
                f"{field}.sparse.values", len(edit.values), f"as many as token_ids ({len(edit.token_ids)})"
            )
        bad = np.isnan(edit.values) | np.isposinf(edit.values)
        if bad.any():
            place = int(np.flatnonzero(bad.reshape(-1))[0])
            raise InvalidArgument(f"{field}.values[{place}]", float(edit.values.reshape(-1)[place]), "a number or -inf")
    if edit.token_ids is not None:
        check_tokens(f"{field}.token_ids", edit.token_ids, vocab_size)
        if edit.values is not None and len(np.unique(edit.token_ids)) != len(edit.token_ids):
            raise InvalidArgument(f"{field}.token_ids", "a repeated id", "each token at most once")
    if edit.allowed is not None and edit.allowed.shape != (vocab_size,):
        raise InvalidArgument(f"{field}.allow_mask", edit.allowed.shape, f"one bit for each of {vocab_size} tokens")
    if edit.values is None and edit.token_ids is None and edit.allowed is None:
        raise InvalidArgument(field, "nothing", "one of dense, sparse, allow_mask and deny_ids")


def is_complete(edits: Sequence[LogitsEdit]) -> bool:
    """Whether the edits set every logit of every row, so that what was there does not matter."""
    return bool(edits) and edits[0].row is None and edits[0].values is not None and edits[0].token_ids is None


def edited(logits: FloatArray, row: int, edits: Sequence[LogitsEdit]) -> FloatArray:
    """One row's logits [vocab_size] after all edits that concern it; the input is not changed.

    Raises InvalidArgument where no finite logit would be left.
    """
    result = logits.copy()
    for edit in edits:
        if edit.row is None or edit.row == row:
            _apply(result, row, edit)
    if not np.isfinite(result).any():
        raise InvalidArgument("edits", f"row {row} without any finite logit", "at least one token left possible")
    return result


def _apply(logits: FloatArray, row: int, edit: LogitsEdit) -> None:
    if edit.allowed is not None:
        logits[~edit.allowed] = -np.inf
    elif edit.values is None:
        logits[edit.token_ids] = -np.inf
    elif edit.token_ids is None:
        logits[:] = edit.values if edit.values.ndim == 1 else edit.values[row]
    elif edit.kind is EditKind.SET:
        logits[edit.token_ids] = edit.values
    elif edit.kind is EditKind.ADD:
        logits[edit.token_ids] += edit.values
    else:
        with np.errstate(invalid="ignore"):
            logits[edit.token_ids] *= edit.values
        if np.isnan(logits[edit.token_ids]).any():
            raise InvalidArgument("edits", "-inf multiplied by 0", "products that are numbers")
