"""Ending operations before their time: at a token boundary, with the session usable and nothing left behind."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from driver import Pending, Session, prompt, raises, running, tokens_of

from runtime import Engine, Model, ModelOptions
from runtime import operations as ops
from runtime.errors import Cancelled, FailedPrecondition, InvalidArgument
from runtime.operations import FinishReason, LogitsEdit, LogitsSelector

NEVER_DONE = {"min_new_tokens": 10_000}
ANY = LogitsSelector(top_k=1)


def still_right(session: Session) -> None:
    """The session goes on as one that was never disturbed would from what it holds."""
    fresh = Session(session.engine, session.sequence(), **NEVER_DONE)
    np.testing.assert_allclose(session.logits(), fresh.logits(), atol=1e-4)
    assert session.tokens(3) == fresh.tokens(3)
    fresh.close()


# --- cancel at each stage --------------------------------------------------------------------------------------------


def test_a_cancelled_generate_gives_the_steps_it_made(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    pending = session.start(ops.Generate, steps=400)
    pending.next_step()
    pending.cancel()
    generated = pending.result()
    assert generated.interrupted
    assert 1 <= generated.steps < 400
    assert session.sequence()[4:] == generated.rows[0].token_ids
    still_right(session)


def test_a_cancelled_append_has_appended_and_stops_computing_at_the_next_chunk(llama: Model) -> None:
    """What is not computed yet is when it is needed (the runtime's half of case 12)."""
    with running(llama, prefill_chunk=2) as engine:
        session, clock = Session(engine, **NEVER_DONE), Session(engine, [5], **NEVER_DONE)
        pending = session.start(ops.Append, inputs=tokens_of([prompt(500)]))
        clock.generate(3)
        pending.cancel()
        assert pending.result().snapshot.length == 500
        assert engine.stats().prefill_tokens < 500
        session.rewind(490)
        still_right(session)


def test_a_retry_of_a_cancelled_append_appends_nothing_more(llama: Model) -> None:
    with running(llama, prefill_chunk=2) as engine:
        session, clock = Session(engine, **NEVER_DONE), Session(engine, [5], **NEVER_DONE)
        inputs = tokens_of([prompt(400)])
        pending = session.start(ops.Append, inputs=inputs, request_id="a")
        clock.generate(3)
        pending.cancel()
        assert session.do(ops.Append, inputs=inputs, request_id="a") == pending.result()
        assert session.length == 400


def test_an_operation_that_is_queued_is_taken_out(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    hooked = session.start(ops.Generate, steps=1, hook=ANY)
    hooked.next_hook()
    append, generate = session.start(ops.Append, inputs=tokens_of([[9]])), session.start(ops.Generate, steps=5)
    append.cancel()
    generate.cancel()
    assert isinstance(append.error(), Cancelled)
    assert isinstance(generate.error(), Cancelled)
    hooked.answer()
    hooked.result()
    assert session.length == 5


def test_a_generate_that_waits_for_its_client_can_be_cancelled(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    hooked = session.start(ops.Generate, steps=5, hook=ANY)
    hooked.next_hook()
    hooked.cancel()
    assert (hooked.result().interrupted, hooked.result().steps) == (True, 0)
    windowed = session.start(ops.Generate, steps=5, window=2)
    windowed.next_step(), windowed.next_step()
    windowed.cancel()
    assert (windowed.result().interrupted, windowed.result().steps) == (True, 2)
    assert session.length == 6


def test_a_cancelled_create_leaves_no_session(llama: Model) -> None:
    with running(llama, prefill_chunk=2) as engine:
        pending = Pending(engine, ops.Create, session_id="gone", inputs=tokens_of([prompt(500)]))
        pending.cancel()
        assert isinstance(pending.error(), Cancelled)
        assert (engine.stats().sessions, engine.stats().slots_used) == (0, 0)
        Session(engine, [5], session_id="gone").generate(1)


def test_cancelling_what_is_over_or_never_was_does_nothing(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    pending = session.start(ops.Generate, steps=2)
    pending.result()
    pending.cancel()
    engine.cancel(ops.GetState(session_id="nobody", sink=ops.FutureSink()))
    assert session.length == 6


def test_a_retry_can_be_cancelled_without_the_operation_it_waits_for(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    first = session.start(ops.Generate, steps=1, hook=ANY, request_id="a")
    first.next_hook()
    retry = session.start(ops.Generate, steps=1, hook=ANY, request_id="a")
    retry.cancel()
    assert isinstance(retry.error(), Cancelled)
    first.answer()
    assert first.result().steps == 1


def test_mates_of_cancelled_operations_get_their_tokens(llama: Model) -> None:
    with running(llama) as engine:
        expected = Session(engine, prompt(6), **NEVER_DONE).tokens(60)
    with running(llama) as engine:
        mate = Session(engine, prompt(6), **NEVER_DONE).start(ops.Generate, steps=60)
        for seed in range(20):
            session = Session(engine, prompt(3, seed), **NEVER_DONE)
            pending = session.start(ops.Generate, steps=100)
            pending.next_step()
            pending.cancel()
            pending.result()
            session.close()
        assert mate.result().rows[0].token_ids == expected
        assert engine.stats().slots_used == 1


# --- interrupt -------------------------------------------------------------------------------------------------------


def test_an_interrupt_overtakes_ends_what_generates_and_keeps_the_rest(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    hooked = session.start(ops.Generate, steps=5, hook=ANY)
    hooked.next_hook()
    append, queued = session.start(ops.Append, inputs=tokens_of([[9]])), session.start(ops.Generate, steps=5)
    session.do(ops.Interrupt)
    assert (hooked.result().interrupted, hooked.result().steps) == (True, 0)
    assert (queued.result().interrupted, queued.result().steps) == (True, 0)
    append.result()
    assert session.sequence() == [*prompt(4), 9]
    still_right(session)


def test_an_interrupt_of_an_idle_session_does_nothing(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    session.do(ops.Interrupt)
    assert len(session.tokens(2)) == 2


# --- hooks and windows -----------------------------------------------------------------------------------------------


def test_a_hook_gets_each_steps_logits_and_changes_them(any_engine: Engine) -> None:
    session = Session(any_engine, prompt(4), prompt(6), **NEVER_DONE)
    pending = session.start(ops.Generate, steps=3, hook=LogitsSelector())
    for token in (70, 80, 90):
        logits = pending.next_hook().values
        assert logits.shape == (2, any_engine.model.vocab_size)
        dense = np.zeros_like(logits)
        dense[0, token], dense[1, token + 1] = 1, 1
        pending.answer([LogitsEdit(values=dense)])
    assert [output.token_ids for output in pending.result().rows] == [[70, 80, 90], [71, 81, 91]]


def test_a_hook_may_stop_rows(engine: Engine) -> None:
    session = Session(engine, prompt(4), prompt(6), **NEVER_DONE)
    pending = session.start(ops.Generate, steps=None, hook=ANY)
    pending.next_hook()
    pending.answer(stop_rows=[1])
    pending.next_hook()
    pending.answer(stop_rows=[0])
    generated = pending.result()
    assert [row.length for row in generated.snapshot.rows] == [5, 6]
    assert {row.finish_reason for row in generated.snapshot.rows} == {FinishReason.STOPPED}


def test_a_hook_that_stops_rows_that_are_not_there_ends_the_operation(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    pending = session.start(ops.Generate, steps=2, hook=ANY)
    pending.next_hook()
    pending.answer(stop_rows=[1])
    assert isinstance(pending.error(), InvalidArgument)
    assert session.length == 4


def test_a_window_bounds_the_steps_that_are_not_acknowledged(engine: Engine) -> None:
    session, mate = (Session(engine, prompt(4), **NEVER_DONE) for _ in range(2))
    pending = session.start(ops.Generate, steps=10, window=3)
    for _ in range(3):
        pending.next_step()
    mate.generate(20)  # many steps later
    assert pending.steps_told() == 0
    pending.acknowledge(2)
    pending.next_step(), pending.next_step()
    mate.generate(20)
    assert (pending.steps_told(), pending.done) == (0, False)
    pending.acknowledge(100)
    assert pending.result().steps == 10
    with raises(InvalidArgument, field="credits"):
        session.generate(1, window=0)


def test_a_session_that_waits_for_its_client_gives_its_slot_up(llama: Model) -> None:
    model = Model.load(llama.config.graph.parent, options=ModelOptions(threads=1, slots=1))
    with running(model) as engine:
        held = Session(engine, prompt(4), **NEVER_DONE)
        pending = held.start(ops.Generate, steps=2, hook=ANY)
        pending.next_hook()
        Session(engine, prompt(5), **NEVER_DONE).generate(5)
        pending.answer()
        pending.next_hook()
        pending.answer()
        pending.result()
        still_right(held)


# --- close and terminate ---------------------------------------------------------------------------------------------


def test_a_close_ends_what_is_running_and_queued(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    running_one = session.start(ops.Generate, steps=500)
    running_one.next_step()
    queued = session.start(ops.Append, inputs=tokens_of([[9]]))
    used = engine.stats().slots_used
    session.close()
    for pending in (running_one, queued):
        error = pending.error()
        assert isinstance(error, Cancelled)
        assert error.reason == "SESSION_CLOSED"
    assert engine.stats().slots_used == used - 1


def test_a_terminated_session_runs_nothing_until_it_is_allowed_again(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    pending = session.start(ops.Generate, steps=400)
    pending.next_step()
    session.do(ops.SetRuntimeOption, key="terminate_session", value="1")
    error = pending.error()
    assert (type(error), error.reason) == (FailedPrecondition, "SESSION_TERMINATED")
    length = session.length
    with raises(FailedPrecondition, reason="SESSION_TERMINATED"):
        session.rewind(length - 1).generate(1)
    with raises(FailedPrecondition, reason="SESSION_TERMINATED"):
        session.logits()
    assert len(session.sequence()) == length - 1
    session.do(ops.SetRuntimeOption, key="terminate_session", value="0")
    still_right(session)


def test_runtime_options_have_known_keys_and_values(engine: Engine) -> None:
    session = Session(engine, prompt(4))
    for key in ("enable_profiling", "cuda_graph"):
        session.do(ops.SetRuntimeOption, key=key, value="1")
    with pytest.raises(InvalidArgument, match="terminate_session, enable_profiling, cuda_graph"):
        session.do(ops.SetRuntimeOption, key="terminate_sesion", value="1")
    with raises(InvalidArgument, field="value"):
        session.do(ops.SetRuntimeOption, key="terminate_session", value="yes")


def test_random_cancels_leave_no_slot_and_no_running_operation_behind(llama: Model) -> None:
    """From several threads, then normal work (the runtime's half of case 13)."""
    with running(llama, prefill_chunk=16) as engine:

        def client(seed: int) -> None:
            draw = np.random.default_rng(seed)
            for _ in range(25):
                session = Session(engine, **NEVER_DONE)
                inputs = tokens_of([prompt(int(draw.integers(1, 120)), seed)])
                pending = session.start(ops.Generate, inputs=inputs, steps=int(draw.integers(1, 20)))
                if draw.random() < 0.5 and draw.random() < 0.5:
                    pending.next_step()
                pending.cancel()
                assert pending.future.exception(30) is None or isinstance(pending.error(), Cancelled)
                session.close()

        threads = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stats = engine.stats()
        assert (stats.sessions, stats.running, stats.slots_used, stats.waiting) == (0, 0, 0, 0)
        still_right(Session(engine, prompt(8), **NEVER_DONE))
