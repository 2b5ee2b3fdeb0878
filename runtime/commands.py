"""What other threads post to the engine, and what it hands back to be delivered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runtime.errors import TokenloomError
from runtime.operations import Operation, SelectedLogits, Sink, StepResult
from runtime.session import HookAnswer


@dataclass(frozen=True, slots=True)
class Submit:
    """Queue an operation."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class Cancel:
    """End an operation at the next token boundary, or take it from its queue."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Give a generate operation further credits."""

    operation: Operation
    events: int


@dataclass(frozen=True, slots=True)
class AnswerHook:
    """Answer a generate operation's hook."""

    operation: Operation
    answer: HookAnswer


Command = Submit | Cancel | Acknowledge | AnswerHook


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message on its way to a sink."""

    receive: Callable[[Any], None]
    message: Any

    def send(self) -> None:
        self.receive(self.message)


class OutboxSink:
    """Collects an operation's messages, so that all of an iteration are delivered at once."""

    def __init__(self, sink: Sink, outbox: list[Delivery]) -> None:
        self._sink = sink
        self.outbox = outbox

    def on_step(self, step: StepResult) -> None:
        self.outbox.append(Delivery(self._sink.on_step, step))

    def on_hook(self, logits: SelectedLogits) -> None:
        self.outbox.append(Delivery(self._sink.on_hook, logits))

    def on_result(self, result: Any) -> None:
        self.outbox.append(Delivery(self._sink.on_result, result))

    def on_error(self, error: TokenloomError) -> None:
        self.outbox.append(Delivery(self._sink.on_error, error))


def deliver_now(deliveries: list[Delivery]) -> None:
    """Sends in the engine's own thread: for callers that wait on futures."""
    for delivery in deliveries:
        delivery.send()
