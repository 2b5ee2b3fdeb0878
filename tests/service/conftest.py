"""A real server per test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from serving import Served, serving


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as running:
        yield running
