"""Text of the tokens a row generates: detokenised as they come, held back while a stop string may still be forming."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.detokenizer import IncrementalDetokenizer
from runtime.operations import TokenArray
from runtime.stop_strings import StopStringMatcher
from runtime.tokenizer import Tokenizer

CONTEXT_TOKENS = 8
"""Tokens before the generated ones that decoding looks at: whether a leading space is text depends on them."""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text that can be said for sure, and the stop string that matched, if one did."""

    text: str
    stop_string: str | None = None


class RowText:
    """Turns the tokens generated since the last append into text."""

    def __init__(
        self, tokenizer: Tokenizer, tokens: TokenArray, new_tokens: int, stop_strings: tuple[str, ...]
    ) -> None:
        """tokens: the whole row, of which the last `new_tokens` are generated; those are taken as told already."""
        start = len(tokens) - new_tokens
        context = [int(token) for token in tokens[max(0, start - CONTEXT_TOKENS) : start]]
        self._detokenizer = IncrementalDetokenizer(tokenizer, context)
        self._matcher = StopStringMatcher(stop_strings) if stop_strings else None
        for token in tokens[start:]:
            self.push(int(token))

    def push(self, token: int) -> TextDelta:
        """One more token."""
        text = self._detokenizer.push([token])
        if self._matcher is None:
            return TextDelta(text)
        match = self._matcher.push(text)
        return TextDelta(match.text, match.matched)

    def finish(self) -> TextDelta:
        """What was held back, now that no more tokens come."""
        text = self._detokenizer.finish()
        if self._matcher is None:
            return TextDelta(text)
        match = self._matcher.push(text)
        if match.matched is not None:
            return TextDelta(match.text, match.matched)
        return TextDelta(match.text + self._matcher.finish())

    def copy(self) -> RowText:
        other = object.__new__(RowText)
        other._detokenizer = self._detokenizer.copy()
        other._matcher = None if self._matcher is None else self._matcher.copy()
        return other
