"""One table: every runtime error has a code, and both forms say the same."""

from __future__ import annotations

import inspect
import logging

import pytest
from google.rpc import code_pb2, error_details_pb2

from runtime import errors
from service.errors import CODES, call_status, operation_error, rich_status

EXAMPLES = [
    errors.InvalidArgument("generation_config.temperature", -1.0, "a number in (0, 100]"),
    errors.NotFound("session", "abc"),
    errors.NotFound("model", "lama", ["llama"]),
    errors.AlreadyExists("session", "abc"),
    errors.PermissionDenied("path '../x' leaves the model directories", path="../x"),
    errors.FailedPrecondition("SESSION_EMPTY", "row 0 has no tokens"),
    errors.LengthMismatch(3, 5),
    errors.ContextLengthExceeded(500, 20, 512, 1),
    errors.ResourceExhausted("QUEUE_FULL", "64 operations are queued", 0.25, limit=64),
    errors.Cancelled(),
    errors.Unavailable("DRAINING", "the server is going away", 2.0),
    errors.Unimplemented("not yet"),
    errors.EngineError("a run failed"),
]


def test_every_runtime_error_is_in_the_table() -> None:
    kinds = {
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.TokenloomError) and kind is not errors.TokenloomError
    }
    assert kinds == set(CODES) == {type(error) for error in EXAMPLES}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_both_forms_tell_the_same_facts(error: errors.TokenloomError) -> None:
    facts = operation_error(error)
    status = rich_status(facts)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (facts.code, facts.message) == (status.code, status.message) == (CODES[type(error)], error.message)
    assert (info.reason, dict(info.metadata)) == (facts.reason, dict(facts.metadata)) == (error.reason, error.metadata)
    assert info.domain == "tokenloom.dev"


def test_invalid_arguments_name_the_field_and_what_is_allowed() -> None:
    facts = operation_error(EXAMPLES[0])
    assert [(v.field, v.description) for v in facts.field_violations] == [
        ("generation_config.temperature", "a number in (0, 100]")
    ]
    request = error_details_pb2.BadRequest()
    assert rich_status(facts).details[1].Unpack(request)
    assert request.field_violations[0].field == "generation_config.temperature"


def test_errors_that_waiting_may_help_say_how_long() -> None:
    for error, seconds in ((EXAMPLES[8], 0.25), (EXAMPLES[10], 2.0)):
        facts = operation_error(error)
        retry = error_details_pb2.RetryInfo()
        assert rich_status(facts).details[-1].Unpack(retry)
        assert facts.retry_delay.ToTimedelta().total_seconds() == seconds
        assert retry.retry_delay.ToTimedelta().total_seconds() == seconds
    assert not operation_error(EXAMPLES[0]).HasField("retry_delay")


def test_unexpected_errors_are_told_by_an_id_and_logged_in_full(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        facts = operation_error(ZeroDivisionError("secret"))
    assert (facts.code, facts.reason) == (code_pb2.INTERNAL, "INTERNAL")
    assert "secret" not in str(facts)
    (record,) = caplog.records
    assert record.error_id == facts.metadata["id"]  # type: ignore[attr-defined]
    assert "secret" in caplog.text


def test_a_status_fits_into_trailers_whatever_the_values_are() -> None:
    long = "\N{SNOWMAN}" * 10_000
    for error in (
        errors.InvalidArgument(long, long, long),
        errors.NotFound("input", long, [long + str(index) for index in range(50)]),
        errors.FailedPrecondition("X", long, **{f"key{index}": long for index in range(20)}),
    ):
        trailers = call_status(operation_error(error)).trailing_metadata
        size = sum(len(key) + len(value) for key, value in trailers)
        assert size < 3000
        assert len(operation_error(error).message.encode()) <= 480


def test_text_that_is_no_unicode_does_not_break_a_status() -> None:
    assert operation_error(errors.FailedPrecondition("X", "lone \ud800 surrogate")).message
