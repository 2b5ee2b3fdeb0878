"""Round trips of calls that run no model: in milliseconds, and in empty calls, which take turns with them."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.figures import Figure, counted, of_samples
from benchmarks.server import ServerProcess
from benchmarks.workload import REWIND, Prompts, Sizes
from tokenloom import Client, Session, edit

KEPT = 16
"""Tokens that a rewind leaves."""
LENGTH = KEPT + REWIND
SPARSE = 16
"""Tokens of a sparse edit."""


Call = Callable[[], object]


def measure(model: str, server: ServerProcess, prompts: Prompts, sizes: Sizes) -> list[Figure]:
    """Figures of rewind, fork and set_logits."""
    with Client(server.target) as client, client.create_session() as session:
        session.append_tokens(prompts.take(LENGTH))
        vocabulary = session.get_logits().shape[1]
        dense = np.random.default_rng(0).standard_normal((vocabulary,), np.float32)
        sparse = edit.add(range(0, SPARSE * 100, 100), [0.01] * SPARSE)
        forks: list[Session] = []

        def fill() -> None:
            session.rewind_to(KEPT)
            session.append_tokens(prompts.take(REWIND))

        def close_forks() -> None:
            while forks:
                forks.pop().close()

        def compare(name: str, prepare: Callable[[], None], call: Call, count: int, target: str = "") -> Figure:
            """`prepare` is not timed. An empty call lets the server come to rest; then both take turns to be first."""
            times: dict[Call, list[float]] = {call: [], client.server_info: []}
            for number in counted(count + 1):
                prepare()
                client.server_info()
                for each in list(times)[:: 1 if number % 2 else -1]:
                    times[each].append(_milliseconds(each))
            ours, empty = (samples[1:] for samples in times.values())
            return of_samples(name, model, "ms", ours, "empty call", empty, target)

        all_values, some_values = f"set_logits, {vocabulary} values", f"set_logits, {SPARSE} values"
        return [
            compare(all_values, _nothing, lambda: session.set_logits(dense), sizes.calls, "< 5 ms"),
            compare(some_values, _nothing, lambda: session.set_logits(sparse), sizes.calls),
            compare(f"fork of {LENGTH} tokens", close_forks, lambda: forks.append(session.fork()), sizes.calls),
            compare(f"rewind of {REWIND} tokens", fill, lambda: session.rewind_to(KEPT), sizes.rewinds, "< 1.5"),
        ]


def _nothing() -> None:
    """For calls that need no preparation."""


def _milliseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - started)
