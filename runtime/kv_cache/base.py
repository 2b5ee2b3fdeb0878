"""What the engine asks of a cache. A cache runs the model too, since only it knows where keys and values lie.

Rows are addressed by slot. A cache knows nothing of sessions, sampling or which slots are in use by whom.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.model import Model

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RunRow:
    """Tokens [n] of one row, the first of which is at position `start` (the row's length in the cache before)."""

    slot: int
    start: int
    tokens: NDArray[np.int64]

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


@dataclass(frozen=True, slots=True)
class RunOutput:
    """Logits [vocab_size] of the last position, valid until the next run, and the named outputs asked for."""

    logits: FloatArray
    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedRow:
    """A row's keys and values on the host, exact. Never changed after it was made: forks share it."""

    length: int
    tensors: tuple[NDArray[Any], ...]

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors)


class KVCache(ABC):
    """`slots` rows of up to model.max_length tokens."""

    def __init__(self, model: Model) -> None:
        self.model = model
        names, layers = model.config.names, range(model.config.num_hidden_layers)
        self.past_names = [name % layer for layer in layers for name in names.past]
        self.present_names = [name % layer for layer in layers for name in names.present]
        self.slots = model.slots
        self.rows = max(2, model.slots)
        """Rows there is memory for: a slot that must not run alone has a neighbour, also where it is the only one."""
        self.min_rows = 1
        """Rows a decode run has at the least (see `runtime.kv_cache.probe`)."""
        self.lengths = np.zeros(self.rows, np.int64)
        """Tokens each row holds."""

    @abstractmethod
    def decode(self, rows: Sequence[RunRow], adapter: str) -> list[FloatArray]:
        """Runs one token of each row and gives their logits, in the order of rows.

        What a row gets does not depend on the other rows, to the last bit.
        """

    @abstractmethod
    def run_row(
        self,
        row: RunRow,
        adapter: str,
        extra_inputs: Mapping[str, NDArray[Any]] | None = None,
        output_names: Sequence[str] = (),
    ) -> RunOutput:
        """Runs the tokens of one row: a chunk of prefill, or a run with inputs or outputs of its own."""

    @abstractmethod
    def truncate(self, slot: int, length: int) -> None:
        """Forgets what is past `length`."""

    @abstractmethod
    def copy(self, source: int, target: int, length: int) -> None:
        """Makes `target` hold the first `length` tokens of `source`."""

    @abstractmethod
    def save(self, slot: int, length: int) -> SavedRow:
        """The first `length` tokens of a slot, on the host."""

    @abstractmethod
    def read_past(self, slot: int, name: str, length: int) -> NDArray[Any]:
        """The first `length` tokens of a slot as the graph's tensor `name` has them, batch dimension included."""

    @abstractmethod
    def restore(self, slot: int, saved: SavedRow, length: int) -> None:
        """Makes a slot hold the first `length` tokens of a copy."""

    def forget_adapter(self, adapter: str) -> None:  # noqa: B027  # a cache may hold nothing of adapters
        """Drops whatever is held for an adapter that is about to be unloaded."""

    @property
    @abstractmethod
    def bytes_per_token(self) -> int:
        """Memory one token of one row takes."""

    def tensor_index(self, name: str) -> int:
        """Which of the cache's tensors an input or output name means."""
        names = self.past_names if name in self.past_names else self.present_names
        return names.index(name)

    def last_logits(self, values: NDArray[Any]) -> FloatArray:
        """Logits [rows, vocab_size] of the last position out of the graph's output [rows, n, width]."""
        return np.asarray(values[:, -1, : self.model.vocab_size], np.float32)
