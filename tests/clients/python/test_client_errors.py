"""The errors of the client: what the server said is kept, by call and by stream, for both clients."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from google.rpc import code_pb2

import tokenloom
from tokenloom import errors
from tokenloom.v1 import types_pb2


def test_a_bad_setting_names_its_field_and_what_is_allowed(client: Any) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        client.create_session("def", model="tiny", top_p=1.5)
    (violation,) = caught.value.field_violations
    assert violation.field == "generation_config.top_p"
    assert "1" in violation.description
    assert caught.value.metadata["field"] == violation.field


def test_call_and_stream_give_the_same_error(session: Any) -> None:
    with pytest.raises(errors.InvalidArgument) as by_call:
        session.append_tokens([5, 100_000])
    with session.converse() as conversation, pytest.raises(errors.InvalidArgument) as by_stream:
        conversation.append_tokens([5, 100_000]).result()
    for name in ("message", "reason", "metadata", "field_violations", "retry_delay"):
        assert getattr(by_call.value, name) == getattr(by_stream.value, name)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda session: session.append_tokens([5, -1]), "tokens[1]"),
        (lambda session: session.append_tokens([0.5]), "tokens"),
        (lambda session: session.append_tokens([[7], [8]], rows=[0]), "rows"),
        (lambda session: session.append_tokens([7, 8], attention_mask=[1]), "attention_mask"),
        (lambda session: session.rewind_to(-1), "length"),
        (lambda session: session.generate_tokens(-1), "steps"),
        (lambda session: session.get_sequence(-1), "row"),
        (lambda session: session.get_logits(dtype="int8"), "dtype"),
        (lambda session: session.get_logits(top_k=1, token_ids=[1]), "token_ids"),
        (lambda session: session.fork(no_such_setting=1), "no_such_setting"),
        (lambda session: session.set_model_input("x", "text"), "x"),
        (lambda session: session.set_logits(tokenloom.edit.add([1, 2], [0.5])), "values"),
        (lambda session: session.set_logits(tokenloom.edit.allow([1, 0])), "mask"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name_before_it_is_sent(session: Any, call: Any, field: str) -> None:
    with pytest.raises(errors.InvalidArgument) as caught:
        call(session)
    assert caught.value.field_violations[0].field == field
    assert caught.value.reason == "FIELD_INVALID"


def test_a_limit_says_when_to_try_again() -> None:
    said = types_pb2.OperationError(
        code=code_pb2.RESOURCE_EXHAUSTED, message="256 sessions", reason="SESSION_LIMIT", metadata={"limit": "256"}
    )
    said.retry_delay.FromMilliseconds(1500)
    error = errors.from_operation_error(said)
    assert isinstance(error, errors.ResourceExhausted)
    assert (error.reason, error.metadata) == ("SESSION_LIMIT", {"limit": "256"})
    assert error.retry_delay == timedelta(seconds=1.5)


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (code_pb2.NOT_FOUND, "SESSION_EXPIRED", errors.SessionExpired),
        (code_pb2.NOT_FOUND, "SESSION_NOT_FOUND", errors.NotFound),
        (code_pb2.ABORTED, "POSITION_MISMATCH", errors.LengthMismatch),
        (code_pb2.OUT_OF_RANGE, "CONTEXT_LENGTH_EXCEEDED", errors.ContextLengthExceeded),
        (code_pb2.UNAVAILABLE, "DRAINING", errors.Unavailable),
        (code_pb2.CANCELLED, "CANCELLED", errors.Cancelled),
        (code_pb2.UNKNOWN, "", errors.Internal),
        (code_pb2.DATA_LOSS, "", errors.Internal),
    ],
)
def test_every_code_has_its_class(code: int, reason: str, expected: type[errors.TokenloomError]) -> None:
    error = errors.from_operation_error(types_pb2.OperationError(code=code, reason=reason, message="text"))
    assert type(error) is expected
    assert str(error) == "text"
