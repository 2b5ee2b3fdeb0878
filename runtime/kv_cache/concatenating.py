"""The cache for graphs that return present = concat(past, new): each row keeps its own tensors on the host.

Rows run together only where their lengths are equal: padding would make a row's sums depend on its batch mates, and a
batch must never change a user's tokens (docs/adr/0003).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from runtime.errors import FailedPrecondition
from runtime.kv_cache.base import FloatArray, KVCache, RunOutput, RunRow, SavedRow
from runtime.kv_cache.probe import smallest_exact_batch
from runtime.model import Model


class ConcatenatingCache(KVCache):
    """Per slot one tensor for each cache input: [heads, length, head_size], or [2, heads, length, head_size]."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._batch_axis = 1 if model.config.names.combined else 0
        self._empty = np.zeros(self._row_shape(), model.past_info().dtype)
        self._rows: list[tuple[NDArray[Any], ...]] = [self._blank()] * self.rows
        self.min_rows = smallest_exact_batch(self)

    @property
    def bytes_per_token(self) -> int:
        *outer, _, head_size = self._empty.shape
        return int(len(self.past_names) * math.prod(outer) * head_size * self._empty.dtype.itemsize)

    def decode(self, rows: Sequence[RunRow], adapter: str) -> list[FloatArray]:
        by_length: defaultdict[int, list[int]] = defaultdict(list)
        for index, row in enumerate(rows):
            by_length[row.start].append(index)
        logits: dict[int, FloatArray] = {}
        for indices in by_length.values():
            output = self._run([rows[index] for index in indices], adapter, {}, ())
            last = self.last_logits(output[self.model.config.names.logits])
            logits.update(zip(indices, last, strict=False))
        return [logits[index] for index in range(len(rows))]

    def run_row(
        self,
        row: RunRow,
        adapter: str,
        extra_inputs: Mapping[str, NDArray[Any]] | None = None,
        output_names: Sequence[str] = (),
    ) -> RunOutput:
        output = self._run([row], adapter, extra_inputs or {}, output_names)
        logits = self.last_logits(output[self.model.config.names.logits])[0]
        return RunOutput(logits, {name: output[name][:1] for name in output_names})

    def truncate(self, slot: int, length: int) -> None:
        if length == 0:
            self._rows[slot] = self._blank()  # a view of nothing would keep everything alive
            self.lengths[slot] = 0
        elif length < self.lengths[slot]:
            self._rows[slot] = tuple(tensor[..., :length, :] for tensor in self._rows[slot])
            self.lengths[slot] = length

    def copy(self, source: int, target: int, length: int) -> None:
        self._rows[target] = tuple(tensor[..., :length, :] for tensor in self._rows[source])
        self.lengths[target] = length

    def save(self, slot: int, length: int) -> SavedRow:
        return SavedRow(length, tuple(tensor[..., :length, :].copy() for tensor in self._rows[slot]))

    def read_past(self, slot: int, name: str, length: int) -> NDArray[Any]:
        tensor = self._rows[slot][self.tensor_index(name)][..., :length, :]
        return np.expand_dims(tensor, self._batch_axis).copy()

    def restore(self, slot: int, saved: SavedRow, length: int) -> None:
        self._rows[slot] = tuple(tensor[..., :length, :] for tensor in saved.tensors)
        self.lengths[slot] = length

    def _run(
        self,
        rows: Sequence[RunRow],
        adapter: str,
        extra_inputs: Mapping[str, NDArray[Any]],
        output_names: Sequence[str],
    ) -> dict[str, NDArray[Any]]:
        """Rows of equal start and count, as one batch. Returns the named outputs and the logits."""
        asked = len(rows)
        if len(rows) < self.min_rows and len(rows[0].tokens) == 1 and not extra_inputs:
            rows = [*rows, *rows]  # a row that must not run alone runs beside itself
        tokens = np.stack([row.tokens for row in rows])
        values = {**self.model.run_inputs(tokens, [row.start for row in rows]), **extra_inputs}
        start = rows[0].start
        for index, name in enumerate(self.past_names):
            pasts = [self._rows[row.slot][index][..., :start, :] for row in rows]
            values[name] = np.stack(pasts, axis=self._batch_axis)
        names = list(dict.fromkeys([self.model.config.names.logits, *output_names, *self.present_names]))
        feed = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value))
            for name, value in values.items()
        }
        feed.update(self.model.adapter_values(adapter))
        results = self.model.session.run_with_ort_values(names, feed)
        output = {name: value.numpy() for name, value in zip(names, results, strict=True)}
        for place, row in enumerate(rows[:asked]):
            self._rows[row.slot] = tuple(self._row_of(output[name], place, len(rows)) for name in self.present_names)
            self.lengths[row.slot] = row.end
        return output

    def _row_of(self, present: NDArray[Any], place: int, rows: int) -> NDArray[Any]:
        part = present[:, place] if self._batch_axis else present[place]
        # A view would keep the whole batch alive for as long as its longest-lived row.
        return part if rows == 1 else part.copy()

    def _row_shape(self) -> tuple[int, ...]:
        shape = list(self.model.past_info().shape)
        del shape[self._batch_axis]
        shape[-2] = 0
        if not all(isinstance(extent, int) for extent in shape):
            raise FailedPrecondition("MODEL_UNSUPPORTED", f"a cache of shape {shape} is not supported")
        return tuple(int(extent) for extent in shape)

    def _blank(self) -> tuple[NDArray[Any], ...]:
        return (self._empty,) * len(self.past_names)
