"""Two servers, and Envoy before them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from stack import Replica, envoy


@pytest.fixture(scope="module")
def replicas() -> Iterator[list[Replica]]:
    with ThreadPoolExecutor(2) as pool:
        running = [starting.result() for starting in [pool.submit(Replica) for _ in range(2)]]
    yield running
    for replica in running:
        replica.close()


@pytest.fixture(scope="module")
def proxy(replicas: list[Replica], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Envoy's address."""
    with envoy(replicas, tmp_path_factory.mktemp("envoy")) as target:
        yield target
