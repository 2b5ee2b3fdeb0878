"""Sessions from creation to end: names, limits, expiry, and an engine that goes down."""

from __future__ import annotations

import json
import queue
import time

import numpy as np
import pytest
from driver import GPT2, TIMEOUT, Pending, Session, copy_of, load_model, prompt, raises, running, tokens_of

from runtime import Engine, Model, ModelOptions
from runtime import operations as ops
from runtime.errors import (
    AlreadyExists,
    Cancelled,
    EngineError,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Unavailable,
)

NEVER_DONE = {"min_new_tokens": 10_000}


@pytest.mark.parametrize("name", ["a", "0-9", "x" * 63])
def test_a_session_may_be_named(engine: Engine, name: str) -> None:
    session = Session(engine, session_id=name)
    assert session.id == name
    with pytest.raises(AlreadyExists):
        Session(engine, session_id=name)
    session.close()
    Session(engine, session_id=name).close()


@pytest.mark.parametrize("name", ["A", "a b", "x" * 64, "é", "a/b", "a\n"])
def test_names_that_cannot_be_are_refused(engine: Engine, name: str) -> None:
    with raises(InvalidArgument, field="session_id"):
        Session(engine, session_id=name)


def test_without_a_name_one_is_made(engine: Engine) -> None:
    names = {Session(engine).id for _ in range(5)}
    assert len(names) == 5


@pytest.mark.parametrize(("field", "value"), [("batch_size", 0), ("batch_size", 17), ("idle_timeout", 0.0)])
def test_sizes_and_times_that_cannot_be_are_refused(engine: Engine, field: str, value: float) -> None:
    with raises(InvalidArgument, field=field):
        Session(engine, **{field: value})


def test_an_adapter_that_is_not_loaded_cannot_be_created_with(engine: Engine) -> None:
    with raises(NotFound, reason="ADAPTER_NOT_FOUND"):
        Session(engine, adapter="nobody")


def test_there_may_be_so_many_sessions(llama: Model) -> None:
    with running(llama, max_sessions=2) as engine:
        first, second = Session(engine), Session(engine)
        for create in (lambda: Session(engine), lambda: first.fork()):
            with raises(ResourceExhausted, reason="SESSION_LIMIT"):
                create()
        second.close()
        Session(engine)


def test_a_created_session_tells_its_state_and_settings(engine: Engine) -> None:
    session = Session(engine, prompt(3), [5], max_new_tokens=7, idle_timeout=50.0, seed=3)
    assert [row.length for row in session.state.rows] == [3, 1]
    assert (session.state.model, session.state.adapter, session.state.is_done) == ("tiny-llama", "", False)
    assert 40 < session.state.expire_time - time.time() <= 50
    config = session.config
    assert (config.max_new_tokens, config.seed, config.eos_token_id, config.max_length) == (7, 3, (2,), 512)
    assert engine.snapshot(session.id).config == config
    assert session.id in [snapshot.session_id for snapshot in engine.snapshots()]


def test_what_is_not_there_is_told_apart_from_what_idled_out(llama: Model) -> None:
    with running(llama) as engine:
        session = Session(engine, prompt(3), idle_timeout=0.05)
        wait_until_expired(engine, session)
        for kind, fields in [(ops.GetState, {}), (ops.Close, {}), (ops.Generate, {"steps": 1}), (ops.Interrupt, {})]:
            with raises(NotFound, reason="SESSION_EXPIRED"):
                session.do(kind, **fields)
            with raises(NotFound, reason="SESSION_NOT_FOUND"):
                Pending(engine, kind, session_id="never-was", **fields).result()
        with raises(NotFound, reason="SESSION_EXPIRED"):
            engine.snapshot(session.id)
        assert (engine.stats().sessions, engine.stats().slots_used) == (0, 0)
        Session(engine, session_id=session.id).generate(0, inputs=tokens_of([[5]]))
        assert not engine.is_expired(session.id)


def wait_until_expired(engine: Engine, session: Session) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not engine.is_expired(session.id):
        assert time.monotonic() < deadline, "the session did not expire"


def test_the_end_of_a_session_is_told_with_its_reason(llama: Model) -> None:
    ends: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    engine = Engine(llama, on_session_end=lambda session_id, reason: ends.put((session_id, reason)))
    engine.start()
    Session(engine, session_id="closed").close()
    Session(engine, session_id="idle", idle_timeout=0.05)
    assert [ends.get(timeout=TIMEOUT) for _ in range(2)] == [("closed", "SESSION_CLOSED"), ("idle", "SESSION_EXPIRED")]
    engine.stop()


def test_use_puts_the_expiry_off_and_a_running_operation_holds_it(llama: Model) -> None:
    with running(llama) as engine:
        session = Session(engine, prompt(3), idle_timeout=0.4, **NEVER_DONE)
        first = session.state.expire_time
        assert session.generate(1).snapshot.expire_time > first
        assert session.generate(400).steps == 400


def test_a_generate_whose_client_never_answers_ends_with_the_expiry(llama: Model) -> None:
    with running(llama) as engine:
        session = Session(engine, prompt(3), idle_timeout=0.1, **NEVER_DONE)
        pending = session.start(ops.Generate, steps=3, hook=ops.LogitsSelector(top_k=1))
        error = pending.error()
        assert isinstance(error, Cancelled)
        assert error.reason == "SESSION_EXPIRED"
        assert engine.is_expired(session.id)


