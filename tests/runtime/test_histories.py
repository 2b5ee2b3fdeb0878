"""Whatever was done to a session, and whatever was done beside it, it is what its effective history makes it.

The effective history of a row is what it holds: appended runs, generated tokens, forced tokens; what was rewound is
not in it. A new session that does only that, alone in an engine of its own, must have the same tokens and logits, to
the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
from driver import COMBINED, GPT2, LLAMA, Session, load_model
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from runtime import Engine, EngineOptions, Model
from runtime.operations import FinishReason
from runtime.sampler import row_seed

MAX_SESSIONS = 5
MAX_LENGTH = 100
SEEDS = st.integers(0, 2**64 - 1)
STEMS = [list(range(10 * stem + 5, 10 * stem + 45)) for stem in range(2)]
TOKENS = st.one_of(
    st.lists(st.integers(0, 511), min_size=1, max_size=40),
    st.builds(
        lambda stem, shared, tail: STEMS[stem][:shared] + tail,
        st.integers(0, 1),
        st.integers(16, 40),
        st.lists(st.integers(0, 511), min_size=0, max_size=4),
    ),
)
"""Some begin alike, so that rows find what others have computed."""
STYLES = [{}, {"do_sample": True, "temperature": 1.3, "top_k": 0}, {"repetition_penalty": 1.3, "min_new_tokens": 4}]


@dataclass
class History:
    """One row: ("append" | "generate" | "force", tokens) in order."""

    pieces: list[tuple[str, list[int]]] = field(default_factory=list)

    @property
    def length(self) -> int:
        return sum(len(tokens) for _, tokens in self.pieces)

    def add(self, kind: str, tokens: list[int]) -> None:
        if tokens:
            self.pieces.append((kind, tokens))

    def cut(self, length: int) -> None:
        while self.length > length:
            kind, tokens = self.pieces.pop()
            self.add(kind, tokens[: max(0, length - self.length)])

    def copy(self) -> History:
        return History(list(self.pieces))


@dataclass
class Tracked:
    session: Session
    style: dict[str, object]
    seed: int
    rows: list[History]


class Histories(RuleBasedStateMachine):
    """Few slots, so that sessions push each other out; small chunks; memory for some of those that are out."""

    model: ClassVar[Model]
    hits: ClassVar[int]
    """Beginnings that were copied, over all runs."""

    @initialize(slots_used=st.sampled_from([2, 3]), host_cache_bytes=st.sampled_from([0, 40_000, 1 << 30]))
    def open(self, slots_used: int, host_cache_bytes: int) -> None:
        options = EngineOptions(prefill_chunk=2 * slots_used, prefill_budget=8, host_cache_bytes=host_cache_bytes)
        self.engine = Engine(self.model, options)
        self.engine.start()
        self.sessions: list[Tracked] = []

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            for tracked in self.sessions:
                self.compare(tracked)
            type(self).hits += self.engine.stats().prefix_hits
            self.engine.stop()

    @precondition(lambda self: len(self.sessions) < MAX_SESSIONS)
    @rule(rows=st.lists(TOKENS, min_size=1, max_size=2), seed=SEEDS, style=st.sampled_from(STYLES))
    def create(self, rows: list[list[int]], seed: int, style: dict[str, object]) -> None:
        session = Session(self.engine, *rows, seed=seed, max_length=MAX_LENGTH, **style)
        self.sessions.append(Tracked(session, style, seed, [History([("append", row)]) for row in rows]))

    def pick(self, which: int) -> Tracked:
        return self.sessions[which % len(self.sessions)]

    @precondition(lambda self: self.sessions)
    @rule(which=st.integers(0, 99), row=st.integers(0, 1), tokens=TOKENS)
    def append(self, which: int, row: int, tokens: list[int]) -> None:
        tracked = self.pick(which)
        row %= len(tracked.rows)
        if tracked.rows[row].length + len(tokens) <= MAX_LENGTH:
            tracked.session.append({row: tokens})
            tracked.rows[row].add("append", tokens)

    @precondition(lambda self: self.sessions)
    @rule(which=st.integers(0, 99), steps=st.integers(1, 6))
    def generate(self, which: int, steps: int) -> None:
        tracked = self.pick(which)
        if self.may_step(tracked):
            for output in tracked.session.generate(steps).rows:
                tracked.rows[output.row].add("generate", output.token_ids)

    @precondition(lambda self: self.sessions)
    @rule(which=st.integers(0, 99), token=st.integers(0, 511))
    def force(self, which: int, token: int) -> None:
        tracked = self.pick(which)
        if self.may_step(tracked) and "min_new_tokens" not in tracked.style:
            for output in tracked.session.force(token).generate(1).rows:
                assert output.token_ids == [token]
                tracked.rows[output.row].add("force", [token])

    @precondition(lambda self: self.sessions)
    @rule(which=st.integers(0, 99), row=st.sampled_from([None, 0, 1]), share=st.floats(0, 1))
    def rewind(self, which: int, row: int | None, share: float) -> None:
        tracked = self.pick(which)
        row = None if row is None else row % len(tracked.rows)
        rows = tracked.rows if row is None else [tracked.rows[row]]
        length = int(share * min(history.length for history in rows))
        tracked.session.rewind(length, row=row)
        for history in rows:
            history.cut(length)

    @precondition(lambda self: 0 < len(self.sessions) < MAX_SESSIONS)
    @rule(which=st.integers(0, 99))
    def fork(self, which: int) -> None:
        tracked = self.pick(which)
        rows = [history.copy() for history in tracked.rows]
        self.sessions.append(Tracked(tracked.session.fork(), tracked.style, tracked.seed, rows))

    @precondition(lambda self: self.sessions)
    @rule(which=st.integers(0, 99))
    def read(self, which: int) -> None:
        tracked = self.pick(which)
        if all(history.length for history in tracked.rows):
            tracked.session.logits()

    @precondition(lambda self: self.sessions)
    @rule(which=st.integers(0, 99))
    def close(self, which: int) -> None:
        tracked = self.pick(which)
        self.compare(tracked)
        tracked.session.close()
        self.sessions.remove(tracked)

    def may_step(self, tracked: Tracked) -> bool:
        reasons = tracked.session.finish_reasons()
        return FinishReason.NONE in reasons and all(history.length for history in tracked.rows)

    def compare(self, tracked: Tracked) -> None:
        """Each row with a session of its own that has its effective history and nothing else."""
        alone = Engine(self.model, EngineOptions(prefix_cache=False))
        alone.start()
        for row, history in enumerate(tracked.rows):
            seed = row_seed(tracked.seed, row)
            fresh = Session(alone, seed=seed, max_length=MAX_LENGTH, **tracked.style)
            for kind, tokens in history.pieces:
                if kind == "append":
                    fresh.append(tokens)
                elif kind == "force":
                    fresh.rewind(fresh.length)  # makes a row that an end token ended go on
                    fresh.force(tokens[0]).generate(1)
                else:
                    fresh.rewind(fresh.length)
                    assert fresh.tokens(len(tokens)) == tokens
            assert tracked.session.sequence(row) == fresh.sequence()
            if all(other.length for other in tracked.rows):
                np.testing.assert_array_equal(tracked.session.logits()[row], fresh.logits()[0])
        alone.stop()


@pytest.mark.parametrize("name", [LLAMA, GPT2, COMBINED])
def test_a_session_is_what_its_effective_history_makes_it(name: str) -> None:
    machine = type("Histories", (Histories,), {"model": load_model(name), "hits": 0})
    run = settings(
        max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    machine.TestCase.settings = run
    machine.TestCase().runTest()
    assert machine.hits >= 5
