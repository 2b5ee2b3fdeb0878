"""What can go wrong, as one tree: every error of this package is a `TokenloomError`.

Built from what the server says (google.rpc details of a status, or an OperationError inside a stream), never from the
text of a message. It must know nothing of sessions and channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import grpc
from google.rpc import code_pb2, error_details_pb2
from grpc_status import rpc_status

from tokenloom.v1 import types_pb2


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field at fault: its path in the request, and what is wrong and what is allowed."""

    field: str
    description: str


class TokenloomError(Exception):
    """Base of all errors of this package.

    message: for people; may change between versions.
    reason: for programs, in capitals (SESSION_NOT_FOUND, ...); "" where the server gave none.
    metadata: the values behind the message (limits, lengths, names).
    field_violations: the fields at fault, where the request was at fault.
    retry_delay: how long to wait before trying again; None where waiting does not help.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        metadata: Mapping[str, str] | None = None,
        field_violations: tuple[FieldViolation, ...] = (),
        retry_delay: timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.metadata: dict[str, str] = dict(metadata or {})
        self.field_violations = field_violations
        self.retry_delay = retry_delay


class InvalidArgument(TokenloomError):
    """A value is never allowed there. `field_violations` names the fields. Also raised before anything is sent."""


class OutOfRange(TokenloomError):
    """The operation would pass a limit."""


class ContextLengthExceeded(OutOfRange):
    """An append would pass the session's max_length; nothing was appended to any row."""


class NotFound(TokenloomError):
    """No session, model, adapter or tensor of that name."""


class SessionExpired(NotFound):
    """The session idled longer than its idle_timeout and was closed."""


class AlreadyExists(TokenloomError):
    """The name is taken."""


class PermissionDenied(TokenloomError):
    """Not allowed for this client."""


class Unauthenticated(TokenloomError):
    """The server wants credentials, or others."""


class FailedPrecondition(TokenloomError):
    """Legal, but not in the state the session, model or adapter is in (SESSION_DONE, REWIND_BEYOND_LENGTH, ...)."""


class Aborted(TokenloomError):
    """The operation lost against another one; nothing was changed."""


class LengthMismatch(Aborted):
    """`expected_length` was not the session's length: somebody else wrote to it. Nothing was changed."""

    @property
    def actual_length(self) -> int:
        """The session's real length in tokens."""
        return int(self.metadata["actual"])


class ResourceExhausted(TokenloomError):
    """A limit (sessions, memory, queue, message size) is reached. Where `retry_delay` is given, waiting helps."""


class DeadlineExceeded(TokenloomError):
    """The timeout passed. The session is at a token boundary and usable."""


class Cancelled(TokenloomError):
    """The operation was cancelled, or its session closed while it was queued."""


class Unavailable(TokenloomError):
    """No server answers, or it is starting or draining."""


class StreamLost(Unavailable):
    """The stream of a conversation broke. The session lives on in the server and can be attached to again."""


class Unimplemented(TokenloomError):
    """This server does not do that yet."""


class Internal(TokenloomError):
    """A fault of the server. The session is at a token boundary; the details are in the server's log."""


_BY_CODE: dict[int, type[TokenloomError]] = {
    code_pb2.INVALID_ARGUMENT: InvalidArgument,
    code_pb2.OUT_OF_RANGE: OutOfRange,
    code_pb2.NOT_FOUND: NotFound,
    code_pb2.ALREADY_EXISTS: AlreadyExists,
    code_pb2.PERMISSION_DENIED: PermissionDenied,
    code_pb2.UNAUTHENTICATED: Unauthenticated,
    code_pb2.FAILED_PRECONDITION: FailedPrecondition,
    code_pb2.ABORTED: Aborted,
    code_pb2.RESOURCE_EXHAUSTED: ResourceExhausted,
    code_pb2.DEADLINE_EXCEEDED: DeadlineExceeded,
    code_pb2.CANCELLED: Cancelled,
    code_pb2.UNAVAILABLE: Unavailable,
    code_pb2.UNIMPLEMENTED: Unimplemented,
}

_BY_REASON: dict[str, type[TokenloomError]] = {
    "SESSION_EXPIRED": SessionExpired,
    "POSITION_MISMATCH": LengthMismatch,
    "CONTEXT_LENGTH_EXCEEDED": ContextLengthExceeded,
}


def _class_of(code: int, reason: str) -> type[TokenloomError]:
    return _BY_REASON.get(reason) or _BY_CODE.get(code, Internal)


def invalid(field: str, description: str) -> InvalidArgument:
    """The error for a value this package can tell is wrong before it is sent."""
    return InvalidArgument(
        f"{field}: {description}",
        reason="FIELD_INVALID",
        metadata={"field": field},
        field_violations=(FieldViolation(field, description),),
    )


def from_operation_error(error: types_pb2.OperationError) -> TokenloomError:
    """The exception for an error that came inside a Converse stream."""
    return _class_of(error.code, error.reason)(
        error.message,
        reason=error.reason,
        metadata=error.metadata,
        field_violations=tuple(FieldViolation(v.field, v.description) for v in error.field_violations),
        retry_delay=error.retry_delay.ToTimedelta() if error.HasField("retry_delay") else None,
    )


def from_rpc_error(error: grpc.RpcError) -> TokenloomError:
    """The exception for a call that ended with a status other than OK, with the details the server attached."""
    call: Any = error  # grpc raises objects that are both an RpcError and the call.
    code, message = call.code(), call.details() or ""
    reason, metadata, delay = "", {}, None
    violations: tuple[FieldViolation, ...] = ()
    for detail in _details(call):
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            reason, metadata = info.reason, dict(info.metadata)
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
            violations = tuple(FieldViolation(v.field, v.description) for v in bad.field_violations)
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            delay = retry.retry_delay.ToTimedelta()
    return _class_of(code.value[0], reason)(
        message or code.name, reason=reason, metadata=metadata, field_violations=violations, retry_delay=delay
    )


def from_stream_error(error: grpc.RpcError) -> TokenloomError:
    """As `from_rpc_error`, but a broken transport is told apart from an answer of the server.

    A proxy whose backend dies resets the stream, which arrives as INTERNAL without details.
    """
    translated = from_rpc_error(error)
    if isinstance(translated, Unavailable) or (isinstance(translated, Internal) and not translated.reason):
        return StreamLost(
            f"the stream broke: {translated.message}", reason=translated.reason, metadata=translated.metadata
        )
    return translated


def _details(call: Any) -> list[Any]:
    try:
        status = rpc_status.from_call(call)
    except ValueError:  # The details contradict the status line: some proxy rewrote one of them.
        return []
    return list(status.details) if status is not None else []
