"""What runs next: decodes together by adapter, prefills one at a time within a budget, nobody starved."""

from __future__ import annotations

import itertools

import pytest
from driver import Session, prompt, raises, running, tokens_of
from hypothesis import given
from hypothesis import strategies as st

from runtime import EngineOptions, Model
from runtime import operations as ops
from runtime.errors import InvalidArgument
from runtime.scheduler import MAX_PREFILL_ITERATIONS, Plan, Policy, RowNeed, plan

NEEDS = st.lists(
    st.builds(
        RowNeed,
        key=st.integers(0, 10**6),
        adapter=st.sampled_from(["", "a", "b"]),
        start=st.integers(0, 500),
        count=st.integers(1, 128),
        alone=st.booleans(),
    ),
    max_size=30,
    unique_by=lambda need: need.key,
)


def need(key: int, count: int = 1, adapter: str = "", alone: bool = False) -> RowNeed:
    return RowNeed(key, adapter, 0, count, alone)


def keys(needs: list[RowNeed]) -> list[int]:
    return [one.key for one in needs]


def test_single_positions_run_together_by_adapter() -> None:
    result = plan([need(1), need(2, adapter="a"), need(3), need(4, adapter="a")], Policy.FIFO, 256, 0)
    assert [keys(batch) for batch in result.decodes] == [[1, 3], [2, 4]]


def test_runs_are_taken_in_order_of_arrival_within_the_budget() -> None:
    result = plan([need(1, 100), need(2, 100), need(3, 100), need(4, 20)], Policy.FIFO, 256, 0)
    assert keys(result.prefills) == [1, 2]  # 4 would fit, but 3 came first


def test_the_first_run_is_taken_whatever_its_size() -> None:
    assert keys(plan([need(1, 500)], Policy.FIFO, 2, 0).prefills) == [1]


def test_a_row_with_inputs_of_its_own_runs_alone() -> None:
    result = plan([need(1, alone=True), need(2)], Policy.FIFO, 256, 0)
    assert keys(result.prefills) == [1]
    assert [keys(batch) for batch in result.decodes] == [[2]]


def test_fifo_decodes_in_every_iteration() -> None:
    assert plan([need(1, 128), need(2)], Policy.FIFO, 256, 0).decodes == [[need(2)]]


def test_prefill_first_holds_decodes_back_for_a_while_only() -> None:
    needs = [need(1, 128), need(2)]
    held = [bool(plan(needs, Policy.PREFILL_FIRST, 256, streak).decodes) for streak in range(6)]
    assert held == [False] * MAX_PREFILL_ITERATIONS + [True] * (6 - MAX_PREFILL_ITERATIONS)


def test_prefill_first_without_prefills_decodes() -> None:
    assert plan([need(2)], Policy.PREFILL_FIRST, 256, 0).decodes == [[need(2)]]


@given(needs=NEEDS, policy=st.sampled_from(Policy), budget=st.integers(1, 512), streak=st.integers(0, 10))
def test_every_plan_makes_progress_and_takes_no_row_twice(
    needs: list[RowNeed], policy: Policy, budget: int, streak: int
) -> None:
    result: Plan = plan(needs, policy, budget, streak)
    taken = [one for batch in result.decodes for one in batch] + result.prefills
    assert len(set(keys(taken))) == len(taken)
    assert bool(taken) == bool(needs)
    assert all(one.count == 1 and not one.alone for batch in result.decodes for one in batch)
    assert all(len({one.adapter for one in batch}) == 1 for batch in result.decodes)
    assert sum(one.count for one in result.prefills[1:]) <= budget


# --- in an engine ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", Policy)
def test_a_long_prompt_does_not_stop_others_from_stepping(llama: Model, policy: Policy) -> None:
    """Steps of one session are told while the prompt of another is still being computed."""
    with running(llama, prefill_chunk=2, prefill_budget=2, policy=policy) as engine:
        chatting = Session(engine, prompt(4), min_new_tokens=10_000)
        ends: list[str] = []
        loading = Session(engine, batch_size=2)
        long = loading.start(ops.Append, inputs=tokens_of([prompt(llama.max_length - 1, row) for row in range(2)]))
        long.future.add_done_callback(lambda _: ends.append("prefill"))
        steps = chatting.start(ops.Generate, steps=40)
        steps.future.add_done_callback(lambda _: ends.append("steps"))
        long.result()
        steps.result()
    assert ends == ["steps", "prefill"]


@pytest.mark.parametrize("chunk", [1, 0, -1])
def test_chunks_of_fewer_than_two_positions_are_refused(llama: Model, chunk: int) -> None:
    """A run must never be cut into single positions."""
    with raises(InvalidArgument, field="prefill_chunk"), running(llama, prefill_chunk=chunk):
        pass


def test_the_default_chunk_fits_the_default_budget() -> None:
    options = EngineOptions()
    assert 2 <= options.prefill_chunk <= options.prefill_budget


@pytest.mark.parametrize("policy", Policy)
def test_between_two_steps_of_a_session_others_compute_a_chunk_at_most(
    llama: Model, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or, where prompts go first, so many chunks as there may be iterations without a step."""
    with running(llama, prefill_chunk=16, prefill_budget=16, policy=policy) as engine:
        plans: list[Plan] = []
        execute = engine._executor.execute
        monkeypatch.setattr(engine._executor, "execute", lambda plan, runs: plans.append(plan) or execute(plan, runs))
        chatting = Session(engine, prompt(4), min_new_tokens=10_000)
        loading = [Session(engine) for _ in range(3)]
        steps = chatting.start(ops.Generate, steps=200)
        steps.next_step()
        appends = [
            session.start(ops.Append, inputs=tokens_of([prompt(llama.max_length - 1, row)]))
            for row, session in enumerate(loading)
        ]
        for pending in (steps, *appends):
            pending.result()
    decoded = [index for index, one in enumerate(plans) if one.decodes]
    between = [
        sum(need.count for one in plans[start:end] for need in one.prefills)
        for start, end in itertools.pairwise(decoded)
    ]
    held = MAX_PREFILL_ITERATIONS if policy is Policy.PREFILL_FIRST else 0
    assert 0 < max(between) <= 16 * (1 + held)
