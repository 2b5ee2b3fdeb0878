"""Every error the runtime raises on purpose, as one tree.

An error here is a fact about a request or about the machine, with the values a caller needs to react. It knows nothing
of gRPC: `service.errors` holds the one table that turns each class into a status.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class TokenloomError(Exception):
    """Base of all errors raised on purpose. `reason` is stable: clients may branch on it."""

    reason: str = "INTERNAL"

    def __init__(self, message: str, *, reason: str | None = None, **metadata: object) -> None:
        super().__init__(message)
        self.message = message
        if reason is not None:
            self.reason = reason
        self.metadata: dict[str, str] = {key: str(value) for key, value in metadata.items()}


class InvalidArgument(TokenloomError):
    """A field of a request has a value that is never allowed. Names the field, the value and what is allowed."""

    reason = "FIELD_INVALID"

    def __init__(self, field: str, value: object, allowed: str) -> None:
        shown = repr(value)
        if len(shown) > 120:
            shown = shown[:117] + "..."
        super().__init__(f"{field}: {shown} is not allowed; {allowed}", field=field)
        self.field = field
        self.allowed = allowed


class NotFound(TokenloomError):
    """A session, model, adapter or tensor of that name does not exist. `known` lists the names that do."""

    def __init__(
        self, kind: str, name: str, known: Iterable[str] = (), *, reason: str | None = None, message: str = ""
    ) -> None:
        names = sorted(known)
        close = get_close_matches(name, names, n=1)
        if not message:
            message = f"{kind} {name!r} does not exist"
            if close:
                message += f"; did you mean {close[0]!r}?"
            elif names:
                message += f"; known: {', '.join(names[:20])}"
        super().__init__(message, reason=reason or f"{kind.upper()}_NOT_FOUND", **{kind: name})
        self.kind = kind
        self.name = name


class AlreadyExists(TokenloomError):
    """A session, model or adapter of that name exists already."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} exists already", reason=f"{kind.upper()}_EXISTS", **{kind: name})


class PermissionDenied(TokenloomError):
    """The caller may not have what was asked for: a path outside the configured directories."""

    reason = "PATH_OUTSIDE"


class FailedPrecondition(TokenloomError):
    """The operation is legal, but not in the state the session, model or adapter is in."""

    def __init__(self, reason: str, message: str, **metadata: object) -> None:
        super().__init__(message, reason=reason, **metadata)


class LengthMismatch(TokenloomError):
    """`expected_length` of a request is not the session's real length: somebody else wrote to it."""

    reason = "POSITION_MISMATCH"

    def __init__(self, expected: int, actual: int) -> None:
        super().__init__(
            f"expected_length is {expected}, the session's length is {actual}", expected=expected, actual=actual
        )


class ContextLengthExceeded(TokenloomError):
    """Appending would pass the session's max_length. Nothing was appended."""

    reason = "CONTEXT_LENGTH_EXCEEDED"

    def __init__(self, length: int, appended: int, limit: int, row: int = 0) -> None:
        super().__init__(
            f"row {row} has {length} tokens; {appended} more would pass max_length {limit}",
            length=length,
            appended=appended,
            limit=limit,
            row=row,
        )


class ResourceExhausted(TokenloomError):
    """A limit on sessions, slots, memory or queued operations is reached. Waiting `retry_after` seconds may help."""

    def __init__(self, reason: str, message: str, retry_after: float = 1.0, **metadata: object) -> None:
        super().__init__(message, reason=reason, **metadata)
        self.retry_after = retry_after


class Cancelled(TokenloomError):
    """The caller cancelled the operation; the session is at a token boundary and usable."""

    reason = "CANCELLED"

    def __init__(self, message: str = "the operation was cancelled", reason: str = "CANCELLED") -> None:
        super().__init__(message, reason=reason)


class Unavailable(TokenloomError):
    """The engine is starting, draining or stopped."""

    def __init__(self, reason: str, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message, reason=reason)
        self.retry_after = retry_after


class Unimplemented(TokenloomError):
    """Asked for something this build does not do yet. Never ignored silently."""

    reason = "UNIMPLEMENTED"


class EngineError(TokenloomError):
    """A model run failed. The sessions of that run are at a token boundary; the details are in the server's log."""

    reason = "ENGINE_ERROR"
