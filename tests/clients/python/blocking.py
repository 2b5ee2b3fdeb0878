"""The asyncio client as if it were the synchronous one, so that one set of tests is for both."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, function: Callable[[], Any]) -> Any:
        """Call a function in the loop; wait for what it gives."""

        async def call() -> Any:
            result = function()
            is_reply = type(result).__module__.startswith("tokenloom.")  # May be awaited, or kept for later.
            return await result if inspect.isawaitable(result) and not is_reply else result

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(60)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Blocking:
    """An object of the asyncio client. Methods wait; `for` and `with` are the asynchronous ones."""

    def __init__(self, loop: Loop, wrapped: Any) -> None:
        self._loop = loop
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        if name == "close" and hasattr(self._wrapped, "aclose"):
            name = "aclose"
        value = getattr(self._wrapped, name)
        if not callable(value):
            return value
        return lambda *arguments, **named: self._wrap(self._loop.run(lambda: value(*arguments, **named)))

    def __enter__(self) -> Any:
        return self._wrap(self._loop.run(self._wrapped.__aenter__))

    def __exit__(self, *error: Any) -> None:
        self._loop.run(lambda: self._wrapped.__aexit__(*error))

    def __iter__(self) -> Iterator[Any]:
        iterator = self._wrapped.__aiter__()
        while True:
            try:
                yield self._loop.run(lambda: _next(iterator))
            except StopAsyncIteration:
                return

    def _wrap(self, value: Any) -> Any:
        is_ours = type(value).__module__.startswith("tokenloom.aio")
        return Blocking(self._loop, value) if is_ours or hasattr(value, "__anext__") else value


async def _next(iterator: Any) -> Any:
    return await iterator.__anext__()
