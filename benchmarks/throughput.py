"""Tokens per second of streams, time to the first token, and how much of a step the model does not run."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median

from benchmarks.figures import Figure, in_turns, of_rounds, of_samples
from benchmarks.peer import Decoded, Peer
from benchmarks.server import Counters, ServerProcess
from benchmarks.workload import FRESH, LONG_PROMPT, QUESTION, ROWS, SYSTEM, Prompts, Sizes
from tokenloom import Client
from tokenloom.aio import Client as AsyncClient
from tokenloom.aio import Session as AsyncSession

MARGIN = 3
"""Steps before the end at which watching stops, so that nothing has ended when the counters are asked for."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """What came of streams that ran side by side, while all of them ran."""

    tokens_per_second: float
    host_share: float
    rows: list[list[int]]
    """Tokens of each."""


class Streams:
    """Streams that run side by side, watched from when all have begun until shortly before the first ends."""

    def __init__(self, server: ServerProcess, steps: int) -> None:
        self._server = server
        self._steps = steps

    async def run(self, prompts: Sequence[Sequence[int]]) -> Streamed:
        """One stream for each prompt, each on a session of its own."""
        self._rows: list[list[int]] = [[] for _ in prompts]
        self._marks: list[tuple[float, int]] = []
        self._counters: list[asyncio.Task[Counters]] = []
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(AsyncClient(self._server.target))
            sessions = [await stack.enter_async_context(await client.create_session()) for _ in prompts]
            await asyncio.gather(*map(self._stream, sessions, prompts, self._rows))
            before, after = [await task for task in self._counters]
        (begin, first), (end, last) = self._marks
        return Streamed((last - first) / (end - begin), before.host_share_until(after), self._rows)

    async def _stream(self, session: AsyncSession, prompt: Sequence[int], tokens: list[int]) -> None:
        async for token in session.tokens(self._steps, prompt=prompt):
            tokens.append(token.token_id)
            self._watch()
        if len(tokens) < self._steps:
            raise RuntimeError("a stream ended early; the prompts must lead to longer continuations")

    def _watch(self) -> None:
        lengths = [len(row) for row in self._rows]
        bounds = (min(lengths) >= 1, max(lengths) >= self._steps - MARGIN)
        if len(self._marks) == 2 or not bounds[len(self._marks)]:
            return
        self._marks.append((time.perf_counter(), sum(map(len, self._rows))))
        self._counters.append(asyncio.create_task(asyncio.to_thread(self._server.counters)))


def measure(model: str, server: ServerProcess, peer: Peer, prompts: Prompts, sizes: Sizes) -> list[Figure]:
    """Figures of decoding and prefill."""
    one, one_theirs = _in_turns(server, peer, prompts.rows(1), sizes)
    many, many_theirs = _in_turns(server, peer, prompts.rows(ROWS), sizes)
    alone, rates = ([run.tokens_per_second for run in runs] for runs in (one, many))
    alone_theirs, rates_theirs = ([run.tokens_per_second for run in runs] for runs in (one_theirs, many_theirs))
    share = median(run.host_share for run in many)
    name, unit = f"{ROWS} streams", "tokens/s"
    return [
        of_rounds("one stream", model, unit, alone, "peer's Generator", alone_theirs, "≥ 0.90"),
        of_rounds(name, model, unit, rates, f"peer's batch of {ROWS}", rates_theirs, "≥ 0.90"),
        of_samples(name, model, unit, rates, "one stream", alone, "≥ 4 in fp32"),
        Figure(f"step of {ROWS} rows outside the model", model, "", share, "a step", 1.0, share, "≤ 0.10", len(many)),
        _equal_rows(model, [*one, *many], [*one_theirs, *many_theirs]),
        _first_token(model, server, peer, prompts, sizes),
        _first_token_of_cached(model, server, prompts, sizes),
    ]


def _in_turns(
    server: ServerProcess, peer: Peer, rows: list[list[int]], sizes: Sizes
) -> tuple[list[Streamed], list[Decoded]]:
    """The same rows as streams of the server and as a batch of the peer, turn by turn."""
    streams = Streams(server, sizes.steps)
    return in_turns(sizes.rounds, lambda: asyncio.run(streams.run(rows)), lambda: peer.decode(rows, sizes.steps))


def _equal_rows(model: str, ours: list[Streamed], theirs: list[Decoded]) -> Figure:
    """Whether both did the same work."""
    pairs = [pair for our, their in zip(ours, theirs, strict=True) for pair in zip(our.rows, their.rows, strict=True)]
    same = sum(mine == their for mine, their in pairs)
    return Figure(
        "rows with the peer's tokens", model, "", same, "all rows", len(pairs), same / len(pairs), "1 in fp32"
    )


def _first_token(model: str, server: ServerProcess, peer: Peer, prompts: Prompts, sizes: Sizes) -> Figure:
    """A prompt goes in, on a session that is there already, until its first token is out. Every round has its own, so
    that nothing of it is in the cache."""
    mine, peers = (map(prompts.take, itertools.repeat(LONG_PROMPT), itertools.count(FRESH)) for _ in range(2))
    times, theirs = in_turns(
        sizes.rounds,
        lambda: _milliseconds_to_first_token(server, next(mine)),
        lambda: 1e3 * peer.first_token_seconds(next(peers)),
    )
    name = f"first token after {LONG_PROMPT}"
    return of_rounds(name, model, "ms", times, "peer's append and step", theirs)


def _first_token_of_cached(model: str, server: ServerProcess, prompts: Prompts, sizes: Sizes) -> Figure:
    """A prompt whose beginning an earlier session had, against one of the same length that is new."""
    system, index = prompts.take(SYSTEM), itertools.count(2 * FRESH)
    times, fresh = in_turns(
        sizes.rounds,
        lambda: _milliseconds_to_first_token(server, system + prompts.take(QUESTION, next(index))),
        lambda: _milliseconds_to_first_token(server, prompts.take(SYSTEM + QUESTION, next(index))),
    )
    name = f"first token after {SYSTEM + QUESTION}, {SYSTEM} cached"
    return of_rounds(name, model, "ms", times, "nothing cached", fresh, "≤ 0.10")


def _milliseconds_to_first_token(server: ServerProcess, prompt: Sequence[int]) -> float:
    with Client(server.target) as client, client.create_session() as session:
        started = time.perf_counter()
        next(iter(session.tokens(1, prompt=prompt)))
        return 1e3 * (time.perf_counter() - started)
