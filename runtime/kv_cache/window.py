"""One binding of a window of slots: what ONNX Runtime reads and writes when those rows run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from runtime.kv_cache.base import FloatArray

if TYPE_CHECKING:
    from runtime.kv_cache.slots import SlotCache

MASK_STEP = 64
"""Masks are this much longer than needed at most, so that a window is bound anew only every so many steps."""


class Window:
    """A binding of slots [first, first + count) with one adapter, kept between steps."""

    def __init__(
        self,
        cache: SlotCache,
        first: int,
        count: int,
        adapter: str,
        extra_inputs: Mapping[str, NDArray[Any]] | None = None,
        output_names: Sequence[str] = (),
        logits: NDArray[Any] | None = None,
    ) -> None:
        """logits: where a run's logits go; a place of its own where it is not given or does not fit."""
        self._cache = cache
        self._model = cache.model
        self.first = first
        self.count = count
        self._binding = self._model.session.io_binding()
        self._inputs: dict[str, NDArray[Any]] = {}
        self._logits: NDArray[Any] | None = None
        self._place = logits
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
        logits = self._bound_logits(tokens.shape[1])
        self._model.session.run_with_iobinding(self._binding)
        return self._cache.last_logits(logits)

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

    def _bound_logits(self, count: int) -> NDArray[Any]:
        """The array that a run of `count` positions writes its logits to."""
        name = self._model.config.names.logits
        positions = 1 if self._model.keeps_last_logits_only else count
        shape = (self.count, positions, self._model.logits_width)
        if self._logits is None or self._logits.shape != shape:
            fits = self._place is not None and self._place.shape == shape
            self._logits = self._place if fits else np.empty(shape, self._model.outputs[name].dtype)
            assert self._logits is not None
            self._binding.bind_output(name, "cpu", 0, self._logits.dtype, list(shape), int(self._logits.ctypes.data))
        return self._logits
