"""One sequence (row): its tokens, how each position is to be computed, and what of it is computed.

Keys and values at a position depend on how they were computed: in a run of one token, or in a run of two or more
(longer runs may be cut almost anywhere, see `piece_of_run`). So every position carries its kind, a pure function of
the appends, steps and rewinds made; `next_run` follows it, whatever the reason a run is needed for.
Knows nothing of slots being given and taken, nor of the model.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from runtime.kv_cache import SavedRow
from runtime.operations import FinishReason, FloatArray, RowSnapshot, TokenArray
from runtime.text import RowText

ATTENTION_BLOCK = 16
"""Positions. Divides the blocks in which attention kernels take a run: ONNX Runtime's are twice the head size."""


class Kind(IntEnum):
    """How a position came to be, and with it how it is computed."""

    GENERATED = 0
    """Sampled: computed in a run of its own."""
    SINGLE = 1
    """Appended alone: computed in a run of its own."""
    RUN_START = 2
    """First of an appended run: computed with its neighbour, at the least."""
    RUN = 3
    """Further token of an appended run."""


class Sequence:
    """A row. `computed` positions are in the cache; `logits` are those for the next token, or None where stale."""

    def __init__(self, row: int, seed: int) -> None:
        self.row = row
        self.seed = seed
        self.computed = 0
        self.reached = 0
        """Positions that were ever computed: runs below it only bring back what parking lost."""
        self.computed_with: str | None = ""
        """Adapter all computed positions were computed with; None where other ones, or other inputs, were mixed in."""
        self.new_tokens = 0
        """Tokens generated since the last append: those at the end of the row."""
        self.logits: FloatArray | None = None
        self.finish_reason = FinishReason.NONE
        self.stop_string = ""
        self.text: RowText | None = None
        """Text of the tokens generated since the last append; made when first needed."""
        self.slot: int | None = None
        self.saved: SavedRow | None = None
        self.last_run: TokenArray = np.zeros(0, np.int64)
        self._tokens = np.zeros(64, np.int64)
        self._kinds = np.zeros(64, np.uint8)
        self._length = 0

    # --- facts -------------------------------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        return self._length

    @property
    def tokens(self) -> TokenArray:
        """All tokens, a view."""
        return self._tokens[: self._length]

    @property
    def kinds(self) -> NDArray[np.uint8]:
        """Kind of each position, a view."""
        return self._kinds[: self._length]

    @property
    def is_done(self) -> bool:
        return self.finish_reason is not FinishReason.NONE

    @property
    def is_fresh(self) -> bool:
        """Whether the logits for the next token are there."""
        return self.logits is not None

    def snapshot(self) -> RowSnapshot:
        return RowSnapshot(self._length, self.new_tokens, self.finish_reason, self.stop_string)

    # --- changes -----------------------------------------------------------------------------------------------------

    def append(self, tokens: TokenArray) -> None:
        """Adds a run of tokens from outside."""
        kinds = np.full(len(tokens), Kind.RUN, np.uint8)
        kinds[0] = Kind.SINGLE if len(tokens) == 1 else Kind.RUN_START
        self._extend(tokens, kinds)
        self.new_tokens = 0
        self.text = None
        self._reopen()

    def add_generated(self, token: int) -> None:
        """Adds a sampled token."""
        self._extend(np.array([token], np.int64), np.array([Kind.GENERATED], np.uint8))
        self.new_tokens += 1

    def rewind(self, length: int) -> None:
        """Cuts back to `length`, as if what came later had never been."""
        if length < self._length:
            self._length = length
            self.computed = min(self.computed, length)
            self.reached = min(self.reached, length)
            if length and self.kinds[-1] == Kind.RUN_START:
                # The cut leaves a run of one token: that is what appending it alone would have been.
                self._kinds[length - 1] = Kind.SINGLE
                self.computed = min(self.computed, length - 1)
            appended = np.flatnonzero(self.kinds[::-1] != Kind.GENERATED)
            self.new_tokens = int(appended[0]) if len(appended) else length
            self.logits = None
            self.text = None
        self._reopen()

    def finish(self, reason: FinishReason, stop_string: str = "") -> None:
        self.finish_reason = reason
        self.stop_string = stop_string

    def forget_computed(self) -> None:
        """Everything has to be computed again, for another adapter."""
        self.computed = 0
        self.logits = None

    def forget_logits(self) -> None:
        """The last position has to be computed again, for other logits: whether it was computed yet does not matter."""
        if self._length:
            self.computed = min(self.computed, self.replay_run()[0])
        self.computed_with = None
        self.logits = None

    def fork(self) -> Sequence:
        """A copy that shares nothing that can change."""
        other = Sequence(self.row, self.seed)
        other._tokens, other._kinds, other._length = self._tokens.copy(), self._kinds.copy(), self._length
        other.computed, other.reached, other.new_tokens = self.computed, self.reached, self.new_tokens
        other.computed_with = self.computed_with
        other.logits = None if self.logits is None else self.logits.copy()
        other.finish_reason, other.stop_string = self.finish_reason, self.stop_string
        other.text = None if self.text is None else self.text.copy()
        return other

    def keep_logits(self) -> None:
        """Makes the logits the row's own, before the cache's next run writes over them."""
        if self.logits is not None and self.logits.base is not None:
            self.logits = self.logits.copy()

    # --- what to run -------------------------------------------------------------------------------------------------

    def next_run(self, chunk: int) -> tuple[int, int]:
        """(start, count) of the next run on the way to fresh logits: one position, or 2 to `chunk` of a run.

        Where everything is computed but the logits are gone, the last positions are computed again, in their kind.
        """
        if self.computed == self._length:
            return self.replay_run()
        start = self.computed
        if self._is_alone(start):
            return start, 1
        end = self._run_end(start)
        if end - start == 1:
            start -= 1
        return start, piece_of_run(end - start, chunk)

    def replay_run(self) -> tuple[int, int]:
        """(start, count) of the run that computes the last position again, as it was computed before."""
        count = 1 if self._is_alone(self._length - 1) else 2
        return self._length - count, count

    def cut_before(self, end: int) -> int:
        """The last place up to `end`, before the last position, where computing may go on from.

        Inside an appended run that is where the run itself may be cut: both parts have two positions or more.
        """
        if self._kinds[end] == Kind.RUN and self._run_end(end) - end == 1:
            end -= 1
        if self._kinds[end] == Kind.RUN and self._kinds[end - 1] == Kind.RUN_START:
            end -= 1
        return end

    def take_prefix(self, length: int, adapter: str) -> None:
        """Notes that the first positions were copied from a row that had computed them."""
        self.computed, self.computed_with = length, adapter
        self.reached = max(self.reached, length)

    def record_run(self, start: int, count: int, logits: FloatArray, adapter: str = "") -> None:
        """Notes that positions [start, start + count) were computed."""
        if start == 0:
            self.computed_with = adapter
        self.computed = start + count
        self.reached = max(self.reached, self.computed)
        self.last_run = self._tokens[start : start + count].copy()
        self.logits = logits if self.computed == self._length else None

    # --- private -----------------------------------------------------------------------------------------------------

    def _is_alone(self, position: int) -> bool:
        return bool(self._kinds[position] <= Kind.SINGLE)

    def _run_end(self, start: int) -> int:
        alone = np.flatnonzero(self.kinds[start:] <= Kind.SINGLE)
        return start + int(alone[0]) if len(alone) else self._length

    def _reopen(self) -> None:
        self.finish_reason = FinishReason.NONE
        self.stop_string = ""

    def _extend(self, tokens: TokenArray, kinds: NDArray[np.uint8]) -> None:
        end = self._length + len(tokens)
        if end > len(self._tokens):
            capacity = max(end, 2 * len(self._tokens))
            self._tokens = np.resize(self._tokens, capacity)
            self._kinds = np.resize(self._kinds, capacity)
        self._tokens[self._length : end] = tokens
        self._kinds[self._length : end] = kinds
        self._length = end
        self.logits = None


def piece_of_run(remaining: int, chunk: int) -> int:
    """Positions of the next run out of `remaining` (2 or more) of an appended run: at most `chunk` (2 or more), or 3.

    A position computed on its own gets other bits than one computed beside others. That holds for a run of one, and as
    well for the last of a run that leaves a kernel's last block with one position; so no piece does either.
    """
    for count in range(min(remaining, chunk), 1, -1):
        if count % ATTENTION_BLOCK != 1 and remaining - count != 1:
            return count
    return 3
