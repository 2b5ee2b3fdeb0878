"""A session's tokens and logits are those it has alone, to the last bit, whatever the engine does beside it.

Batch mates, chunks of prefill, parking, recomputing and preemption may change when something is computed, never what.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from driver import Session, prompt, running

from runtime import Engine, Model, ModelOptions
from runtime import operations as ops
from runtime.model_store import ModelStore
from runtime.scheduler import Policy

LENGTHS = [5, 1, 17, 2, 40, 3, 9, 1, 64, 7, 2, 31, 12, 6, 230, 4]
"""Of the prompts of a batch of 16: ragged, with single tokens among them."""
SAMPLED = {"do_sample": True, "temperature": 0.9, "top_k": 40, "top_p": 0.95}
NEVER_DONE = {"min_new_tokens": 10_000}
"""Makes the end token impossible, so that every row goes on."""

Trace = tuple[np.ndarray, list[int]]


def prompts(model: Model, count: int = 16) -> list[list[int]]:
    """For a real model, whose runs take their time, none is longer than 8."""
    longest = 8 if model.vocab_size > 10_000 else max(LENGTHS)
    return [prompt(min(LENGTHS[row % 16], longest), row, model.vocab_size) for row in range(count)]


def trace(session: Session, steps: int) -> tuple[np.ndarray, list[list[int]]]:
    """Logits before each step and after the last [steps + 1, rows, vocab], and the sequences."""
    logits = [session.logits()]
    for _ in range(steps):
        session.generate(1)
        logits.append(session.logits())
    return np.stack(logits), session.sequences()


def traces_alone(model: Model, steps: int) -> list[Trace]:
    """For each prompt, logits [steps + 1, vocab] and tokens of a session that has an engine to itself."""
    traces = []
    for tokens in prompts(model):
        with running(model) as engine:
            logits, sequences = trace(Session(engine, tokens, **NEVER_DONE), steps)
            traces.append((logits[:, 0], sequences[0]))
    return traces


def check_batch(engine: Engine, rows: int, alone: list[Trace]) -> None:
    """A batch of so many rows against each row alone."""
    session = Session(engine, *prompts(engine.model, rows), **NEVER_DONE)
    logits, sequences = trace(session, len(alone[0][0]) - 1)
    session.close()
    for row, (expected, tokens) in enumerate(alone[:rows]):
        np.testing.assert_array_equal(logits[:, row], expected, f"row {row}")
        assert sequences[row] == tokens


@pytest.fixture(scope="module")
def alone(any_model: Model) -> list[Trace]:
    return traces_alone(any_model, steps=8)


# --- batch mates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", range(1, 17))
def test_every_row_of_a_ragged_batch_has_the_logits_it_has_alone(
    any_engine: Engine, alone: list[Trace], rows: int
) -> None:
    check_batch(any_engine, rows, alone)


def test_a_row_is_unmoved_by_mates_that_come_and_go(any_engine: Engine, alone: list[Trace]) -> None:
    """Slots that are free, idle, or of sessions of other ages lie between those that run."""
    inputs = prompts(any_engine.model)
    watched = Session(any_engine, inputs[4], **NEVER_DONE)
    mates: list[Session] = []
    logits = []
    for step in range(8):
        mates.append(Session(any_engine, inputs[step], **NEVER_DONE))
        if step % 2:
            mates.pop(0).close()
        busy = [mate.start(ops.Generate, steps=3) for mate in mates[1:]]
        logits.append(watched.logits()[0])
        watched.generate(1)
        for pending in busy:
            pending.result()
    for session in [*mates, watched]:
        session.close()
    np.testing.assert_array_equal(np.stack(logits), alone[4][0][:8])


def test_a_batch_that_runs_over_an_idle_full_row_leaves_it_as_it_was(llama: Model) -> None:
    """It has no free position for the dummy token that it gets in its neighbours' runs."""
    with running(llama) as engine:
        left, full, right = (Session(engine, prompt(length), **NEVER_DONE) for length in (4, llama.max_length, 5))
        names = [name for name in llama.inputs if name.startswith("past_key_values")]
        before = [full.do(ops.GetInput, name=name).value for name in names]
        for pending in [session.start(ops.Generate, steps=6) for session in (left, right)]:
            assert pending.result().steps == 6
        after = [full.do(ops.GetInput, name=name).value for name in names]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


# --- chunks of prefill -----------------------------------------------------------------------------------------------


def chunked(model: Model, length: int, chunk: int, **options: object) -> np.ndarray:
    """Logits after a prompt of this length and after each of three steps."""
    with running(model, prefill_chunk=chunk, **options) as engine:
        return trace(Session(engine, prompt(length, 1, model.vocab_size), **NEVER_DONE), steps=3)[0]


def test_every_chunk_gives_the_logits_of_a_whole_prefill(any_model: Model) -> None:
    whole = chunked(any_model, 150, 512)
    for chunk in range(2, 129):
        np.testing.assert_array_equal(chunked(any_model, 150, chunk), whole, f"chunk {chunk}")


@pytest.mark.parametrize("length", [2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 201])
def test_chunks_that_would_leave_a_single_token_give_the_same_logits(any_model: Model, length: int) -> None:
    whole = chunked(any_model, length, 512)
    for chunk in (2, 3, 4, 8, 16, 32, 64, 100, 128):
        np.testing.assert_array_equal(chunked(any_model, length, chunk), whole, f"chunk {chunk}")


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("budget", [2, 7, 64])
def test_budgets_and_policies_change_nothing(any_model: Model, alone: list[Trace], budget: int, policy: Policy) -> None:
    with running(any_model, prefill_chunk=16, prefill_budget=budget, policy=policy) as engine:
        check_batch(engine, 16, alone)


