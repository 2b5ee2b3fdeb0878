"""The synchronous session: the Generator of the in-process peers, over the wire."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from tokenloom import _session_calls as calls
from tokenloom import _streams as streams
from tokenloom import _tensor_calls as tensor_calls
from tokenloom import types
from tokenloom._call import Call, method, play
from tokenloom._session import SessionView
from tokenloom.conversation import Conversation, StepsReply
from tokenloom.errors import FailedPrecondition, NotFound, Unavailable

if TYPE_CHECKING:
    from tokenloom.client import Client

T = TypeVar("T")
P = ParamSpec("P")


def _operation(build: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], T]:
    return method(build, lambda session, call: session._run(call))


def _fork(session: Session, call: Call[calls.Opened]) -> Session:
    return Session(session._client, session._run(call))


def _tokens(session: Session, generation: streams.Generation) -> Generator[types.Token, None, None]:
    with contextlib.closing(session._steps(generation)) as steps:
        for step in steps:
            yield from step.tokens


def _text(session: Session, generation: streams.Generation) -> Generator[str, None, None]:
    with contextlib.closing(_tokens(session, generation)) as tokens:
        for token in tokens:
            if token.row == generation.row and token.text:
                yield token.text


class Session(SessionView):
    """A session in the server, made by `Client.create_session` and found by `Client.attach`.

    Operations run one at a time, in order of arrival, whichever client they come from. `is_done`, `token_count` and
    `state` tell what the last reply told and cost nothing. As a context manager it closes the session in the end.
    """

    def __init__(self, client: Client, opened: calls.Opened) -> None:
        super().__init__(opened)
        self._client = client

    append_tokens = _operation(calls.append_tokens)
    append_text = _operation(calls.append_text)
    append_messages = _operation(calls.append_messages)
    generate_next_token = _operation(calls.generate_next_token)
    generate_tokens = _operation(calls.generate_tokens)
    tokens = method(streams.tokens, _tokens)
    text = method(streams.text, _text)
    get_sequence = _operation(calls.get_sequence)
    get_text = _operation(calls.get_text)
    get_logits = _operation(tensor_calls.get_logits)
    set_logits = _operation(tensor_calls.set_logits)
    rewind_to = _operation(calls.rewind_to)
    set_inputs = _operation(tensor_calls.set_inputs)
    set_model_input = _operation(tensor_calls.set_model_input)
    get_input = _operation(tensor_calls.get_input)
    get_output = _operation(tensor_calls.get_output)
    set_active_adapter = _operation(calls.set_active_adapter)
    set_runtime_option = _operation(calls.set_runtime_option)
    interrupt = _operation(calls.interrupt)
    fork = method(calls.fork, _fork)
    refresh = _operation(calls.refresh)
    close = _operation(calls.close)

    def get_next_tokens(self) -> types.TokenArray:
        """As documented by the call; the tokens that `generate_next_token` brought are not asked for again."""
        return self._next_tokens if self._next_tokens is not None else self._run(calls.get_next_tokens())

    def converse(self) -> Conversation:
        """A stream for pipelined operations. While it is open no other stream can be; other calls can.

        Raises, at the first reply, FailedPrecondition (SESSION_ATTACHED) where another stream holds the session.
        """
        return Conversation(self, self._client._methods, self._client._metadata + self._client._homes.metadata(self.id))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(NotFound):  # Closed or expired already.
            self.close()

    def _run(self, call: Call[T]) -> T:
        reply = self._client._ask(self._prepare(call))
        self._absorb(call.request, reply)
        return call.decode(reply)

    def _steps(self, generation: streams.Generation) -> Generator[types.Step, None, None]:
        while True:
            try:
                if generation.is_lost:
                    yield from play(generation.recover(), self._run)
                if (asked := generation.ask()) is None:
                    return
                with self.converse() as conversation:
                    operation = conversation._start(asked.call, asked.hook, asked.credits)
                    for step in StepsReply(conversation, operation):
                        generation.receive(step)
                        yield step
                return
            except (Unavailable, FailedPrecondition) as error:
                time.sleep(generation.delay(error))
