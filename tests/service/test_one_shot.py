"""Generate: prompts in, tokens and summaries out, no session left."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from serving import TIMEOUT, Refusal, Served, serving, tokens, wait_until

from tokenloom.v1 import generation_pb2, types_pb2
from tokenloom.v1 import generator_pb2 as pb

PROMPT = [5, 9, 21, 33]
MASK = 2**64 - 1


def generate(served: Served, *inputs: Any, **fields: Any) -> list[pb.GenerateResponse]:
    return list(served.generator.Generate(pb.GenerateRequest(inputs=inputs, **fields), timeout=TIMEOUT))


def summaries(replies: list[pb.GenerateResponse]) -> dict[int, pb.RowSummary]:
    return {reply.summary.row: reply.summary for reply in replies if reply.HasField("summary")}


def test_rows_finish_on_their_own_and_are_summed_up_as_they_do(served: Served) -> None:
    config = generation_pb2.GenerationConfig(max_length=12, min_new_tokens=12, seed=7)
    replies = generate(served, tokens(PROMPT), tokens([7] * 8), generation_config=config)
    found = summaries(replies)
    assert [len(found[row].token_ids) for row in (0, 1)] == [8, 4]
    assert [found[row].prompt_tokens for row in (0, 1)] == [4, 8]
    assert [found[row].seed for row in (0, 1)] == [7, 7 + 2**32]
    assert {row.finish_reason for row in found.values()} == {types_pb2.FINISH_REASON_LENGTH}
    order = [reply.summary.row for reply in replies if reply.HasField("summary")]
    assert order == [1, 0]
    for row, summary in found.items():
        told = [tokens for reply in replies for tokens in reply.step.rows if tokens.row == row]
        assert [token for step in told for token in step.token_ids] == list(summary.token_ids)
        assert "".join(step.text for step in told) == summary.text
        assert told[-1].finish_reason == summary.finish_reason


def test_a_batch_gives_each_row_what_it_gets_alone(served: Served) -> None:
    config = generation_pb2.GenerationConfig(max_new_tokens=6, do_sample=True, seed=42)
    prompts = [PROMPT, [7], [8, 8, 8], PROMPT[::-1]]
    together = summaries(generate(served, *map(tokens, prompts), generation_config=config))
    for row, prompt in enumerate(prompts):
        config.seed = (42 + row * 2**32) & MASK
        alone = summaries(generate(served, tokens(prompt), generation_config=config))
        assert alone[0].token_ids == together[row].token_ids


def test_a_session_gives_what_one_shot_gives(served: Served) -> None:
    config = generation_pb2.GenerationConfig(max_new_tokens=9)
    one_shot = summaries(generate(served, types_pb2.RowInput(text="hello"), generation_config=config))[0]
    request = pb.CreateSessionRequest(inputs=[types_pb2.RowInput(text="hello")], generation_config=config)
    session = served.generator.CreateSession(request, timeout=TIMEOUT).state.session_id
    row = served.generate(session, 100).rows[0]
    assert (row.token_ids, row.text) == (one_shot.token_ids, one_shot.text)


def test_a_stop_string_ends_a_row_and_is_named(served: Served) -> None:
    config = generation_pb2.GenerationConfig(max_new_tokens=8, min_new_tokens=8)
    free = summaries(generate(served, tokens(PROMPT), generation_config=config))[0]
    stop = free.text[2:4]
    config.stop_strings.append(stop)
    config.ClearField("min_new_tokens")
    stopped = summaries(generate(served, tokens(PROMPT), generation_config=config))[0]
    assert stopped.finish_reason == types_pb2.FINISH_REASON_STOP_STRING
    assert (stopped.stop_string, stopped.text) == (stop, free.text[: free.text.index(stop)])


def test_text_can_be_left_out(served: Served) -> None:
    replies = generate(served, tokens(PROMPT), generation_config={"max_new_tokens": 4}, skip_text=True)
    assert not any(row.text for reply in replies for row in reply.step.rows)
    assert (summaries(replies)[0].text, len(summaries(replies)[0].token_ids)) == ("", 4)


def test_a_prompt_that_fills_the_row_is_finished_at_once(served: Served) -> None:
    config = generation_pb2.GenerationConfig(max_length=4, min_new_tokens=9)
    found = summaries(generate(served, tokens(PROMPT), tokens([1]), generation_config=config))
    assert (list(found[0].token_ids), found[0].finish_reason) == ([], types_pb2.FINISH_REASON_LENGTH)
    assert (len(found[1].token_ids), found[1].finish_reason) == (3, types_pb2.FINISH_REASON_LENGTH)
    alone = summaries(generate(served, tokens(PROMPT), generation_config=config))
    assert alone[0].finish_reason == types_pb2.FINISH_REASON_LENGTH


@pytest.mark.parametrize(
    ("inputs", "fields", "code", "field"),
    [
        ([], {}, "INVALID_ARGUMENT", "inputs"),
        ([tokens([1], row=0)], {}, "INVALID_ARGUMENT", "inputs[0].row"),
        ([tokens([1]), tokens([512])], {}, "INVALID_ARGUMENT", "inputs[1].tokens.ids[0]"),
        ([tokens([1, 2], mask=[False, False])], {}, "INVALID_ARGUMENT", "inputs[0].tokens"),
        ([tokens([1])], {"generation_config": {"min_p": 2}}, "INVALID_ARGUMENT", "generation_config.min_p"),
        ([tokens([1])] * 17, {}, "INVALID_ARGUMENT", "batch_size"),
        ([tokens([1] * 513)], {}, "OUT_OF_RANGE", None),
        ([tokens([1])], {"model": "nothing"}, "NOT_FOUND", None),
        ([tokens([1])], {"adapter": "nothing"}, "NOT_FOUND", None),
    ],
)
def test_what_cannot_be_generated_is_refused_and_leaves_no_session(
    served: Served, inputs: list[Any], fields: dict[str, Any], code: str, field: str | None
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        generate(served, *inputs, **fields)
    refusal = Refusal(caught.value)
    assert (refusal.code.name, refusal.fields) == (code, [] if field is None else [field])
    wait_until(lambda: not any(s.session_id.startswith("generate-") for s in served.engine.snapshots()), "no session")


def test_the_session_is_gone_after_the_last_row() -> None:
    with serving() as served:
        generate(served, tokens(PROMPT), tokens([7]), generation_config={"max_new_tokens": 3})
        wait_until(lambda: served.engine.stats().sessions == 0, "the session to end")
        assert served.engine.stats().slots_used == 0


def test_interrupting_it_finishes_its_rows_as_stopped(served: Served) -> None:
    request = pb.GenerateRequest(inputs=[tokens(PROMPT), tokens([7])], generation_config={"min_new_tokens": 400})
    call = served.generator.Generate(request, timeout=TIMEOUT)
    next(call)
    (session,) = [s.session_id for s in served.engine.snapshots() if s.session_id.startswith("generate-")]
    served.generator.Interrupt(pb.InterruptRequest(session_id=session), timeout=TIMEOUT)
    found = summaries(list(call))
    assert {row.finish_reason for row in found.values()} == {types_pb2.FINISH_REASON_STOPPED}
    assert len(found) == 2
