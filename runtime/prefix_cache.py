"""Finds whose keys and values a row may copy instead of computing: those of the longest beginning it shares.

A position's keys and values are made by the tokens up to it, by which of them were computed alone (`Kind`), and by the
adapter. Where all of these are equal so are the bits, wherever runs were cut. The index goes by blocks: the key of a
block stands for everything up to its end. It only hints, since rows change after they were noted: finds are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from runtime.sequence import Kind, Sequence

BLOCK = 16
"""Positions of a block of the index: less is not worth a copy."""
LOOKED_AT = 8
"""Rows looked at among those that share as many blocks, for one whose copy is quick."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first `length` positions of a row."""

    row: Sequence
    length: int


class PrefixCache:
    """The rows whose keys and values are in a slot or on the host, by what they begin with; and how often it helped."""

    def __init__(self) -> None:
        self.hits = 0
        """Rows that copied their beginning."""
        self.misses = 0
        """Rows longer than a block that were computed from their first position."""
        self.reused_tokens = 0
        """Positions copied instead of computed."""
        self._rows: dict[int, dict[Sequence, None]] = {}
        """By key of a block, the rows that have it; the latest last."""
        self._keys: dict[Sequence, list[int]] = {}

    def note(self, row: Sequence) -> None:
        """Puts down what of a row is computed."""
        adapter = row.computed_with
        keys = [] if adapter is None else list(_block_keys(row, row.computed, adapter))
        known = self._keys.get(row, [])
        if keys[: len(known)] != known:
            self.forget(row)
            known = []
        for key in keys[len(known) :]:
            self._rows.setdefault(key, {})[row] = None
        self._keys[row] = keys

    def forget(self, row: Sequence) -> None:
        """Of a row nothing is left."""
        for key in self._keys.pop(row, ()):
            del self._rows[key][row]
            if not self._rows[key]:
                del self._rows[key]

    def find(self, row: Sequence, adapter: str) -> Prefix | None:
        """The longest beginning of a row that another one has. The last run at the least is left to be computed.

        The row itself has nothing computed.
        """
        self.forget(row)
        while (holder := self._deepest(row, adapter)) is not None:
            length = shared(row, holder, holder.computed) if holder.computed_with == adapter else 0
            if length >= BLOCK:
                return Prefix(holder, length)
            known = self._keys[holder]
            self.note(holder)
            if self._keys[holder] == known:
                return None  # what is shared has to be cut to less than a block
        return None

    def record(self, length: int) -> None:
        """Counts a beginning that was copied."""
        self.hits += 1
        self.reused_tokens += length

    def _deepest(self, row: Sequence, adapter: str) -> Sequence | None:
        """A row that was noted with as many of this one's blocks as there is any with."""
        found: dict[Sequence, None] = {}
        for key in _block_keys(row, row.length, adapter):
            if not (holders := self._rows.get(key)):
                break
            found = holders
        latest = list(islice(reversed(found), LOOKED_AT))
        in_slots = [holder for holder in latest if holder.slot is not None]
        return next(iter(in_slots or latest), None)


class Beginnings:
    """Rows about to compute what they begin with, in order. A row that begins like one of them better waits for it."""

    def __init__(self) -> None:
        self._rows: dict[int, list[Sequence]] = {}

    def add(self, row: Sequence, adapter: str) -> None:
        """Adds a row that will run."""
        self._rows.setdefault(_first_key(row, adapter), []).append(row)

    def will_have_more(self, row: Sequence, adapter: str, length: int) -> bool:
        """Whether one of them is about to compute more of the row's beginning than `length`."""
        others = self._rows.get(_first_key(row, adapter), ())
        return any(max(length, other.computed) < shared(row, other, other.length) for other in others)


def shared(row: Sequence, other: Sequence, computed: int) -> int:
    """How many positions `row` can take over from the first `computed` of another one, with the same adapter."""
    end = min(row.length - 1, computed)
    differ = np.flatnonzero(_positions(row, 0, end) != _positions(other, 0, end))
    return row.cut_before(int(differ[0]) if len(differ) else end)


def _positions(row: Sequence, start: int, end: int) -> NDArray[np.int64]:
    """The tokens from `start` to before `end`, each with whether it is computed alone."""
    return row.tokens[start:end] * 2 + (row.kinds[start:end] <= Kind.SINGLE)


def _block_keys(row: Sequence, end: int, adapter: str) -> Iterator[int]:
    """A key for each full block within the first `end` positions; it stands for all before it, too."""
    key = hash(adapter)
    for start in range(0, end - BLOCK + 1, BLOCK):
        key = hash((key, _positions(row, start, start + BLOCK).tobytes()))
        yield key


def _first_key(row: Sequence, adapter: str) -> int:
    return next(_block_keys(row, row.length, adapter), 0)
