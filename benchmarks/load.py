"""An open loop: requests arrive whether the last ones are done or not, as those of independent users do.

Times count from the moment a request was due, so that one which had to wait to be sent is not flattered. The server
gets them over gRPC, many at a time. The peer's Generator knows no arrivals: it serves them in this process, in order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.figures import Figure
from benchmarks.workload import Prompts
from tokenloom.aio import Client

if TYPE_CHECKING:  # onnxruntime-genai comes with the bench extra alone, and the load without a peer needs none.
    from benchmarks.peer import Peer

PROMPT_LENGTHS = (16, 64, 256, 1024)
PROMPT_SHARES = (0.4, 0.3, 0.2, 0.1)
ANSWER_LENGTHS = (16, 32, 64)
PERCENTILES = (50, 95, 99)
PATIENCE = 60.0
"""Seconds after the last arrival at which whatever is not done is given up."""


@dataclass(frozen=True, slots=True)
class Load:
    """What arrives: at most `requests` within `seconds`, `rate` a second.

    shared: tokens that all prompts begin with.
    """

    rate: float
    requests: int
    seconds: float
    seed: int
    shared: int


@dataclass(frozen=True, slots=True)
class Target:
    """What a request has to keep to count: seconds to its first token, and from one token to the next on average."""

    first_token: float
    next_token: float


@dataclass(slots=True)
class Request:
    """at: seconds from the start when it is due. times: of its tokens, from the same start."""

    at: float
    prompt: list[int]
    answer: int
    times: list[float] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        return len(self.times) == self.answer

    @property
    def first_token(self) -> float:
        return self.times[0] - self.at

    @property
    def gaps(self) -> list[float]:
        """Seconds from token to token."""
        return np.diff(self.times).tolist()

    def keeps(self, target: Target) -> bool:
        """Whether it was answered in time."""
        return self.is_done and self.first_token <= target.first_token and np.mean(self.gaps) <= target.next_token


def arrivals(load: Load, prompts: Prompts) -> list[Request]:
    """Poisson arrivals of prompts and answers of mixed lengths: the same ones for the same seed."""
    random = np.random.default_rng(load.seed)
    due = np.cumsum(random.exponential(1 / load.rate, load.requests))
    lengths = random.choice(PROMPT_LENGTHS, load.requests, p=PROMPT_SHARES)
    answers = random.choice(ANSWER_LENGTHS, load.requests)
    common = prompts.take(load.shared)
    return [
        Request(at, common + prompts.take(int(length), index + 1), int(answer))
        for index, (at, length, answer) in enumerate(zip(due.tolist(), lengths, answers, strict=True))
        if at <= load.seconds
    ]


async def drive(target: str, requests: Sequence[Request]) -> None:
    """Sends each request to the server when it is due, and notes when its tokens come."""
    async with Client(target) as client:
        await client.server_info()
        started = time.perf_counter()

        async def answer(request: Request) -> None:
            await asyncio.sleep(request.at + started - time.perf_counter())
            settings = {"max_new_tokens": request.answer, "min_new_tokens": request.answer, "do_sample": False}
            async for _ in client.generate(request.prompt, **settings):
                request.times.append(time.perf_counter() - started)

        tasks = [asyncio.create_task(answer(request)) for request in requests]
        done, late = await asyncio.wait(tasks, timeout=requests[-1].at + PATIENCE)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for task in done:
            task.result()


def drive_peer(peer: Peer, requests: Sequence[Request]) -> None:
    """Serves the requests one after another, none before it is due."""
    started = time.perf_counter()
    for request in requests:
        time.sleep(max(0.0, request.at + started - time.perf_counter()))
        for _ in peer.stream(request.prompt, request.answer):
            request.times.append(time.perf_counter() - started)
        if request.times[-1] > requests[-1].at + PATIENCE:
            return


def figures(model: str, target: Target, ours: list[Request], theirs: list[Request]) -> Iterator[Figure]:
    """Percentiles of what was answered, and what was answered in time out of everything that arrived."""
    measures = {
        "first token": lambda requests: [request.first_token for request in requests if request.times],
        "next token": lambda requests: [gap for request in requests for gap in request.gaps],
    }
    for name, times in measures.items():
        for percentile in PERCENTILES:
            our, their = (1e3 * float(np.percentile(times(requests), percentile)) for requests in (ours, theirs))
            yield Figure(
                f"{name}, p{percentile}", model, "ms", our, "peer, one by one", their, our / their, "", len(ours)
            )
    limits = f"{target.first_token:g} s, {1e3 * target.next_token:g} ms a token"
    for name, requests in (("goodput", ours), ("goodput of the peer", theirs)):
        duration = requests[-1].at
        good, arrived = sum(request.keeps(target) for request in requests) / duration, len(requests) / duration
        yield Figure(name, model, "requests/s", good, "arrivals", arrived, good / arrived, limits, len(requests))
