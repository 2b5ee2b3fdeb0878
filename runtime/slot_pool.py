"""Who has which slot of the cache. Sessions are many and slots are few: idle sessions are parked.

A parked row's keys and values go to host memory, exact, within a budget; beyond it only its tokens are kept and are
computed again, in their kinds, when the session is next used. Either way its tokens are what they would have been.

Rows whose session ended are left in their slots until those are needed: others may begin like them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runtime.kv_cache import KVCache
from runtime.prefix_cache import BLOCK, Beginnings, Prefix, PrefixCache
from runtime.sequence import Sequence
from runtime.session import Session, SessionStatus

FAIR_RUNS = 64
"""Runs a session may keep its slots for while others wait."""
PARKABLE = (SessionStatus.IDLE, SessionStatus.HELD)


class SlotPool:
    """Gives slots to sessions, close to each other so that windows stay narrow, and takes them back."""

    def __init__(self, cache: KVCache, host_cache_bytes: int, reuse_prefixes: bool = True) -> None:
        self._cache = cache
        self._budget = host_cache_bytes
        self._reuses_prefixes = reuse_prefixes and not cache.model.extra_inputs
        self._free = set(range(cache.slots))
        self._left: dict[int, Sequence] = {}
        """Rows of ended sessions, by the free slot they are still in; the least recently used first."""
        self.prefixes = PrefixCache()
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
            self._place(row, session.adapter)
        session.runs_in_slots = 0
        return True

    def begin_rows(self, stale: Iterable[tuple[Session, Sequence]]) -> Iterator[tuple[Session, Sequence]]:
        """Copies to rows that have nothing computed what others have of their beginning.

        stale: rows that need a run. Gives them back, without those that begin like one before them: they wait until
        that one has computed what they share.
        """
        beginnings = Beginnings()
        for session, row in stale:
            if self._reuses_prefixes and row.length - row.computed > BLOCK:
                if not row.computed and not self._begin(row, session.adapter, beginnings):
                    continue
                beginnings.add(row, session.adapter)
            yield session, row

    def note_run(self, row: Sequence, start: int) -> None:
        """Makes known what was computed of a row, by a run from `start`."""
        self._note(row)
        self.prefixes.misses += self._reuses_prefixes and start == 0 and row.length > BLOCK

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
            if row.slot is not None and self._is_worth_leaving(row):
                self._leave(row, row.slot)
                continue
            if row.slot is not None:
                self._give_back(row)
            self.prefixes.forget(row)
            self._forget_saved(row)

    def forget_adapter(self, adapter: str) -> None:
        """Drops what was computed with an adapter that no session uses any more."""
        for slot in [slot for slot, row in self._left.items() if row.computed_with == adapter]:
            self._evict(slot)
            self._cache.truncate(slot, 0)

    def fork(self, source: Session, target: Session) -> None:
        """Gives the rows of a fork what the original's have in the cache: a copied slot, or else a host copy."""
        spare = len(self._free) >= len(target.rows)
        for row, copy in zip(source.rows, target.rows, strict=True):
            if row.slot is None:
                copy.saved = row.saved
                self.saved_bytes += 0 if row.saved is None else row.saved.nbytes
            elif spare:
                copy.slot = self._choose_slot()
                self._take(copy.slot)
                self._cache.copy(row.slot, copy.slot, row.computed)
            else:
                self._save(row, copy, row.slot, source)
            self._note(copy)

    def _save(self, source: Sequence, target: Sequence, slot: int, session: Session) -> None:
        """Gives `target` a host copy of what `source` has in its slot, or lets it start over from its tokens."""
        size = source.computed * self._cache.bytes_per_token
        if source.computed and (self.saved_bytes + size <= self._budget or not session.exact_recompute):
            target.saved = self._cache.save(slot, source.computed)
            self.saved_bytes += target.saved.nbytes
        else:
            target.computed = 0
            self.prefixes.forget(target)

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

    # --- beginnings --------------------------------------------------------------------------------------------------

    def _begin(self, row: Sequence, adapter: str, beginnings: Beginnings) -> bool:
        """Copies the beginning that another row has. False where it is better to wait for more of it."""
        prefix = self.prefixes.find(row, adapter)
        if beginnings.will_have_more(row, adapter, 0 if prefix is None else prefix.length):
            return False
        if prefix is not None:
            self._copy(prefix, row)
            self._took(row, prefix, adapter)
        return True

    def _copy(self, prefix: Prefix, row: Sequence) -> None:
        source = prefix.row
        assert row.slot is not None
        if source.slot is not None:
            self._use(source)
            self._cache.copy(source.slot, row.slot, prefix.length)
        else:
            assert source.saved is not None
            self._cache.restore(row.slot, source.saved, prefix.length)

    def _note(self, row: Sequence) -> None:
        if self._reuses_prefixes:
            self.prefixes.note(row)

    def _took(self, row: Sequence, prefix: Prefix, adapter: str) -> None:
        row.take_prefix(prefix.length, adapter)
        self.prefixes.note(row)
        self.prefixes.record(prefix.length)

    def _use(self, row: Sequence) -> None:
        """Makes a row that was left the last to be evicted."""
        if row.slot is not None and self._left.get(row.slot) is row:
            self._left[row.slot] = self._left.pop(row.slot)

    # --- slots -------------------------------------------------------------------------------------------------------

    def _place(self, row: Sequence, adapter: str) -> None:
        """Gives a row a slot, with what it had in its last one; or else what is left in this one of its beginning."""
        prefix = None
        if self._reuses_prefixes and not row.computed:
            prefix = self.prefixes.find(row, adapter)
        slot = self._choose_slot(prefix)
        left = prefix if prefix is not None and prefix.row.slot == slot else None
        self._take(slot, 0 if left is None else left.length)
        row.slot = slot
        if left is not None:
            self._took(row, left, adapter)
        elif row.saved is not None and row.computed:
            self._cache.restore(slot, row.saved, row.computed)
        self._forget_saved(row)

    def _choose_slot(self, prefix: Prefix | None = None) -> int:
        """A free slot between or beside those in use: one that was left and holds the prefix, where not much else would
        be lost; an empty one; or the one whose row was used longest ago."""
        slots = self._close_slots()
        if prefix is not None:
            self._use(prefix.row)
            if prefix.row.slot in slots and 2 * prefix.length >= prefix.row.computed:
                return prefix.row.slot
        empty = slots - self._left.keys()
        return min(empty) if empty else next(slot for slot in self._left if slot in slots)

    def _take(self, slot: int, length: int = 0) -> None:
        """Makes a free slot a used one that holds the first `length` positions of what was left in it."""
        self._free.remove(slot)
        if slot in self._left:
            self._evict(slot)
        self._cache.truncate(slot, length)

    def _close_slots(self) -> set[int]:
        """The free slots to choose from."""
        used = set(range(self._cache.slots)) - self._free
        if not used:
            return self._free
        inside = self._free & set(range(min(used), max(used)))
        return inside or self._free & {min(used) - 1, max(used) + 1}

    def _is_worth_leaving(self, row: Sequence) -> bool:
        return self._reuses_prefixes and row.computed > BLOCK and row.computed_with is not None

    def _leave(self, row: Sequence, slot: int) -> None:
        """Frees a slot and leaves the row in it."""
        self._cache.truncate(slot, row.computed)
        row.logits = row.text = None
        self._left[slot] = row
        self._free.add(slot)

    def _evict(self, slot: int) -> None:
        """Ends what was left in a free slot."""
        row = self._left.pop(slot)
        row.slot = None
        self.prefixes.forget(row)

    def _give_back(self, row: Sequence) -> None:
        assert row.slot is not None
        self._cache.truncate(row.slot, 0)
        self._free.add(row.slot)
        row.slot = None

    def _forget_saved(self, row: Sequence) -> None:
        """Drops a row's host copy."""
        if row.saved is not None:
            self.saved_bytes -= row.saved.nbytes
            row.saved = None
