"""What the next iteration of the engine runs: a pure decision over the runs that rows need.

All rows that need a single position decode together, grouped by adapter; rows with appended runs are prefilled one at
a time, in chunks, within a token budget per iteration. So a long prompt never holds others up for longer than a chunk.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum


class Policy(Enum):
    """What goes first. FIFO: decode steps in every iteration, prefills in order of arrival beside them.
    PREFILL_FIRST: new prompts are computed before others go on, for at most `MAX_PREFILL_ITERATIONS` in a row."""

    FIFO = "fifo"
    PREFILL_FIRST = "prefill-first"


MAX_PREFILL_ITERATIONS = 4


@dataclass(frozen=True, slots=True)
class RowNeed:
    """The next run of one row: `count` positions from `start`. `alone`: cannot share a run (inputs of its own)."""

    key: int
    adapter: str
    start: int
    count: int
    alone: bool = False


@dataclass(slots=True)
class Plan:
    """decodes: batches of rows with one position each. prefills: rows to run one after another."""

    decodes: list[list[RowNeed]] = field(default_factory=list)
    prefills: list[RowNeed] = field(default_factory=list)


def plan(needs: Sequence[RowNeed], policy: Policy, budget: int, prefill_streak: int) -> Plan:
    """needs: in order of arrival. budget: positions of prefill per iteration; the first is taken whatever its size.

    prefill_streak: iterations in a row that were prefill only.
    """
    result = Plan()
    prefills = [need for need in needs if need.count > 1 or need.alone]
    hold_decodes = policy is Policy.PREFILL_FIRST and prefills and prefill_streak < MAX_PREFILL_ITERATIONS
    if not hold_decodes:
        by_adapter: defaultdict[str, list[RowNeed]] = defaultdict(list)
        for need in needs:
            if need.count == 1 and not need.alone:
                by_adapter[need.adapter].append(need)
        result.decodes = list(by_adapter.values())
    spent = 0
    for need in prefills:
        if result.prefills and spent + need.count > budget:
            break
        result.prefills.append(need)
        spent += need.count
    return result
