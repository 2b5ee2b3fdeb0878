"""The sessions of an engine: made, found, ended; those that idled out are remembered for a while."""

from __future__ import annotations

import re
import secrets
import time
from collections import OrderedDict
from dataclasses import replace

from runtime.errors import AlreadyExists, InvalidArgument, NotFound, ResourceExhausted
from runtime.generation_config import resolve
from runtime.model import Model
from runtime.operations import Create, Fork
from runtime.session import Session

REMEMBERED = 10_000
"""Expired sessions that are told apart from ones that never were, and creations kept for retries."""
SESSION_ID = re.compile(r"[a-z0-9-]{1,63}")


class SessionTable:
    """Sessions by id. Touched by the engine's thread, or under its lock."""

    def __init__(self, model: Model, max_sessions: int) -> None:
        self._model = model
        self._max_sessions = max_sessions
        self._sessions: dict[str, Session] = {}
        self._expired: OrderedDict[str, None] = OrderedDict()
        self._created: OrderedDict[str, str] = OrderedDict()
        self.created = 0
        """Sessions made since start."""

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._sessions

    def __len__(self) -> int:
        return len(self._sessions)

    def all(self) -> list[Session]:
        return list(self._sessions.values())

    def is_expired(self, session_id: str) -> bool:
        return session_id in self._expired

    def get(self, session_id: str) -> Session | None:
        return self._sessions.get(session_id)

    def find(self, session_id: str) -> Session:
        """Raises NotFound, with reason SESSION_EXPIRED for one that idled out."""
        session = self._sessions.get(session_id)
        if session is None:
            expired = session_id in self._expired
            raise NotFound(
                "session",
                session_id,
                reason="SESSION_EXPIRED" if expired else "SESSION_NOT_FOUND",
                message=f"session {session_id!r} {'was idle too long and is closed' if expired else 'does not exist'}",
            )
        return session

    def created_by(self, request_id: str) -> Session | None:
        """The session an earlier creation with this request id made."""
        return self._sessions.get(self._created.get(request_id, ""))

    def create(self, operation: Create) -> Session:
        """A new session. Raises InvalidArgument, AlreadyExists, ResourceExhausted, NotFound (adapter)."""
        session_id = self._new_id(operation.session_id)
        if not 1 <= operation.batch_size <= self._model.slots:
            raise InvalidArgument("batch_size", operation.batch_size, f"an integer in [1, {self._model.slots}] (slots)")
        if not operation.idle_timeout > 0:
            raise InvalidArgument("idle_timeout", operation.idle_timeout, "more than 0 seconds")
        config = operation.config.merged_over(self._model.default_config)
        parameters = resolve(config, vocab_size=self._model.vocab_size, max_length=self._model.max_length)
        if parameters.stop_strings and self._model.tokenizer is None:
            raise InvalidArgument("stop_strings", parameters.stop_strings, "none: the model has no tokenizer")
        if operation.adapter:
            self._model.adapters.parameters(operation.adapter)
        session = Session(session_id, self._model.name, parameters, operation.batch_size, operation.idle_timeout)
        session.adapter = operation.adapter
        self._add(session, operation.request_id)
        return session

    def fork(self, source: Session, operation: Fork) -> Session:
        """A new session like `source`, without its place in the cache. Raises as `create`."""
        session_id = self._new_id(operation.new_session_id)
        config = operation.config
        if operation.seed is not None:
            config = replace(config, seed=operation.seed)
        parameters = resolve(
            config.merged_over(source.parameters.as_config()),
            vocab_size=self._model.vocab_size,
            max_length=self._model.max_length,
        )
        if source.length > parameters.max_length:
            raise InvalidArgument(
                "generation_config.max_length", parameters.max_length, f"at least the length {source.length}"
            )
        idle_timeout = source.idle_timeout if operation.idle_timeout is None else operation.idle_timeout
        session = source.fork(session_id, parameters, idle_timeout)
        self._add(session, "")
        return session

    def remove(self, session: Session, *, expired: bool = False) -> None:
        """Forgets a session. Remembers that it was there, if it idled out."""
        del self._sessions[session.session_id]
        if expired:
            self._expired[session.session_id] = None
            if len(self._expired) > REMEMBERED:
                self._expired.popitem(last=False)

    def _new_id(self, proposed: str) -> str:
        if proposed in self._sessions:
            raise AlreadyExists("session", proposed)
        if len(self._sessions) >= self._max_sessions:
            raise ResourceExhausted(
                "SESSION_LIMIT",
                f"{self._max_sessions} sessions are open, the most there may be",
                limit=self._max_sessions,
            )
        if not proposed:
            return secrets.token_hex(12)
        if not SESSION_ID.fullmatch(proposed):
            raise InvalidArgument("session_id", proposed, "1 to 63 of a-z, 0-9 and '-'")
        return proposed

    def _add(self, session: Session, request_id: str) -> None:
        session.last_used = time.time()
        self.created += 1
        self._sessions[session.session_id] = session
        self._expired.pop(session.session_id, None)
        if request_id:
            self._created[request_id] = session.session_id
            if len(self._created) > REMEMBERED:
                self._created.popitem(last=False)
