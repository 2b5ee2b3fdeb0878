"""The benchmarks' own parts, on a small model: how fast it is does not matter, that it can be measured does."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks.load import Load, arrivals, drive
from benchmarks.server import serving
from benchmarks.workload import Prompts
from runtime import Tokenizer
from tokenloom import Client

MODEL = Path(__file__).parent / "data/models/tiny-llama"


def test_the_measured_server_tells_what_its_engine_did() -> None:
    with serving(MODEL, threads=1, max_length=512) as server:
        before = server.counters()
        with Client(server.target) as client, client.create_session() as session:
            session.append_tokens([5, 9, 21])
        after = server.counters()
    assert after.iterations > before.iterations
    assert after.model_seconds > before.model_seconds
    assert 0 < before.host_share_until(after) < 1


def test_requests_of_an_open_loop_arrive_in_order_and_are_all_answered() -> None:
    offered = Load(rate=50, requests=8, seconds=5, seed=3, shared=4)
    requests = [each for each in arrivals(offered, Prompts(Tokenizer.load(MODEL))) if len(each.prompt) < 300]
    assert len(requests) >= 4
    assert [each.at for each in requests] == sorted(each.at for each in requests)
    assert len({tuple(each.prompt[:4]) for each in requests}) == 1
    with serving(MODEL, threads=1, max_length=512) as server:
        asyncio.run(drive(server.target, requests))
    assert all(each.is_done and each.first_token > 0 for each in requests)
