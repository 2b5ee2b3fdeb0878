"""The slot cache: one buffer for all layers, past and present bound to the same memory.

A prefill binds the shape [1, ...] at its slot; a decode step binds a contiguous window of slots. Rows of the window
that are not asked for run along with a dummy token: it lands one position past their length, where the next real run
writes over it. A full slot has no such position and never runs along.
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
from runtime.kv_cache.windows import plan_windows
from runtime.model import Model

MASK_STEP = 64
"""Masks are this much longer than needed at most, so that a window is bound anew only every so many steps."""
MAX_WINDOWS = 64
"""Bindings kept. Each holds its logits: rows * width floats."""


class SlotCache(KVCache):
    """Buffer [layers * 2, slots, kv_heads, max_length, head_size]; the host commits only the pages that are used."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        names, past = model.config.names, model.past_info()
        if names.combined or len(past.shape) != 4 or not isinstance(past.shape[1], int):
            raise FailedPrecondition("MODEL_UNSUPPORTED", f"a shared cache of shape {past.shape} is not supported")
        shape = (len(self.past_names), model.slots, past.shape[1], model.max_length, _head_size(model))
        self.buffer = model.device.allocate(shape, past.dtype)
        self._windows: OrderedDict[tuple[int, int, str], _Window] = OrderedDict()

    @property
    def bytes_per_token(self) -> int:
        tensors, _, heads, _, head_size = self.buffer.shape
        return tensors * heads * head_size * self.buffer.dtype.itemsize

    def decode(self, rows: Sequence[RunRow], adapter: str) -> list[FloatArray]:
        by_slot = {row.slot: row for row in rows}
        full = {int(slot) for slot in np.flatnonzero(self.lengths >= self.model.max_length)}
        logits: dict[int, FloatArray] = {}
        for first, count in plan_windows(sorted(by_slot), full):
            window = self._window(first, count, adapter)
            slots = range(first, first + count)
            tokens = np.array([[by_slot[slot].tokens[0] if slot in by_slot else 0] for slot in slots], np.int64)
            starts = [by_slot[slot].start if slot in by_slot else int(self.lengths[slot]) for slot in slots]
            values = window.run(tokens, starts)
            logits.update((slot, values[slot - first]) for slot in slots if slot in by_slot)
        for row in rows:
            self.lengths[row.slot] = max(self.lengths[row.slot], row.end)
        return [logits[row.slot] for row in rows]

    def run_row(
        self,
        row: RunRow,
        adapter: str,
        extra_inputs: Mapping[str, NDArray[Any]] | None = None,
        output_names: Sequence[str] = (),
    ) -> RunOutput:
        window = _Window(self, row.slot, 1, adapter, extra_inputs, output_names)
        values = window.run(row.tokens[None, :], [row.start])
        self.lengths[row.slot] = max(self.lengths[row.slot], row.end)
        return RunOutput(values[0], window.named_outputs())

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

    def restore(self, slot: int, saved: SavedRow) -> None:
        self.buffer.write((slice(None), slot, slice(None), slice(0, saved.length)), saved.tensors[0])
        self.lengths[slot] = saved.length

    def forget_adapter(self, adapter: str) -> None:
        """Drops bindings that hold an adapter's weights."""
        for key in [key for key in self._windows if key[2] == adapter]:
            del self._windows[key]

    def bind_rows(self, binding: onnxruntime.IOBinding, first: int, count: int) -> None:
        """Binds the cache inputs and outputs of slots [first, first + count)."""
        device = self.model.device.name
        _, _, heads, length, head_size = self.buffer.shape
        shape = [count, heads, length, head_size]
        for index, (past, present) in enumerate(zip(self.past_names, self.present_names, strict=True)):
            pointer = self.buffer.pointer(index, first)
            binding.bind_input(past, device, 0, self.buffer.dtype, shape, pointer)
            binding.bind_output(present, device, 0, self.buffer.dtype, shape, pointer)

    def _window(self, first: int, count: int, adapter: str) -> _Window:
        key = (first, count, adapter)
        if key not in self._windows:
            self._windows[key] = _Window(self, first, count, adapter)
            if len(self._windows) > MAX_WINDOWS:
                self._windows.popitem(last=False)
        self._windows.move_to_end(key)
        return self._windows[key]


class _Window:
    """A binding of slots [first, first + count) with one adapter, kept between steps."""

    def __init__(
        self,
        cache: SlotCache,
        first: int,
        count: int,
        adapter: str,
        extra_inputs: Mapping[str, NDArray[Any]] | None = None,
        output_names: Sequence[str] = (),
    ) -> None:
        self._cache = cache
        self._model = cache.model
        self._count = count
        self._binding = self._model.session.io_binding()
        self._inputs: dict[str, NDArray[Any]] = {}
        self._logits = np.empty((0, 0, 0), np.float32)
        cache.bind_rows(self._binding, first, count)
        # The binding holds addresses only: what lies there must live as long as it.
        self._adapter = dict(self._model.adapter_values(adapter))
        for name, value in self._adapter.items():
            self._binding.bind_ortvalue_input(name, value)
        self._extra_inputs = {name: np.ascontiguousarray(value) for name, value in (extra_inputs or {}).items()}
        for name, extra in self._extra_inputs.items():
            self._binding.bind_cpu_input(name, extra)
        self._output_names = list(output_names)
        for name in self._output_names:
            self._binding.bind_output(name, "cpu")

    def run(self, tokens: NDArray[np.int64], starts: Sequence[int]) -> FloatArray:
        """tokens [rows, n] at positions starts [rows] -> logits [rows, vocab_size], a view the next run changes."""
        end = max(starts) + tokens.shape[1]
        mask_length = min(-(-end // MASK_STEP) * MASK_STEP, self._model.max_length)
        for name, value in self._model.run_inputs(tokens, starts, mask_length).items():
            self._set_input(name, value)
        self._bind_logits(tokens.shape[1])
        self._model.session.run_with_iobinding(self._binding)
        return self._cache.last_logits(self._logits)

    def named_outputs(self) -> dict[str, NDArray[Any]]:
        """The outputs asked for, of the last run."""
        if not self._output_names:
            return {}
        values = dict(zip(self._bound_outputs(), self._binding.get_outputs(), strict=True))
        return {name: values[name].numpy() for name in self._output_names}

    def _bound_outputs(self) -> list[str]:
        return [*self._cache.present_names, *self._output_names, self._model.config.names.logits]

    def _set_input(self, name: str, value: NDArray[Any]) -> None:
        held = self._inputs.get(name)
        if held is None or held.shape != value.shape or self._model.device.host_inputs_are_copied:
            self._inputs[name] = value
            self._binding.bind_input(name, "cpu", 0, value.dtype, list(value.shape), int(value.ctypes.data))
        else:
            held[...] = value

    def _bind_logits(self, count: int) -> None:
        name = self._model.config.names.logits
        positions = 1 if self._model.keeps_last_logits_only else count
        shape = (self._count, positions, self._model.logits_width)
        if self._logits.shape != shape:
            self._logits = np.empty(shape, self._model.outputs[name].dtype)
            self._binding.bind_output(name, "cpu", 0, self._logits.dtype, list(shape), int(self._logits.ctypes.data))


def _head_size(model: Model) -> int:
    """Where the signature leaves the last dimension open, the other side of a run tells it."""
    extent = model.past_info().shape[3]
    if isinstance(extent, int):
        return extent
    if model.config.head_size is not None:
        return model.config.head_size
    raise FailedPrecondition("MODEL_INVALID", "neither the graph nor the configuration says the head size")
