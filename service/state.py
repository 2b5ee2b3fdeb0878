"""What every part of the service shares: the models, the limits, the sessions streams hold, whether it is draining."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from runtime.errors import FailedPrecondition, Unavailable
from runtime.registry import ModelRegistry
from service.config import ServerConfig
from service.metrics import Metrics


class Attachments:
    """The sessions that Converse streams hold: at most one stream each. Used in the event loop only."""

    def __init__(self) -> None:
        self._sessions: dict[str, Callable[[str], None]] = {}

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._sessions

    def attach(self, session_id: str, on_end: Callable[[str], None]) -> None:
        """Raises FailedPrecondition where another stream holds the session.

        on_end: told the reason when the session ends, SESSION_CLOSED or SESSION_EXPIRED.
        """
        if session_id in self._sessions:
            raise FailedPrecondition(
                "SESSION_ATTACHED", f"another stream is attached to session {session_id!r}", session=session_id
            )
        self._sessions[session_id] = on_end

    def detach(self, session_id: str) -> None:
        """Lets other streams attach."""
        self._sessions.pop(session_id, None)

    def session_ended(self, session_id: str, reason: str) -> None:
        """Tells the stream that holds the session, if one does."""
        if on_end := self._sessions.get(session_id):
            on_end(reason)


class Drain:
    """Whether the server is on its way out, and whom to tell. Used in the event loop only."""

    def __init__(self) -> None:
        self.started = False
        self.listeners: set[Callable[[], None]] = set()

    def start(self) -> None:
        """Tells every listener, once."""
        self.started = True
        for listener in tuple(self.listeners):
            listener()


@dataclass(frozen=True, slots=True)
class ServerState:
    """Made by the server, given to each servicer."""

    config: ServerConfig
    registry: ModelRegistry
    attachments: Attachments
    metrics: Metrics
    instance_id: str
    drain: Drain = field(default_factory=Drain)

    def check_accepting(self) -> None:
        """Raises Unavailable while draining: nothing new is begun."""
        if self.drain.started:
            raise Unavailable("DRAINING", "the server is going away; sessions end with it")
