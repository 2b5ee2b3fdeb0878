"""A session's status: which moves there are, and that a session follows them."""

from __future__ import annotations

import pytest
from driver import Session as Driven
from driver import prompt, running

from runtime import GenerationConfig, Model
from runtime import operations as ops
from runtime.generation_config import resolve
from runtime.operations import FinishReason
from runtime.session import Session, SessionStatus

LEGAL = {
    SessionStatus.IDLE: {SessionStatus.RUNNING, SessionStatus.SAMPLING, SessionStatus.HELD, SessionStatus.CLOSED},
    SessionStatus.RUNNING: {SessionStatus.IDLE, SessionStatus.SAMPLING, SessionStatus.HELD, SessionStatus.CLOSED},
    SessionStatus.SAMPLING: {SessionStatus.IDLE, SessionStatus.RUNNING, SessionStatus.HELD, SessionStatus.CLOSED},
    SessionStatus.HELD: {SessionStatus.IDLE, SessionStatus.RUNNING, SessionStatus.SAMPLING, SessionStatus.CLOSED},
    SessionStatus.CLOSED: set(),
}


def session(batch_size: int = 2) -> Session:
    parameters = resolve(GenerationConfig(seed=5), vocab_size=512, max_length=100)
    return Session("s", "model", parameters, batch_size, 60.0)


@pytest.mark.parametrize("before", SessionStatus)
@pytest.mark.parametrize("after", SessionStatus)
def test_a_session_makes_legal_moves_only(before: SessionStatus, after: SessionStatus) -> None:
    one = session()
    one.status = before
    if after is before or after in LEGAL[before]:
        one.move_to(after)
        assert one.status is after
    else:
        with pytest.raises(RuntimeError, match="no legal move"):
            one.move_to(after)
        assert one.status is before


def test_a_new_session_is_idle_open_and_empty() -> None:
    one = session()
    assert one.status is SessionStatus.IDLE
    assert (one.length, one.has_slots, one.is_parked) == (0, False, False)
    assert [row.seed for row in one.rows] == [5, 5 + 2**32]
    assert not one.snapshot().is_done


def test_a_session_is_done_when_every_row_is() -> None:
    one = session()
    one.rows[0].finish(FinishReason.EOS)
    assert not one.snapshot().is_done
    one.rows[1].finish(FinishReason.LENGTH)
    assert one.snapshot().is_done
    assert one.unfinished == []


def test_stats_follow_what_sessions_are_doing(llama: Model) -> None:
    """Held while its client is asked, running while it steps, idle and then parked afterwards."""
    with running(llama) as engine:
        one = Driven(engine, prompt(4), min_new_tokens=10_000)
        assert (engine.stats().running, one.state.parked) == (0, False)
        pending = one.start(ops.Generate, steps=1, hook=ops.LogitsSelector(top_k=1))
        pending.next_hook()
        assert engine.stats().running == 1
        pending.answer()
        pending.result()
        assert engine.stats().running == 0
        others = [Driven(engine, prompt(3, seed)) for seed in range(16)]
        assert one.refresh().parked
        assert engine.stats().parked == 1
        one.generate(1)
        assert not one.state.parked
        assert len(others) == engine.stats().parked + 15
