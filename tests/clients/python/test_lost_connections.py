"""What a client does when its connection breaks: nothing is lost, nothing is done twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from proxy import Proxy

import tokenloom
from tokenloom import errors

PROMPT = 5


def wait_until(condition: Callable[[], bool]) -> None:
    """Ask again and again; each question is a call to the server."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"


class InBackground:
    """A function running in a thread."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._result: Any = None
        self._thread = threading.Thread(target=self._run, args=(function,), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            self._result = function()
        except BaseException as error:
            self._result = error

    def result(self) -> Any:
        self._thread.join(30)
        assert not self._thread.is_alive(), "still running"
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result


@pytest.fixture
def far_session(connect: Any, proxy: Proxy) -> Any:
    """A session used through the proxy; it is closed with the server."""
    return connect(proxy.target).create_session("def main(", model="tiny", do_sample=True, temperature=20.0, seed=5)


@pytest.fixture
def near_session(far_session: Any, server: Any) -> Any:
    """The same session over a connection of its own."""
    with tokenloom.Client(server.target) as client:
        yield client.attach(far_session.id)


@pytest.mark.parametrize(
    ("operation", "grows_by"),
    [
        (lambda session: session.append_tokens([7, 8]), 2),
        (lambda session: session.generate_next_token(), 1),
        (lambda session: session.generate_tokens(1, prompt=[7, 8]), 3),
    ],
    ids=["append", "step", "append-and-step"],
)
def test_an_operation_whose_answer_is_lost_is_asked_again_and_done_once(
    far_session: Any, near_session: Any, proxy: Proxy, operation: Any, grows_by: int
) -> None:
    proxy.hold_replies()
    asked = InBackground(lambda: operation(far_session))
    wait_until(lambda: near_session.refresh().length > PROMPT)
    proxy.cut()
    asked.result()
    assert far_session.token_count() == near_session.refresh().length == PROMPT + grows_by


def test_an_answer_that_is_lost_is_the_answer_that_is_given(far_session: Any, near_session: Any, proxy: Proxy) -> None:
    proxy.hold_replies()
    asked = InBackground(far_session.generate_next_token)
    wait_until(lambda: near_session.refresh().length > PROMPT)
    proxy.cut()
    assert asked.result().tolist() == near_session.get_next_tokens().tolist()


def test_a_generation_whose_client_was_lost_tells_what_it_made(
    far_session: Any, near_session: Any, proxy: Proxy
) -> None:
    proxy.hold_replies()
    asked = InBackground(lambda: far_session.generate_tokens(400))
    wait_until(lambda: near_session.refresh().length > PROMPT)
    proxy.cut()
    result = asked.result()
    assert result.interrupted or result.steps == 400
    assert near_session.get_sequence(start=PROMPT).tolist() == result.rows[0].token_ids.tolist()


def test_a_session_is_created_once(connect: Any, server: Any, proxy: Proxy) -> None:
    with tokenloom.Client(server.target) as near:
        before = {state.session_id for state in near.list_sessions()}
        far = connect(proxy.target)
        far.server_info()
        proxy.hold_replies()
        asked = InBackground(lambda: far.create_session("def", model="tiny"))
        wait_until(lambda: len(near.list_sessions()) > len(before))
        proxy.cut()
        session = asked.result()
        assert {state.session_id for state in near.list_sessions()} - before == {session.id}


@pytest.mark.parametrize("seen", [0, 1, 7])
def test_a_stream_that_is_lost_goes_on_where_it_was(
    far_session: Any, near_session: Any, proxy: Proxy, seen: int
) -> None:
    with near_session.fork() as fork:
        expected = list(fork.tokens(40))
    assert len(expected) == 40
    tokens = []
    if seen == 0:
        proxy.cut()
    for token in far_session.tokens(40):
        tokens.append(token)
        if len(tokens) == seen:
            proxy.cut()
    assert [token.token_id for token in tokens] == [token.token_id for token in expected]
    assert "".join(token.text for token in tokens) == "".join(token.text for token in expected)
    assert far_session.get_sequence(start=PROMPT).tolist() == [token.token_id for token in expected]


def test_tokens_that_were_made_but_not_seen_are_not_lost(far_session: Any, near_session: Any, proxy: Proxy) -> None:
    with near_session.fork() as fork:
        expected = list(fork.tokens(40))
    proxy.hold_replies()
    asked = InBackground(lambda: list(far_session.tokens(40, prompt=None)))
    wait_until(lambda: near_session.refresh().length > PROMPT + 3)
    proxy.cut()
    tokens = asked.result()
    assert [token.token_id for token in tokens] == [token.token_id for token in expected]
    assert "".join(token.text for token in tokens) == "".join(token.text for token in expected)


def test_a_prompt_of_a_stream_that_is_lost_is_appended_once(far_session: Any, near_session: Any, proxy: Proxy) -> None:
    proxy.hold_replies()
    asked = InBackground(lambda: [token.token_id for token in far_session.tokens(5, prompt=[7, 8, 9])])
    wait_until(lambda: near_session.refresh().length > PROMPT + 2)
    proxy.cut()
    tokens = asked.result()
    assert near_session.get_sequence(start=PROMPT).tolist() == [7, 8, 9, *tokens]
    assert len(tokens) == 5


def test_a_conversation_that_is_lost_says_so_and_the_session_can_be_attached_again(
    far_session: Any, proxy: Proxy
) -> None:
    with far_session.converse() as conversation:
        conversation.append_tokens([7]).result()
        proxy.cut()
        with pytest.raises(errors.StreamLost):
            conversation.get_sequence().result()
    assert far_session.refresh().length == PROMPT + 1
    with far_session.converse() as conversation:
        conversation.append_tokens([8]).result()
    assert far_session.token_count() == PROMPT + 2


def test_no_server_is_unavailable(connect: Any) -> None:
    with pytest.raises(errors.Unavailable):
        connect("127.0.0.1:1").server_info()


def test_creation_can_wait_for_a_server_up_to_the_timeout(connect: Any) -> None:
    with pytest.raises(errors.DeadlineExceeded):
        connect("127.0.0.1:1", timeout=0.3).create_session("def", wait_for_ready=True)


def test_a_timeout_leaves_the_session_usable(connect: Any, proxy: Proxy, near_session: Any) -> None:
    hasty = connect(proxy.target, timeout=0.2).attach(near_session.id)
    proxy.hold_replies()
    with pytest.raises(errors.DeadlineExceeded):
        hasty.get_logits()
    assert near_session.generate_next_token().shape == (1,)
