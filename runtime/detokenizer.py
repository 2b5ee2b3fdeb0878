"""Token ids to text deltas while a sequence grows.

Tokens are not characters: a character may be spread over several tokens, and the text of a token may depend on the one
before it. So a window of the last few tokens is decoded again with each push, and what is new in its text is delivered
except for what later tokens may still change. Knows nothing of models, sessions or stop strings.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime.tokenizer import TokenIds, Tokenizer

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_UNFINISHED = 3
"""Most U+FFFD an unfinished character decodes to: it has at most 3 bytes, and a decoder writes one for each or for all.
"""
_WINDOW = 8
"""Tokens in the window before it is cut to its newer half."""


class IncrementalDetokenizer:
    """Text of generated tokens, in pieces.

    All pieces and `finish()` joined are `decode(context + generated)` without what the context already says. A
    character that the context begins and the generated tokens complete belongs to the generated text.
    """

    def __init__(self, tokenizer: Tokenizer, context: TokenIds = (), skip_special_tokens: bool = True) -> None:
        """`context`: all tokens before the generated ones; only as many of its last ones are read as are needed."""
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._window: list[int] = []
        self._delivered = ""
        """The text of the window that was delivered or belongs to the context."""
        self._start_after(context)

    def push(self, token_ids: Iterable[int]) -> str:
        """The text that these tokens make certain. Holds back an unfinished character only."""
        new = self._tokenizer.with_text(token_ids, self._skip_special_tokens)
        if not new:
            return ""
        self._window += new
        text = self._decode(self._window)
        certain = _certain(text)
        delta = self._deliver(certain)
        if len(self._window) > _WINDOW and self._delivered == certain:
            self._cut(held=len(text) - len(certain))
        return delta

    def finish(self) -> str:
        """The text still held back: U+FFFD for characters that never got complete."""
        return self._deliver(self._decode(self._window))

    def copy(self) -> IncrementalDetokenizer:
        """One that goes on from here, independently."""
        twin = object.__new__(IncrementalDetokenizer)
        twin._tokenizer = self._tokenizer
        twin._skip_special_tokens = self._skip_special_tokens
        twin._window = self._window.copy()
        twin._delivered = self._delivered
        return twin

    def _start_after(self, context: TokenIds) -> None:
        """Fills the window with the end of the context: as many tokens as it takes to have some certain text."""
        size = _WINDOW
        while True:
            self._window = self._tokenizer.with_text(context[-size:], self._skip_special_tokens)
            self._delivered = self._decode(self._window)
            if size >= len(context) or _certain(self._delivered):
                return
            size *= 2

    def _deliver(self, certain: str) -> str:
        if certain.startswith(self._delivered):
            known = len(self._delivered)
        else:  # a character that was delivered as U+FFFD (the context ended inside it) became complete, or is held
            known = _common_length(certain, self._delivered)
            if known == len(certain):
                return ""
        self._delivered = certain
        return certain[known:]

    def _cut(self, held: int) -> None:
        """Forgets the older half of the window, if the newer one has some certain text.

        Then it doesn't matter that the window may begin inside a character: an unfinished one at its end (the last
        `held` of its text) begins later. And a decoder that strips a leading space has done so before new text comes.
        """
        window = self._window[-(len(self._window) // 2) :]
        text = self._decode(window)
        if _certain(text):
            self._window = window
            self._delivered = text[: len(text) - held]

    def _decode(self, token_ids: list[int]) -> str:
        return self._tokenizer.decode(token_ids, self._skip_special_tokens)


def _certain(text: str) -> str:
    """A decoded text without the characters at its end that may change with the next token."""
    replaced = len(text) - len(text.rstrip(_REPLACEMENT))
    return text[: len(text) - min(_UNFINISHED, replaced)]


def _common_length(a: str, b: str) -> int:
    """Length of the longest beginning that two texts share."""
    shorter = min(len(a), len(b))
    return next((index for index in range(shorter) if a[index] != b[index]), shorter)
