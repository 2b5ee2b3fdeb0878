"""Retries and concurrent writers: request ids give the first answer again, expected lengths find out strangers."""

from __future__ import annotations

import pytest
from driver import Pending, Session, prompt, raises, tokens_of

from runtime import Engine, GenerationConfig
from runtime import operations as ops
from runtime.errors import InvalidArgument, LengthMismatch, ResourceExhausted, TokenloomError
from runtime.session import KEPT_RESULTS

NEVER_DONE = {"min_new_tokens": 10_000}


def test_a_retry_gets_the_first_answer_and_changes_nothing(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    first = session.generate(3, request_id="a")
    assert session.generate(3, request_id="a") == first
    assert session.length == 7
    session.append([9, 8], request_id="b").append([9, 8], request_id="b")
    session.rewind(5, request_id="c").append([1]).rewind(5, request_id="c")
    assert session.length == 6


def test_a_retry_while_the_first_is_running_waits_for_its_result(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    first = session.start(ops.Generate, steps=60, request_id="a")
    first.next_step()
    second = session.start(ops.Generate, steps=60, request_id="a")
    assert second.result() is first.result()
    assert session.length == 64


def test_a_retry_that_is_queued_behind_the_first_does_not_run_again(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    pending = [session.start(ops.Generate, steps=5, request_id="a") for _ in range(5)]
    assert len({id(one.result()) for one in pending}) == 1
    assert session.length == 9


def test_an_id_means_nothing_to_another_kind_of_operation_or_session(engine: Engine) -> None:
    session, other = (Session(engine, prompt(4), **NEVER_DONE) for _ in range(2))
    session.generate(2, request_id="a")
    session.append([5], request_id="a")
    other.generate(2, request_id="a")
    assert (session.length, other.length) == (7, 6)


def test_an_operation_that_failed_may_be_tried_again_with_its_id(engine: Engine) -> None:
    session = Session(engine, prompt(4), max_length=5)
    with pytest.raises(TokenloomError):
        session.append([1, 2], request_id="a")
    assert session.append([1], request_id="a").length == 5


def test_the_oldest_of_many_results_are_forgotten(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    for index in range(KEPT_RESULTS + 1):
        session.generate(1, request_id=f"r{index}")
    assert session.generate(1, request_id=f"r{KEPT_RESULTS}").snapshot.length == 4 + KEPT_RESULTS + 1
    session.generate(1, request_id="r0")
    assert session.length == 4 + KEPT_RESULTS + 2


def test_a_retried_create_is_the_same_session(engine: Engine) -> None:
    fields = {"request_id": "create-1", "inputs": tokens_of([prompt(4)]), "config": GenerationConfig()}
    first, second = (Pending(engine, ops.Create, **fields) for _ in range(2))
    session_id = first.result().snapshot.session_id
    assert second.result().snapshot.session_id == session_id
    third = Pending(engine, ops.Create, **fields).result()
    assert (third.snapshot.session_id, third.snapshot.length) == (session_id, 4)


def test_a_request_id_is_at_most_128_bytes(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    session.generate(1, request_id="é" * 64)
    with raises(InvalidArgument, field="request_id"):
        session.generate(1, request_id="é" * 64 + "x")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (ops.Append, {"inputs": tokens_of([[5]])}),
        (ops.Generate, {"steps": 1}),
        (ops.Rewind, {"length": 1}),
        (ops.GetLogits, {}),
        (ops.SetAdapter, {"adapter": ""}),
        (ops.Fork, {"new_session_id": ""}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_another_length_than_expected_is_told_and_nothing_is_done(
    engine: Engine, kind: type[ops.Operation], fields: dict[str, object]
) -> None:
    session = Session(engine, prompt(4), [5], **NEVER_DONE)
    before = engine.stats().sessions
    error = session.start(kind, expected_length=3, **fields).error()
    assert isinstance(error, LengthMismatch)
    assert error.metadata == {"expected": "3", "actual": "4"}
    assert [len(row) for row in session.sequences()] == [4, 1]
    assert engine.stats().sessions == before
    assert session.start(kind, expected_length=4, **fields).result() is not None


def test_an_expected_length_is_compared_when_the_operation_starts(engine: Engine) -> None:
    """Pipelined operations can each say where they continue."""
    session = Session(engine, prompt(4), **NEVER_DONE)
    pending = [session.start(ops.Generate, steps=2, expected_length=4 + 2 * index) for index in range(3)]
    assert [one.result().snapshot.length for one in pending] == [6, 8, 10]


def test_a_queue_has_a_limit_and_says_when_it_is_reached(engine: Engine) -> None:
    session = Session(engine, prompt(4), **NEVER_DONE)
    hooked = session.start(ops.Generate, steps=1, hook=ops.LogitsSelector(top_k=1))
    hooked.next_hook()
    limit = engine.options.max_queued_operations
    queued = [session.start(ops.GetState) for _ in range(limit)]
    error = session.start(ops.GetState).error()
    assert isinstance(error, ResourceExhausted)
    assert (error.reason, error.retry_after > 0) == ("QUEUE_FULL", True)
    hooked.answer()
    assert {one.result().snapshot.length for one in queued} == {5}