def test_reading_a_snapshot_is_no_use(llama: Model) -> None:
    with running(llama) as engine:
        session = Session(engine, idle_timeout=60.0)
        before = session.state.expire_time
        assert engine.snapshot(session.id).snapshot.expire_time == before


def test_two_sessions_never_share_a_slot_when_a_cancel_meets_the_expiry(llama: Model) -> None:
    """Cancel and expiry of the same sessions at about the same moment (case 14)."""
    with running(llama) as engine:
        for seed in range(10):
            session = Session(engine, prompt(3, seed), idle_timeout=0.1, **NEVER_DONE)
            pending = session.start(ops.Generate, steps=2, hook=ops.LogitsSelector(top_k=1))
            pending.next_hook()
            if seed % 2:
                time.sleep(0.1)  # no wait for an event: it only makes the two meet
            pending.cancel()
            pending.future.exception(TIMEOUT)
        deadline = time.monotonic() + TIMEOUT
        while engine.stats().sessions:
            assert time.monotonic() < deadline
        assert engine.stats().slots_used == 0
        slots = 16
        sessions = [Session(engine, prompt(4, seed), **NEVER_DONE) for seed in range(slots)]
        steps = [session.start(ops.Generate, steps=5) for session in sessions]
        assert [one.result().steps for one in steps] == [5] * slots
        assert engine.stats().slots_used == slots


@pytest.fixture(scope="module")
def with_too_few_positions(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Its configuration promises 50 positions more than the graph has: ONNX Runtime refuses those."""
    folder = copy_of(GPT2, tmp_path_factory.mktemp("model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_positions": config["n_positions"] + 50}))
    return Model.load(folder, options=ModelOptions(threads=1))


def test_a_run_that_fails_fails_its_session_alone(with_too_few_positions: Model) -> None:
    with running(load_model(GPT2)) as engine:
        expected = Session(engine, prompt(6), **NEVER_DONE).tokens(60)
    positions = with_too_few_positions.max_length - 50
    with running(with_too_few_positions) as engine:
        mate = Session(engine, prompt(6), **NEVER_DONE).start(ops.Generate, steps=60)
        session = Session(engine, prompt(positions - 2), **NEVER_DONE)
        with pytest.raises(EngineError):
            session.generate(10)
        assert session.length == positions + 1  # the token past the last position was chosen and has no keys
        with pytest.raises(EngineError):
            session.append([5, 6, 7])
        assert session.length == positions + 1  # an append that failed has appended nothing
        assert mate.result().rows[0].token_ids == expected
        assert len(session.rewind(20).tokens(3)) == 3
        assert engine.alive


def test_an_append_that_fails_in_one_row_appends_to_none(with_too_few_positions: Model) -> None:
    with running(with_too_few_positions) as engine:
        positions = with_too_few_positions.max_length - 50
        session = Session(engine, prompt(positions - 2), prompt(5), max_new_tokens=1, eos_token_id=(511,))
        session.generate(1)
        with pytest.raises(EngineError):
            session.append([5, 6, 7, 8], [9, 10])
        assert [row.length for row in session.refresh().rows] == [positions - 1, 6]
        assert session.state.is_done  # as it was before
        assert session.do(ops.GetNextTokens).value == (session.sequence(0)[-1], session.sequence(1)[-1])
        rewound = session.rewind(5)
        fresh = Session(engine, prompt(positions - 2)[:5], prompt(5))
        np.testing.assert_array_equal(rewound.logits(), fresh.logits())


# --- the engine ends -------------------------------------------------------------------------------------------------


def test_a_draining_engine_takes_no_new_sessions_and_serves_the_old(llama: Model) -> None:
    with running(llama) as engine:
        session = Session(engine, prompt(3), **NEVER_DONE)
        engine.drain()
        assert engine.draining
        with raises(Unavailable, reason="DRAINING"):
            Session(engine)
        assert session.generate(3).steps == 3


def test_a_stop_with_grace_lets_operations_finish(llama: Model) -> None:
    engine = Engine(llama)
    engine.start()
    pending = Session(engine, prompt(3), **NEVER_DONE).start(ops.Generate, steps=50)
    engine.stop(grace=TIMEOUT)
    assert pending.result().steps == 50
    assert not engine.alive


def test_a_stop_without_grace_ends_operations_and_refuses_what_comes_later(llama: Model) -> None:
    engine = Engine(llama)
    engine.start()
    session = Session(engine, prompt(3), **NEVER_DONE)
    pending = session.start(ops.Generate, steps=500)
    pending.next_step()
    engine.stop()
    assert isinstance(pending.error(), Unavailable)
    assert isinstance(session.start(ops.GetState).error(), Unavailable)


def test_an_engine_that_never_started_is_not_alive(llama: Model) -> None:
    assert not Engine(llama).alive


def test_stats_count_what_was_done(llama: Model) -> None:
    with running(llama) as engine:
        Session(engine, prompt(5), prompt(7), **NEVER_DONE).generate(3)
        Session(engine)
        stats = engine.stats()
        assert (stats.sessions, stats.slots, stats.slots_used) == (2, 16, 2)
        assert (stats.prefill_tokens, stats.generated_tokens) == (12, 6)
        assert 0 < stats.model_seconds <= stats.busy_seconds
