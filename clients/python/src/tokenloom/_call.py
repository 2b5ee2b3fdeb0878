"""What a call is, and how functions that build calls become methods. The same functions serve the synchronous and the
asyncio client and both kinds of conversation, so that requests, replies and documentation are written once."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar, cast
from uuid import uuid4

from google.protobuf.message import Message

P = ParamSpec("P")
T = TypeVar("T")
B = TypeVar("B")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request and what to make of its reply. The type of the request says which method is called."""

    request: Message
    decode: Callable[[Any], T]
    wait_for_ready: bool = False


Script: TypeAlias = Generator[Call[Any], Any, T]
"""Several calls in a row: yields calls, is sent their results, returns its own."""


def new_request_id() -> str:
    """An id under which the server does an operation once only, however often it is sent."""
    return uuid4().hex


def method(build: Callable[P, B], run: Callable[[Any, B], R]) -> Callable[Concatenate[Any, P], R]:
    """The method that runs what `build` makes of the arguments. It has the signature and documentation of `build`."""

    def run_built(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return run(self, build(*args, **kwargs))

    run_built.__name__ = build.__name__
    run_built.__doc__ = build.__doc__
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [this, *inspect.signature(build).parameters.values()]
    vars(run_built)["__signature__"] = inspect.Signature(parameters)
    return run_built


def play(script: Script[T], run: Callable[[Call[Any]], Any]) -> T:
    """Run the calls of a script, one after the other."""
    result: Any = None
    while True:
        try:
            call = script.send(result)
        except StopIteration as end:
            return cast(T, end.value)
        result = run(call)


async def play_async(script: Script[T], run: Callable[[Call[Any]], Awaitable[Any]]) -> T:
    """Run the calls of a script, one after the other."""
    result: Any = None
    while True:
        try:
            call = script.send(result)
        except StopIteration as end:
            return cast(T, end.value)
        result = await run(call)
