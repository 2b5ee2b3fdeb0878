"""The one table from runtime errors to what a client sees, in its two forms.

`operation_error` gives the facts as they ride in a Converse stream; `rich_status` puts the same facts into the status
of a call (google.rpc.ErrorInfo, BadRequest, RetryInfo). An exception nobody planned for becomes INTERNAL with an id;
what happened is in the log under that id and never on the wire.
"""

from __future__ import annotations

import logging
import uuid

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from runtime import errors
from tokenloom.v1 import types_pb2

log = logging.getLogger(__name__)

DOMAIN = "tokenloom.dev"

CODES: dict[type[errors.TokenloomError], int] = {
    errors.InvalidArgument: code_pb2.INVALID_ARGUMENT,
    errors.NotFound: code_pb2.NOT_FOUND,
    errors.AlreadyExists: code_pb2.ALREADY_EXISTS,
    errors.PermissionDenied: code_pb2.PERMISSION_DENIED,
    errors.FailedPrecondition: code_pb2.FAILED_PRECONDITION,
    errors.LengthMismatch: code_pb2.ABORTED,
    errors.ContextLengthExceeded: code_pb2.OUT_OF_RANGE,
    errors.ResourceExhausted: code_pb2.RESOURCE_EXHAUSTED,
    errors.Cancelled: code_pb2.CANCELLED,
    errors.Unavailable: code_pb2.UNAVAILABLE,
    errors.Unimplemented: code_pb2.UNIMPLEMENTED,
    errors.EngineError: code_pb2.INTERNAL,
}

# A status rides in trailers, twice (as text and in the details, in base64), and some proxies take no more than 4 KB.
MAX_MESSAGE_BYTES = 480
MAX_VALUE_BYTES = 120
MAX_METADATA = 6


def operation_error(error: BaseException) -> types_pb2.OperationError:
    """The facts of an error. One that is no TokenloomError is logged with its traceback and told by an id alone."""
    if not isinstance(error, errors.TokenloomError):
        return _unexpected(error)
    facts = types_pb2.OperationError(
        code=next(CODES[kind] for kind in type(error).__mro__ if kind in CODES),
        message=_clip(error.message, MAX_MESSAGE_BYTES),
        reason=error.reason,
    )
    for key, value in list(error.metadata.items())[:MAX_METADATA]:
        facts.metadata[key] = _clip(value, MAX_VALUE_BYTES)
    if isinstance(error, errors.InvalidArgument):
        facts.field_violations.add(
            field=_clip(error.field, MAX_VALUE_BYTES), description=_clip(error.allowed, MAX_MESSAGE_BYTES)
        )
    if isinstance(error, errors.ResourceExhausted | errors.Unavailable):
        facts.retry_delay.FromNanoseconds(round(error.retry_after * 1e9))
    return facts


def rich_status(facts: types_pb2.OperationError) -> status_pb2.Status:
    """The same facts as a google.rpc.Status."""
    status = status_pb2.Status(code=facts.code, message=facts.message)
    info = error_details_pb2.ErrorInfo(reason=facts.reason, domain=DOMAIN, metadata=facts.metadata)
    status.details.add().Pack(info)
    if facts.field_violations:
        request = error_details_pb2.BadRequest()
        for violation in facts.field_violations:
            request.field_violations.add(field=violation.field, description=violation.description)
        status.details.add().Pack(request)
    if facts.HasField("retry_delay"):
        delay = Duration(seconds=facts.retry_delay.seconds, nanos=facts.retry_delay.nanos)
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return status


def call_status(facts: types_pb2.OperationError) -> grpc.Status:
    """The same facts as `ServicerContext.abort_with_status` takes them."""
    return rpc_status.to_status(rich_status(facts))


def _unexpected(error: BaseException) -> types_pb2.OperationError:
    error_id = uuid.uuid4().hex
    log.error("unexpected error", extra={"error_id": error_id}, exc_info=error)
    return types_pb2.OperationError(
        code=code_pb2.INTERNAL,
        message=f"internal error; the server's log has the details under id {error_id}",
        reason="INTERNAL",
        metadata={"id": error_id},
    )


def _clip(text: str, limit: int) -> str:
    encoded = text.encode("utf-8", "backslashreplace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - 3].decode("utf-8", "ignore") + "..."
