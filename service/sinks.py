"""Where the messages of an operation arrive in the event loop, and how far it may run ahead of its reader.

The engine's `deliver` is `deliver_in(loop)`: one wake-up of the loop for everything one iteration of the engine made.
Sinks are therefore called in the loop and need no locks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from runtime.errors import TokenloomError
from runtime.operations import Close, Operation, SelectedLogits, StepResult

if TYPE_CHECKING:
    from runtime.commands import Delivery
    from runtime.engine import Engine

log = logging.getLogger(__name__)

WINDOW = 64
"""Steps an operation may be ahead of what was written to its reader."""
STRIDE = WINDOW // 4
"""Written steps are told to the engine this many at a time, each telling being a message to its thread."""


def deliver_in(loop: asyncio.AbstractEventLoop) -> Callable[[list[Delivery]], None]:
    """The engine's `deliver` for sinks that live in `loop`."""

    def deliver(deliveries: list[Delivery]) -> None:
        loop.call_soon_threadsafe(_send_all, deliveries)

    return deliver


def _send_all(deliveries: list[Delivery]) -> None:
    for delivery in deliveries:
        try:
            delivery.send()
        except Exception:
            log.exception("a sink failed")  # the other sinks must still be served


class ReplySink:
    """For operations with one answer. Steps are not told: the result has them all.

    on_abandoned: called with a result that nobody waits for any more.
    """

    def __init__(self, on_abandoned: Callable[[Any], None] | None = None) -> None:
        self._future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._on_abandoned = on_abandoned

    def on_step(self, step: StepResult) -> None:
        pass

    def on_hook(self, logits: SelectedLogits) -> None:
        raise AssertionError("hooks need a stream")

    def on_result(self, result: Any) -> None:
        if not self._future.done():
            self._future.set_result(result)
        elif self._on_abandoned is not None:
            self._on_abandoned(result)

    def on_error(self, error: TokenloomError) -> None:
        if not self._future.done():
            self._future.set_exception(error)

    async def reply(self) -> Any:
        """The result."""
        return await self._future


class StreamSink:
    """For operations that are told step by step: keeps messages until they are taken; `wake` is called for each.

    Messages are StepResult, SelectedLogits (a hook call), an exception or a result; the last two are final.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.messages: deque[Any] = deque()
        self.is_final = False
        self._wake = wake

    def on_step(self, step: StepResult) -> None:
        self.messages.append(step)
        self._wake()

    def on_hook(self, logits: SelectedLogits) -> None:
        self.messages.append(logits)
        self._wake()

    def on_result(self, result: Any) -> None:
        self.is_final = True
        self.messages.append(result)
        self._wake()

    def on_error(self, error: Exception) -> None:
        self.on_result(error)


class _IgnoringSink:
    """For operations nobody waits for."""

    def on_step(self, step: StepResult) -> None:
        pass

    def on_hook(self, logits: SelectedLogits) -> None:
        pass

    def on_result(self, result: Any) -> None:
        pass

    def on_error(self, error: TokenloomError) -> None:
        pass


def close(engine: Engine, session_id: str) -> None:
    """Ends a session without waiting; one that is gone already is as good."""
    engine.submit(Close(session_id=session_id, sink=_IgnoringSink()))


def creation_sink(engine: Engine, request_id: str) -> ReplySink:
    """For what makes a session: if the caller goes away before it knows the new session, the session ends.

    Not where a request id lets the caller ask again.
    """
    if request_id:
        return ReplySink()
    return ReplySink(on_abandoned=lambda created: close(engine, created.snapshot.session_id))


class Window:
    """How many steps an operation may make: as many as its reader allowed, and at most WINDOW more than were written.

    granted: the steps the reader allows in all; None for any number. Calls Engine.acknowledge as they become more.
    """

    def __init__(self, granted: int | None = None) -> None:
        self._granted = granted
        self._written = 0
        self._allowed = self.size = self._limit()
        """What `Generate.window` has to be."""

    @property
    def exhausted(self) -> bool:
        """Whether all the reader allowed was written."""
        return self._written == self._granted

    def written(self, engine: Engine, operation: Operation) -> None:
        """A step was written to the reader."""
        self._written += 1
        self._extend(engine, operation)

    def grant(self, steps: int, engine: Engine, operation: Operation) -> None:
        """The reader allows more steps."""
        if self._granted is not None:
            self._granted += steps
            self._extend(engine, operation)

    def _limit(self) -> int:
        ahead = self._written + WINDOW
        return ahead if self._granted is None else min(ahead, self._granted)

    def _extend(self, engine: Engine, operation: Operation) -> None:
        limit = self._limit()
        more = limit - self._allowed
        if more >= STRIDE or (more and limit == self._granted):
            self._allowed = limit
            engine.acknowledge(operation, more)


async def answer(engine: Engine, operation: Operation, sink: ReplySink) -> Any:
    """Submits an operation and waits for its result; a caller that goes away cancels it."""
    engine.submit(operation, at_once=True)
    try:
        return await sink.reply()
    except asyncio.CancelledError:
        engine.cancel(operation)
        raise
