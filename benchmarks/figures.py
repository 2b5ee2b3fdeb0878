"""One measured figure, and how repeated measurements become one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

LIMIT = 20.0
"""Seconds after which no further round of one measurement begins."""
LEAST = 3
"""Rounds there are in any case, with the one that warms up."""

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Figure:
    """Ours, what it is held against, and ours divided by that. samples: how many measurements the medians are of."""

    name: str
    model: str
    unit: str
    ours: float
    against: str
    theirs: float
    ratio: float
    target: str = ""
    samples: int = 1


def of_rounds(
    name: str, model: str, unit: str, ours: Sequence[float], against: str, theirs: Sequence[float], target: str = ""
) -> Figure:
    """Medians of what was measured in turns; the ratio is the median of each round's own."""
    ratio = median(our / their for our, their in zip(ours, theirs, strict=True))
    return Figure(name, model, unit, median(ours), against, median(theirs), ratio, target, len(ours))


def of_samples(
    name: str, model: str, unit: str, ours: Sequence[float], against: str, theirs: Sequence[float], target: str = ""
) -> Figure:
    """Medians, and their ratio."""
    return Figure(
        name, model, unit, median(ours), against, median(theirs), median(ours) / median(theirs), target, len(ours)
    )


def in_turns(rounds: int, ours: Callable[[], A], theirs: Callable[[], B]) -> tuple[list[A], list[B]]:
    """Results of both, which take turns: what else the machine does meets both. A round before those warms up.

    On a machine too slow for LIMIT seconds there are fewer rounds.
    """
    pairs = [(ours(), theirs()) for _ in counted(rounds + 1)][1:]
    return [first for first, _ in pairs], [second for _, second in pairs]


def counted(count: int) -> Iterator[int]:
    """0 to count - 1; ends early after LIMIT seconds, yet not before LEAST."""
    end = time.monotonic() + LIMIT
    for number in range(count):
        if number >= LEAST and time.monotonic() > end:
            return
        yield number
