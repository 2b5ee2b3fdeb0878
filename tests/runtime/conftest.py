"""Models are loaded once per module; engines are cheap and made where their options matter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from driver import ALL_CACHES, LLAMA, load_model, running

from runtime import Engine, Model


@pytest.fixture(scope="module")
def llama() -> Model:
    """Shared buffers, 512 positions, 16 slots; 2 ends a row."""
    return load_model(LLAMA)


@pytest.fixture(scope="module", params=ALL_CACHES)
def any_model(request: pytest.FixtureRequest) -> Model:
    """One model for each way a graph keeps its keys and values."""
    return load_model(request.param)


@pytest.fixture(scope="module")
def engine(llama: Model) -> Iterator[Engine]:
    with running(llama) as started:
        yield started


@pytest.fixture(scope="module")
def any_engine(any_model: Model) -> Iterator[Engine]:
    with running(any_model) as started:
        yield started
