"""The session that a request is about, as parsing and rendering need it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from runtime.engine import Engine
from runtime.operations import SessionSnapshot
from service.convert.state import from_snapshot
from service.state import ServerState
from tokenloom.v1 import generator_pb2 as pb

REPLY_OVERHEAD_BYTES = 64 * 1024
"""Room in a reply for everything beside a tensor."""


@dataclass
class Target:
    """The session a request is about. `streamed`: steps are told one by one, in a Converse stream."""

    server: ServerState
    engine: Engine
    session_id: str
    streamed: bool = False

    @cached_property
    def rows(self) -> int:
        """Number of its rows, which never changes."""
        return self.engine.rows_of(self.session_id)

    @property
    def vocab_size(self) -> int:
        return self.engine.model.vocab_size

    @property
    def reply_limit(self) -> int:
        """Most bytes of a tensor in a reply."""
        return self.server.config.max_message_bytes - REPLY_OVERHEAD_BYTES

    def state(self, snapshot: SessionSnapshot) -> pb.SessionState:
        """The state that rides in a reply."""
        return from_snapshot(snapshot, snapshot.session_id in self.server.attachments)