def test_single_appends_are_computed_alone_and_runs_as_runs(any_model: Model) -> None:
    """Whether the logits are read after each append, or all is computed again at the end, the kinds stay."""
    pieces = [[11], [12], prompt(5, 1), [13], prompt(2, 2), [14], [15], prompt(3, 3)]
    with running(any_model, host_cache_bytes=0) as engine:
        read, unread, dropped = (Session(engine, **NEVER_DONE) for _ in range(3))
        for piece in pieces:
            read.append(piece).logits()
            dropped.append(piece)
        # One operation after the other without waiting: nothing is read in between.
        appends = [unread.start(ops.Append, inputs={0: np.array(piece)}) for piece in pieces]
        for pending in appends:
            pending.result()
        filler = [Session(engine, prompt(4, seed)) for seed in range(16)]
        assert dropped.refresh().parked
        expected = trace(read, 3)[0]
        np.testing.assert_array_equal(trace(unread, 3)[0], expected)
        np.testing.assert_array_equal(trace(dropped, 3)[0], expected)
        assert len(filler) == 16


# --- parking and preemption ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[(1, 0), (1, 1 << 30), (2, 0), (3, 30_000)], ids=str)
def crowded(request: pytest.FixtureRequest, any_model: Model) -> Iterator[Engine]:
    """Far fewer slots than sessions; host memory for none, all or some of the parked rows."""
    slots, host_cache_bytes = request.param
    model = Model.load(any_model.config.graph.parent, options=ModelOptions(threads=1, slots=slots))
    with running(model, host_cache_bytes=host_cache_bytes, prefill_chunk=8) as engine:
        yield engine


def test_sessions_that_take_turns_in_few_slots_have_the_logits_they_have_alone(
    crowded: Engine, alone: list[Trace]
) -> None:
    sessions = [Session(crowded, tokens, **NEVER_DONE) for tokens in prompts(crowded.model, 8)]
    seen: list[list[np.ndarray]] = [[] for _ in sessions]
    for step in range(8):
        for index, session in enumerate(sessions):
            if step % 2:  # every other time the step itself has to bring the session back
                seen[index].append(session.logits()[0])
            else:
                seen[index].append(session.generate(0, read=ops.LogitsSelector()).logits.values[0])
            session.generate(1)
    assert crowded.stats().parked >= 5
    for session, logits, (expected, tokens) in zip(sessions, seen, alone, strict=False):
        np.testing.assert_array_equal(np.stack(logits), expected[:8])
        assert session.sequence() == tokens
        session.close()
    assert (crowded.stats().sessions, crowded.stats().slots_used) == (0, 0)


def test_a_preempted_session_gets_the_tokens_it_gets_alone(crowded: Engine) -> None:
    """While it generates others are served: none waits for its end."""
    model = crowded.model
    inputs = [prompt(6, seed, model.vocab_size) for seed in range(4)]
    settings = {**NEVER_DONE, **SAMPLED, "seed": 5}
    with running(model) as engine:
        expected = [Session(engine, tokens, **settings).tokens(110) for tokens in inputs]
    ends: list[int] = []
    sessions = [Session(crowded, tokens, **settings) for tokens in inputs]
    running_steps = []
    for index, (session, steps) in enumerate(zip(sessions, (110, 110, 110, 20), strict=True)):
        pending = session.start(ops.Generate, steps=steps)
        pending.future.add_done_callback(lambda _, index=index: ends.append(index))
        running_steps.append(pending)
    tokens = [pending.result().rows[0].token_ids for pending in running_steps]
    assert ends[0] == 3
    assert tokens == [*expected[:3], expected[3][:20]]
    for session in sessions:
        session.close()


# --- many at once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, SAMPLED], ids=["greedy", "sampled"])
def test_32_sessions_at_once_get_the_tokens_each_gets_alone(any_model: Model, settings: dict[str, object]) -> None:
    inputs = prompts(any_model, 32)
    expected = []
    for index, tokens in enumerate(inputs):
        with running(any_model) as engine:
            expected.append(Session(engine, tokens, seed=index, **settings).tokens(12))
    with running(any_model, host_cache_bytes=100_000) as engine:
        sessions = [Session(engine, seed=index, **settings) for index in range(32)]
        pending = [
            session.start(ops.Generate, inputs={0: np.array(tokens)}, steps=12)
            for session, tokens in zip(sessions, inputs, strict=True)
        ]
        tokens = [one.result().rows[0].token_ids for one in pending]
    assert tokens == expected


# --- the default model -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["fp32", "uint4"])
def real_model(request: pytest.FixtureRequest) -> Model:
    folder = ModelStore().get(precision=request.param)
    return Model.load(folder, options=ModelOptions(threads=2, max_length=512))


@pytest.mark.model
def test_batches_of_the_default_model_have_the_logits_of_each_row_alone(real_model: Model) -> None:
    alone = traces_alone(real_model, steps=2)
    with running(real_model) as engine:
        for rows in range(1, 17):
            check_batch(engine, rows, alone)


@pytest.mark.model
def test_chunks_of_the_default_model_give_the_logits_of_a_whole_prefill(real_model: Model) -> None:
    whole = chunked(real_model, 131, 512)
    for chunk in (7, 33, 64, 100, 128, 129):
        np.testing.assert_array_equal(chunked(real_model, 131, chunk), whole, f"chunk {chunk}")
