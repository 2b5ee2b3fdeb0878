"""Forking: another session with the same state, that goes its own way."""

from __future__ import annotations

import numpy as np
import pytest
from driver import Session, prompt, raises, running

from runtime import Engine, Model, ModelOptions
from runtime.errors import AlreadyExists, InvalidArgument
from runtime.operations import FinishReason

SAMPLED = {"do_sample": True, "temperature": 1.5, "top_k": 0, "seed": 3, "min_new_tokens": 10_000}


def test_a_fork_gives_the_tokens_its_original_would(any_engine: Engine) -> None:
    session = Session(any_engine, prompt(5), prompt(7, 1), **SAMPLED)
    session.generate(3)
    fork = session.fork()
    assert fork.sequences() == session.sequences()
    np.testing.assert_array_equal(fork.logits(), session.logits())
    assert fork.generate(6).rows == session.generate(6).rows


def test_neither_changes_the_other(any_engine: Engine) -> None:
    session = Session(any_engine, prompt(5), **SAMPLED)
    once = session.tokens(4)
    fork = session.fork()
    fork.rewind(2).append(prompt(30, 4)).generate(3)
    assert session.sequence() == prompt(5) + once
    untouched = Session(any_engine, prompt(5), **SAMPLED)
    untouched.generate(4)
    np.testing.assert_array_equal(session.logits(), untouched.logits())
    session.close()
    assert len(fork.tokens(2)) == 2


def test_a_fork_costs_no_run(engine: Engine) -> None:
    session = Session(engine, prompt(50))
    before = engine.stats().model_seconds
    fork = session.fork()
    np.testing.assert_array_equal(fork.logits(), session.logits())
    assert engine.stats().model_seconds == before


@pytest.mark.parametrize("host_cache_bytes", [0, 1 << 30])
@pytest.mark.parametrize("parked", [False, True])
def test_a_fork_without_a_free_slot_is_the_same(any_model: Model, host_cache_bytes: int, parked: bool) -> None:
    """Its keys and values go to the host, or are computed again; those of a parked original are shared."""
    model = Model.load(any_model.config.graph.parent, options=ModelOptions(threads=1, slots=1))
    with running(model, host_cache_bytes=host_cache_bytes) as engine:
        session = Session(engine, prompt(9), **SAMPLED)
        session.generate(4)
        if parked:
            Session(engine, prompt(3)).logits()
        forks = [session.fork() for _ in range(3)]
        expected = session.tokens(5)
        assert [fork.tokens(5) for fork in forks] == [expected] * 3
        session.close()
        for fork in forks:
            fork.close()
        assert engine.stats().slots_used == 0


def test_another_seed_makes_another_way(engine: Engine) -> None:
    session = Session(engine, prompt(5), **SAMPLED)
    fork = session.fork(seed=4)
    assert fork.config.seed == 4
    assert fork.tokens(8) != session.tokens(8)
    again = Session(engine, prompt(5), **{**SAMPLED, "seed": 4})
    assert again.tokens(8) == fork.sequence()[5:]


def test_another_config_holds_from_there_on(engine: Engine) -> None:
    session = Session(engine, prompt(5), **SAMPLED)
    session.generate(2)
    fork = session.fork(do_sample=False, max_new_tokens=4, min_new_tokens=0, eos_token_id=(511,))
    assert fork.generate(None).steps == 2
    assert fork.finish_reasons() == [FinishReason.LENGTH]
    assert (fork.config.do_sample, session.config.do_sample) == (False, True)


def test_a_fork_may_be_named_and_the_name_must_be_free(engine: Engine) -> None:
    session = Session(engine, prompt(5))
    assert session.fork(new_session_id="twin-1").id == "twin-1"
    with pytest.raises(AlreadyExists):
        session.fork(new_session_id="twin-1")
    with raises(InvalidArgument, field="session_id"):
        session.fork(new_session_id="Twin 1")


def test_a_fork_cannot_be_longer_than_it_may_get(engine: Engine) -> None:
    session = Session(engine, prompt(5))
    with raises(InvalidArgument, field="generation_config.max_length"):
        session.fork(max_length=4)


def test_a_session_without_tokens_can_be_forked(engine: Engine) -> None:
    fork = Session(engine, **SAMPLED).fork()
    assert fork.append(prompt(3)).length == 3


def test_logits_that_were_set_are_the_forks_too(engine: Engine) -> None:
    session = Session(engine, prompt(3)).force(77)
    assert session.fork().tokens(1) == [77]
    assert session.tokens(1) == [77]
