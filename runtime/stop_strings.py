"""Stop strings in a growing text.

A stop string may begin inside one piece of text and end inside another. So the end of the text that may still become
part of one is held back until it is certain. Knows nothing of tokens: it is fed the deltas of `runtime.detokenizer`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from runtime.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class StopMatch:
    """`text` may be delivered now. `matched`: the stop string that ends the text, None while there is none."""

    text: str
    matched: str | None = None


class StopStringMatcher:
    """Looks for the stop strings in one text.

    The match that is complete first wins; of several complete at the same character, the longest. So the result doesn't
    depend on how the text is cut into pieces, and generation stops as early as it can.
    """

    def __init__(self, stop_strings: Sequence[str]) -> None:
        """Raises InvalidArgument (stop_strings[i]) for an empty one. No strings at all: all text passes."""
        for index, string in enumerate(stop_strings):
            if not string:
                raise InvalidArgument(f"stop_strings[{index}]", string, "a stop string has at least one character")
        self._root = self._state = _automaton(tuple(stop_strings))
        self._held = ""
        self._matched: str | None = None

    @property
    def matched(self) -> str | None:
        """The stop string that was found."""
        return self._matched

    def push(self, text: str) -> StopMatch:
        """Reads more text: gives what can no longer be part of a stop string, up to the first stop string.

        The text after a match is dropped, with this push and all later ones.
        """
        if self._matched is not None:
            return StopMatch("", self._matched)
        state = self._state
        for position, character in enumerate(text):
            state = state.step(character)
            if state.matched is not None:
                self._matched = state.matched
                before = self._held + text[: position + 1]
                self._held = ""
                return StopMatch(before[: len(before) - len(state.matched)], state.matched)
        self._state = state
        before = self._held + text
        certain = len(before) - state.depth
        self._held = before[certain:]
        return StopMatch(before[:certain])

    def finish(self) -> str:
        """The text still held back: it is the end, so it never becomes a stop string."""
        held, self._held = self._held, ""
        self._state = self._root
        return held

    def copy(self) -> StopStringMatcher:
        """One that goes on from here, independently."""
        twin = object.__new__(StopStringMatcher)
        twin._root, twin._state = self._root, self._state
        twin._held, twin._matched = self._held, self._matched
        return twin


@dataclass(eq=False, slots=True)
class _State:
    """Node of an Aho-Corasick automaton: the longest end of the text that is the beginning of a stop string."""

    depth: int
    """Its length."""
    matched: str | None = None
    """The longest stop string the text ends with here."""
    following: dict[str, _State] = field(default_factory=dict)
    shorter: _State | None = None
    """The next longest such end; None for the root, which is the empty one."""

    def step(self, character: str) -> _State:
        """The state after one more character, in amortised constant time: a step back undoes one forward."""
        state = self
        while character not in state.following:
            if state.shorter is None:
                return state
            state = state.shorter
        return state.following[character]


@lru_cache(maxsize=256)
def _automaton(stop_strings: tuple[str, ...]) -> _State:
    """The root of the automaton. It never changes, so all matchers of the same strings share it."""
    root = _State(0)
    for string in stop_strings:
        state = root
        for character in string:
            state = state.following.setdefault(character, _State(state.depth + 1))
        state.matched = string
    queue = deque([root])
    while queue:  # by depth: shorter ends are complete before longer ones need them
        state = queue.popleft()
        for character, longer in state.following.items():
            longer.shorter = state.shorter.step(character) if state.shorter is not None else root
            longer.matched = longer.matched or longer.shorter.matched
            queue.append(longer)
    return root
