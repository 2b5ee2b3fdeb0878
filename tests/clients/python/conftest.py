"""Clients of the running server: each test that asks for one runs with the synchronous and with the asyncio client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from blocking import Blocking, Loop

import tokenloom

Connect = Callable[..., Any]


@pytest.fixture(params=["sync", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients of one kind; takes what Client takes."""
    with ExitStack() as clients:
        if request.param == "sync":
            yield lambda *given, **named: clients.enter_context(tokenloom.Client(*given, **named))
            return
        loop = Loop()
        clients.callback(loop.stop)
        yield lambda *given, **named: clients.enter_context(
            Blocking(loop, loop.run(lambda: tokenloom.aio.Client(*given, **named)))
        )


@pytest.fixture
def client(connect: Connect, server: Any) -> Any:
    return connect(server.target)


@pytest.fixture
def session(client: Any) -> Iterator[Any]:
    """A session of one row that has a prompt of five tokens."""
    with client.create_session("def main(", model="tiny") as opened:
        yield opened
