"""What is run, how often, on which text. All bounds of a benchmark are here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runtime import Tokenizer

TEXT = Path(__file__).parent.parent / "LICENSE"
"""Prompts are stretches of it: real text, which greedy decoding goes on with for long."""
ROWS = 8
PROMPT = 32
"""Tokens of a prompt where decoding is measured."""
LONG_PROMPT = 128
"""Tokens of a prompt where prefill is measured."""
SYSTEM, QUESTION = 984, 16
"""Tokens of a prompt that others begin with, too, and of what comes after them."""
FRESH = 20
"""Index of the first stretch that no other measurement begins with."""
REWIND = 400
"""Tokens a rewind takes back."""
MAX_LENGTH = 2048
"""Tokens a sequence may have, here and in the peer."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. rounds: alternations of ours and the peer. steps: tokens of a stream in one round."""

    rounds: int
    steps: int
    calls: int
    """Samples of a quick call's latency."""
    rewinds: int
    """Samples of a rewind, each of which needs a prompt of its own."""
    empty_sessions: int


FULL = Sizes(rounds=7, steps=48, calls=60, rewinds=12, empty_sessions=200)
QUICK = Sizes(rounds=2, steps=16, calls=15, rewinds=3, empty_sessions=50)


class Prompts:
    """Stretches of the text, as tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokens = tokenizer.encode(TEXT.read_text("utf-8"))

    def take(self, length: int, index: int = 0) -> list[int]:
        """`length` tokens. Different `index`, different text, round and round."""
        start = index * 97 % (len(self._tokens) - length)
        return self._tokens[start : start + length]

    def rows(self, count: int = ROWS, length: int = PROMPT) -> list[list[int]]:
        """`count` prompts of `length` tokens."""
        return [self.take(length, index) for index in range(count)]
