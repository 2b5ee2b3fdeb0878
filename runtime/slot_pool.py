"""Who has which slot of the cache. Sessions are many and slots are few: idle sessions are parked.

A parked row's keys and values go to host memory, exact, within a budget; beyond it only its tokens are kept and are
computed again, in their kinds, when the session is next used. Either way its tokens are what they would have been.
"""

from __future__ import annotations

from collections.abc import Iterable

from runtime.kv_cache import KVCache
from runtime.sequence import Sequence
from runtime.session import Session, SessionStatus

FAIR_RUNS = 64
"""Runs a session may keep its slots for while others wait."""
PARKABLE = (SessionStatus.IDLE, SessionStatus.HELD)


class SlotPool:
    """Gives slots to sessions, lowest first so that windows stay narrow, and takes them back."""

    def __init__(self, cache: KVCache, host_cache_bytes: int) -> None:
        self._cache = cache
        self._budget = host_cache_bytes
        self._free = sorted(range(cache.slots), reverse=True)
        self.saved_bytes = 0
        """Host memory that parked rows take."""
        self.parkings = 0
        """Times that a session's slots were taken."""

    @property
    def used(self) -> int:
        return self._cache.slots - len(self._free)

    def acquire(self, session: Session, sessions: Iterable[Session]) -> bool:
        """Gives every row of the session a slot, parking others if need be. False where that has to wait."""
        wanted = [row for row in session.rows if row.slot is None]
        if not wanted:
            return True
        if not self._make_room(session, len(wanted), list(sessions)):
            return False
        for row in wanted:
            row.slot = self._free.pop()
            self._fill(row)
        session.runs_in_slots = 0
        return True

    def park(self, session: Session) -> None:
        """Takes the session's slots."""
        self.parkings += 1
        for row in session.rows:
            if row.slot is None:
                continue
            row.keep_logits()
            self._save(row, row, row.slot, session)
            self._give_back(row)

    def release(self, session: Session) -> None:
        """Frees all the session has, for good."""
        for row in session.rows:
            if row.slot is not None:
                self._give_back(row)
            self.forget_saved(row)

    def forget_saved(self, row: Sequence) -> None:
        """Drops a row's host copy."""
        if row.saved is not None:
            self.saved_bytes -= row.saved.nbytes
            row.saved = None

    def fork(self, source: Session, target: Session) -> None:
        """Gives the rows of a fork what the original's have in the cache: a copied slot, or else a host copy."""
        spare = len(self._free) >= len(target.rows)
        for row, copy in zip(source.rows, target.rows, strict=True):
            if row.slot is None:
                copy.saved = row.saved
                self.saved_bytes += 0 if row.saved is None else row.saved.nbytes
            elif spare:
                copy.slot = self._free.pop()
                self._cache.copy(row.slot, copy.slot, row.computed)
            else:
                self._save(row, copy, row.slot, source)

    def _save(self, source: Sequence, target: Sequence, slot: int, session: Session) -> None:
        """Gives `target` a host copy of what `source` has in its slot, or lets it start over from its tokens."""
        size = source.computed * self._cache.bytes_per_token
        if source.computed and (self.saved_bytes + size <= self._budget or not session.exact_recompute):
            target.saved = self._cache.save(slot, source.computed)
            self.saved_bytes += target.saved.nbytes
        else:
            target.computed = 0

    def _make_room(self, session: Session, count: int, sessions: list[Session]) -> bool:
        def others(candidates: Iterable[Session]) -> list[Session]:
            return [
                other for other in candidates if other is not session and any(r.slot is not None for r in other.rows)
            ]

        idle = sorted(others(s for s in sessions if s.status in PARKABLE), key=lambda other: other.last_used)
        greedy = sorted(
            others(s for s in sessions if s.status is SessionStatus.RUNNING and s.runs_in_slots >= FAIR_RUNS),
            key=lambda other: -other.runs_in_slots,
        )
        victims = []
        room = len(self._free)
        for other in [*idle, *greedy]:
            if room >= count:
                break
            victims.append(other)
            room += sum(row.slot is not None for row in other.rows)
        if room < count:
            return False
        for other in victims:
            self.park(other)
        return True

    def _fill(self, row: Sequence) -> None:
        assert row.slot is not None
        self._cache.truncate(row.slot, 0)
        if row.saved is not None:
            self._cache.restore(row.slot, row.saved)
            self._cache.truncate(row.slot, row.computed)
            self.forget_saved(row)

    def _give_back(self, row: Sequence) -> None:
        assert row.slot is not None
        self._cache.truncate(row.slot, 0)
        self._free.append(row.slot)
        self._free.sort(reverse=True)
        row.slot = None
