"""Many clients at once: each gets what it gets alone, and the batch is full while work waits."""

from __future__ import annotations

import pytest
from serving import TIMEOUT, Served, serving, tokens

from tokenloom.v1 import generation_pb2
from tokenloom.v1 import generator_pb2 as pb

PROMPTS = [[(7 * index + step) % 500 + 3 for step in range(index % 9 + 1)] for index in range(32)]
CONFIG = generation_pb2.GenerationConfig(do_sample=True, temperature=0.8, seed=42, min_new_tokens=24)
STEPS = 24


@pytest.fixture(scope="module")
def alone() -> list[list[int]]:
    """What each prompt gets from a server that has nothing else to do."""
    with serving() as served:
        made = []
        for prompt in PROMPTS:
            session = served.create(prompt, generation_config=CONFIG)
            made.append(list(served.generate(session, STEPS).rows[0].token_ids))
            served.close(session)
        return made


@pytest.mark.parametrize("slots", [16, 5])
def test_sessions_at_once_get_the_tokens_each_gets_alone(alone: list[list[int]], slots: int) -> None:
    with serving(slots=slots) as served:
        sessions = [served.create(prompt, generation_config=CONFIG) for prompt in PROMPTS]
        calls = []
        for session in sessions:
            request = pb.GenerateTokensRequest(session_id=session, steps=STEPS)
            calls.append(served.generator.GenerateTokens.future(request, timeout=TIMEOUT))
        assert [list(call.result().rows[0].token_ids) for call in calls] == alone


def test_streams_at_once_get_the_tokens_each_gets_alone(alone: list[list[int]]) -> None:
    with serving() as served:
        streams = [served.converse() for _ in PROMPTS]
        for stream, prompt in zip(streams, PROMPTS, strict=True):
            stream.send(create=pb.CreateSessionRequest(inputs=[tokens(prompt)], generation_config=CONFIG))
            for _ in range(STEPS // 4):
                stream.send(generate_tokens=pb.GenerateTokensRequest(steps=4))
            stream.half_close()
        for stream, expected in zip(streams, alone, strict=True):
            made = [token for reply in stream.rest() for row in reply.step.rows for token in row.token_ids]
            assert made == expected


def test_the_batch_is_full_while_work_waits() -> None:
    with serving(slots=16) as served:
        requests = [pb.GenerateRequest(inputs=[tokens(prompt)], generation_config=CONFIG) for prompt in PROMPTS * 2]
        for request in requests:
            request.generation_config.max_new_tokens = STEPS
        before = served.engine.stats()
        calls = [served.generator.Generate(request, timeout=3 * TIMEOUT) for request in requests]
        summaries = [list(call)[-1].summary for call in calls]
        after = served.engine.stats()
        assert all(len(summary.token_ids) == STEPS for summary in summaries)
        iterations = after.iterations - before.iterations
        assert after.generated_tokens - before.generated_tokens == len(requests) * STEPS
        assert len(requests) * STEPS / iterations > 16 / 2


def test_rows_of_one_session_get_what_they_get_in_sessions_of_their_own(served: Served) -> None:
    together = served.create(*PROMPTS[:8], generation_config=CONFIG)
    rows = served.generate(together, STEPS).rows
    for row, prompt in enumerate(PROMPTS[:8]):
        config = generation_pb2.GenerationConfig()
        config.CopyFrom(CONFIG)
        config.seed = 42 + row * 2**32
        single = served.create(prompt, generation_config=config)
        assert served.generate(single, STEPS).rows[0].token_ids == rows[row].token_ids
