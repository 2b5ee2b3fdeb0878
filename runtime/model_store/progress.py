"""How long steps tell how far they are, without knowing who shows it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called as a step advances; `total` is None where it is not known."""

    def __call__(self, description: str, completed: float, total: float | None) -> None: ...


def no_progress(description: str, completed: float, total: float | None) -> None:
    """For callers that show nothing."""
