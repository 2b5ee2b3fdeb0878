"""What both kinds of session keep on the client: the state that rides in every reply. Knows nothing of transports."""

from __future__ import annotations

from typing import Any, TypeVar

from google.protobuf.message import Message

from tokenloom import _convert as convert
from tokenloom import types
from tokenloom._call import Call, new_request_id
from tokenloom._session_calls import Opened
from tokenloom.v1 import generator_pb2 as pb

T = TypeVar("T")


class SessionView:
    """A session as of its last reply. Its properties and methods send nothing."""

    def __init__(self, opened: Opened) -> None:
        self._state: pb.SessionState = opened.state
        self._config = opened.config
        self._next_tokens: types.TokenArray | None = None

    @property
    def id(self) -> str:
        """The session's id, for `Client.attach`."""
        return self._state.session_id

    @property
    def model(self) -> str:
        """Name of its model."""
        return self._state.model

    @property
    def state(self) -> types.SessionState:
        """The state as of the last reply; `refresh` asks for it anew."""
        return convert.session_state(self._state)

    @property
    def generation_config(self) -> types.GenerationConfig:
        """The settings in force, with the seed that was drawn."""
        return self._config

    def is_done(self) -> bool:
        """Whether every row is finished."""
        return self._state.is_done

    def token_count(self, row: int | None = None) -> int:
        """Tokens in a row, or in the longest row."""
        return self._state.length if row is None else self._state.rows[row].length

    def _prepare(self, call: Call[T]) -> Call[T]:
        """Name the session, and give a changing operation a request id, so that it can be sent again safely."""
        request: Any = call.request
        request.session_id = self.id
        if "request_id" in request.DESCRIPTOR.fields_by_name and not request.request_id:
            request.request_id = new_request_id()
        return call

    def _absorb(self, request: Message, reply: Any) -> None:
        """Keep what a reply tells of this session."""
        if isinstance(request, pb.ForkSessionRequest) or "state" not in reply.DESCRIPTOR.fields_by_name:
            return  # The state in the reply is that of another session, or there is none.
        self._state = reply.state
        if isinstance(reply, pb.GenerateNextTokenResponse | pb.GetNextTokensResponse):
            self._next_tokens = convert.tokens(reply.next_tokens)
        elif "request_id" in request.DESCRIPTOR.fields_by_name:
            self._next_tokens = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.model}: {self.token_count()} tokens>"
