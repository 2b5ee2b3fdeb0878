"""Spans of calls and of operations in them, as the rest of the service knows them. `service.otel` makes real ones.

Without tracing the spans are `NOTHING`: every method does nothing, and no package for it is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from runtime.engine import Engine
from runtime.operations import Operation
from service.config import ServerConfig


class Span(Protocol):
    """What a call, or an operation in it, is told about."""

    @property
    def trace_id(self) -> str:
        """In hexadecimal, for the log; empty where nothing is recorded."""

    def operation(self, name: str) -> Span:
        """A span of its own for an operation within this call."""

    def asked(self, operation: Operation, engine: Engine) -> None:
        """What is to be done. Called before it is."""

    def answered(self, result: Any) -> None:
        """What came of it: an operation's result (see runtime.operations)."""

    def end(self, code: str, message: str = "", reason: str = "") -> None:
        """It is over, with the name of a status code. Only the first call counts."""


class Tracing(Protocol):
    """Makes the spans of calls."""

    def call(self, method: str, metadata: Mapping[str, str]) -> Span:
        """The span of a call, below the one that its metadata names (W3C traceparent)."""

    def shutdown(self) -> None:
        """Sends what was not sent yet. Blocks, for some seconds at most."""


class _Nothing:
    """No tracing, and its spans."""

    trace_id = ""

    def call(self, method: str, metadata: Mapping[str, str]) -> Span:
        return self

    def shutdown(self) -> None:
        pass

    def operation(self, name: str) -> Span:
        return self

    def asked(self, operation: Operation, engine: Engine) -> None:
        pass

    def answered(self, result: Any) -> None:
        pass

    def end(self, code: str, message: str = "", reason: str = "") -> None:
        pass


NOTHING = _Nothing()

current_span: ContextVar[Span] = ContextVar("current_span", default=NOTHING)
"""The span of the call that this task serves."""


def open_tracing(config: ServerConfig, instance_id: str) -> Tracing:
    """What the configuration asks for."""
    if not config.tracing:
        return NOTHING
    from service.otel import OtelTracing, exporting_provider

    return OtelTracing(exporting_provider(instance_id))
