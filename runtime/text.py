"""Text of the tokens a row generates: detokenised as they come, held back while a stop string may still be forming."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.detokenizer import IncrementalDetokenizer
from runtime.operations import TokenArray
from runtime.stop_strings import StopStringMatcher
from runtime.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text that can be said for sure, and the stop string that matched, if one did."""

    text: str
    stop_string: str | None = None


class RowText:
    """Turns the tokens generated since the last append into text.

    Text leaves special tokens out; a stop string that spells one ("<|im_end|>") means the token.
    """

    def __init__(
        self, tokenizer: Tokenizer, tokens: TokenArray, new_tokens: int, stop_strings: tuple[str, ...]
    ) -> None:
        """tokens: the whole row, of which the last `new_tokens` are generated; those are taken as told already."""
        start = len(tokens) - new_tokens
        self._detokenizer = IncrementalDetokenizer(tokenizer, tokens[:start])
        self._matcher = StopStringMatcher(stop_strings) if stop_strings else None
        self._stop_tokens = special_tokens(tokenizer, stop_strings)
        for token in tokens[start:]:
            self.push(int(token))

    def push(self, token: int) -> TextDelta:
        """One more token."""
        if token in self._stop_tokens:
            held = self.finish()
            return held if held.stop_string is not None else TextDelta(held.text, self._stop_tokens[token])
        return self._match(self._detokenizer.push([token]))

    def finish(self) -> TextDelta:
        """What was held back, now that no more tokens come."""
        delta = self._match(self._detokenizer.finish())
        if self._matcher is None or delta.stop_string is not None:
            return delta
        return TextDelta(delta.text + self._matcher.finish())

    def copy(self) -> RowText:
        other = object.__new__(RowText)
        other._detokenizer = self._detokenizer.copy()
        other._matcher = None if self._matcher is None else self._matcher.copy()
        other._stop_tokens = self._stop_tokens
        return other

    def _match(self, text: str) -> TextDelta:
        if self._matcher is None:
            return TextDelta(text)
        match = self._matcher.push(text)
        return TextDelta(match.text, match.matched)


def special_tokens(tokenizer: Tokenizer, spellings: tuple[str, ...]) -> dict[int, str]:
    """Token id -> spelling, of those spellings that are special tokens."""
    return {token: text for token in tokenizer.special_ids if (text := tokenizer.token(token)) in spellings}
