"""A chat as messages, kept in step with a session. Knows nothing of the terminal."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Self

import numpy as np

from tokenloom import Client, Session


class Conversation:
    """Messages, and the session that holds their tokens.

    A chat template is a function of the whole conversation (many begin with a system message of their own, or close an
    answer with more than the model generated), so each question renders all of it, and the session keeps what agrees
    with its tokens so far: nearly all.
    """

    def __init__(self, client: Client, session: Session, system: str) -> None:
        self._client = client
        self.session = session
        self._messages: list[dict[str, str]] = [{"role": "system", "content": system}] if system else []
        self._starts: list[int] = []  # Messages before each question.
        self.answered_tokens = 0
        """Tokens of the last answer."""

    @property
    def turns(self) -> int:
        """Questions asked."""
        return len(self._starts)

    @property
    def last_question(self) -> str:
        """ "" where there is none."""
        return self._messages[self._starts[-1]]["content"] if self._starts else ""

    def ask(self, question: str) -> Generator[str, None, None]:
        """The answer's text as it comes. Closing the iterator ends the answer; what was said is remembered."""
        messages = [*self._messages, {"role": "user", "content": question}]
        self._append(messages)
        self._starts.append(len(self._messages))
        self._messages = messages
        before, said = self.session.token_count(), []
        try:
            with closing(self.session.text()) as answer:
                for piece in answer:
                    said.append(piece)
                    yield piece
        finally:
            self.answered_tokens = self.session.token_count() - before
            self._messages.append({"role": "assistant", "content": "".join(said)})

    def rewind(self, turns: int) -> int:
        """Forget the last questions and their answers. Returns how many there were to forget."""
        turns = min(turns, self.turns)
        if turns:
            self._messages = self._messages[: self._starts[-turns]]
            del self._starts[-turns:]
        return turns

    def fork(self) -> Conversation:
        """A copy that goes its own way."""
        copy = Conversation(self._client, self.session.fork(), "")
        copy._messages, copy._starts = list(self._messages), list(self._starts)
        return copy

    def _append(self, messages: list[dict[str, str]]) -> None:
        """Have the session hold the tokens of these messages and the opening of an answer."""
        wanted = self._client.apply_chat_template(messages, model=self.session.model).token_ids
        held = self.session.get_sequence()
        overlap = min(len(wanted) - 1, len(held))  # Something must be appended, for logits to go on from.
        differences = np.flatnonzero(wanted[:overlap] != held[:overlap])
        common = int(differences[0]) if differences.size else overlap
        if common < len(held):
            self.session.rewind_to(common)
        self.session.append_tokens(wanted[common:])


class Branches:
    """The copies of a conversation. As a context manager it closes their sessions."""

    def __init__(self, first: Conversation) -> None:
        self.all = [first]
        self.current = first
        self._sessions = ExitStack()
        self._sessions.enter_context(first.session)

    def fork(self) -> int:
        """Go on in a copy of the current one. Returns its number."""
        copy = self.current.fork()
        self._sessions.enter_context(copy.session)
        self.all.append(copy)
        self.current = copy
        return len(self.all) - 1

    def switch(self, number: int) -> None:
        """Go on in another one; the current one where there is no such number."""
        if number < len(self.all):
            self.current = self.all[number]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sessions.__exit__(kind, error, trace)
