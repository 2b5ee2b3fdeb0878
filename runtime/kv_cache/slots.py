"""The slot cache: one buffer for all layers, past and present bound to the same memory.

A prefill binds the shape [1, ...] at its slot; a decode step binds a contiguous window of slots. Rows of the window
that are not asked for run along with a dummy token: it lands one position past their length, where the next real run
writes over it. A full slot has no such position: its last one is put back after the run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from runtime.errors import FailedPrecondition
from runtime.kv_cache.base import FloatArray, KVCache, RunOutput, RunRow, SavedRow
from runtime.kv_cache.probe import smallest_exact_batch
from runtime.kv_cache.window import Window
from runtime.kv_cache.windows import plan_windows
from runtime.model import Model

MAX_WINDOWS = 256
"""Bindings kept: 16 slots have 136 windows."""


class SlotCache(KVCache):
    """Buffer [layers * 2, slots, kv_heads, max_length, head_size]; the host commits only the pages that are used."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        names, past = model.config.names, model.past_info()
        if names.combined or len(past.shape) != 4 or not isinstance(past.shape[1], int):
            raise FailedPrecondition("MODEL_UNSUPPORTED", f"a shared cache of shape {past.shape} is not supported")
        shape = (len(self.past_names), self.rows, past.shape[1], model.max_length, _head_size(model))
        self.buffer = model.device.allocate(shape, past.dtype)
        self._windows: OrderedDict[tuple[int, int, str], Window] = OrderedDict()
        self._logits: dict[str, NDArray[Any]] = {}
        """Per adapter, where decode runs write: [rows, 1, width]."""
        self.min_rows = smallest_exact_batch(self)

    @property
    def bytes_per_token(self) -> int:
        tensors, _, heads, _, head_size = self.buffer.shape
        return tensors * heads * head_size * self.buffer.dtype.itemsize

    def decode(self, rows: Sequence[RunRow], adapter: str) -> list[FloatArray]:
        by_slot = {row.slot: row for row in rows}
        logits: dict[int, FloatArray] = {}
        for first, count in plan_windows(sorted(by_slot), self.rows, self.min_rows):
            values = self._run(self._window(first, count, adapter), by_slot)
            logits.update((slot, values[slot - first]) for slot in by_slot if first <= slot < first + count)
        return [logits[row.slot] for row in rows]

    def run_row(
        self,
        row: RunRow,
        adapter: str,
        extra_inputs: Mapping[str, NDArray[Any]] | None = None,
        output_names: Sequence[str] = (),
    ) -> RunOutput:
        first, count = row.slot, 1
        if len(row.tokens) == 1 and not extra_inputs:
            ((first, count),) = plan_windows([row.slot], self.rows, self.min_rows)
        window = Window(self, first, count, adapter, extra_inputs, output_names)
        values = self._run(window, {row.slot: row})
        place = row.slot - first
        outputs = {name: value[place : place + 1] for name, value in window.named_outputs().items()}
        return RunOutput(values[place], outputs)

    def _run(self, window: Window, by_slot: Mapping[int, RunRow]) -> FloatArray:
        """Runs a window: its rows in `by_slot`, and the others with a dummy token at the end of what they hold."""
        slots = range(window.first, window.first + window.count)
        idle = [slot for slot in slots if slot not in by_slot]
        last = self.model.max_length - 1
        ends = {slot: min(int(self.lengths[slot]), last) for slot in idle}
        kept = {slot: self.buffer.read(_position(slot, last)) for slot in idle if self.lengths[slot] > last}
        blank = np.zeros(len(next(iter(by_slot.values())).tokens), np.int64)
        tokens = np.stack([by_slot[slot].tokens if slot in by_slot else blank for slot in slots])
        values = window.run(tokens, [by_slot[slot].start if slot in by_slot else ends[slot] for slot in slots])
        for slot, content in kept.items():
            self.buffer.write(_position(slot, last), content)
        for slot in slots:
            if slot in by_slot:
                self.lengths[slot] = max(self.lengths[slot], by_slot[slot].end)
        return values

    def truncate(self, slot: int, length: int) -> None:
        self.lengths[slot] = min(self.lengths[slot], length)

    def copy(self, source: int, target: int, length: int) -> None:
        everything = slice(None)
        part = slice(0, length)
        self.buffer.copy((everything, source, everything, part), (everything, target, everything, part))
        self.lengths[target] = length

    def save(self, slot: int, length: int) -> SavedRow:
        return SavedRow(length, (self.buffer.read((slice(None), slot, slice(None), slice(0, length))),))

    def read_past(self, slot: int, name: str, length: int) -> NDArray[Any]:
        index = self.tensor_index(name)
        return self.buffer.read((index, slot, slice(None), slice(0, length)))[None]

    def restore(self, slot: int, saved: SavedRow, length: int) -> None:
        self.buffer.write((slice(None), slot, slice(None), slice(0, length)), saved.tensors[0][:, :, :length])
        self.lengths[slot] = length

    def forget_adapter(self, adapter: str) -> None:
        """Drops bindings that hold an adapter's weights."""
        for key in [key for key in self._windows if key[2] == adapter]:
            del self._windows[key]
        self._logits.pop(adapter, None)

    def _blank_logits(self) -> NDArray[Any]:
        width, info = self.model.logits_width, self.model.outputs[self.model.config.names.logits]
        return np.empty((self.rows, 1, width), info.dtype)

    def bind_rows(self, binding: onnxruntime.IOBinding, first: int, count: int) -> None:
        """Binds the cache inputs and outputs of slots [first, first + count)."""
        device = self.model.device.name
        _, _, heads, length, head_size = self.buffer.shape
        shape = [count, heads, length, head_size]
        for index, (past, present) in enumerate(zip(self.past_names, self.present_names, strict=True)):
            pointer = self.buffer.pointer(index, first)
            binding.bind_input(past, device, 0, self.buffer.dtype, shape, pointer)
            binding.bind_output(present, device, 0, self.buffer.dtype, shape, pointer)

    def _window(self, first: int, count: int, adapter: str) -> Window:
        key = (first, count, adapter)
        if key not in self._windows:
            # Windows of one iteration and adapter do not overlap, so they share one place for all slots' logits.
            logits = self._logits.setdefault(adapter, self._blank_logits())[first : first + count]
            self._windows[key] = Window(self, first, count, adapter, logits=logits)
            if len(self._windows) > MAX_WINDOWS:
                self._windows.popitem(last=False)
        self._windows.move_to_end(key)
        return self._windows[key]


def _position(slot: int, position: int) -> tuple[int | slice, ...]:
    """Index of one position of a slot, in all tensors and heads."""
    return slice(None), slot, slice(None), slice(position, position + 1)


def _head_size(model: Model) -> int:
    """Where the signature leaves the last dimension open, the other side of a run tells it."""
    extent = model.past_info().shape[3]
    if isinstance(extent, int):
        return extent
    if model.config.head_size is not None:
        return model.config.head_size
    raise FailedPrecondition("MODEL_INVALID", "neither the graph nor the configuration says the head size")
