"""Names of fields at fault, as the client wrote them."""

from __future__ import annotations

import dataclasses

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from runtime.errors import InvalidArgument
from runtime.generation_config import GenerationConfig

MAX_REQUEST_ID_BYTES = 128
MAX_PATH_BYTES = 1024
MAX_PATH_PART_BYTES = 255

_SETTINGS = frozenset(field.name for field in dataclasses.fields(GenerationConfig))


def renamed(field: str, error: InvalidArgument) -> InvalidArgument:
    """The same error about a field of another name."""
    moved = InvalidArgument(field, None, error.allowed)
    moved.message = error.message.replace(error.field, field, 1)
    return moved


def below(prefix: str, error: InvalidArgument) -> InvalidArgument:
    """The same error as seen from the message whose field `prefix` it is in."""
    return renamed(f"{prefix}.{error.field}", error)


def is_setting(field: str) -> bool:
    """Whether a field is one of GenerationConfig's."""
    return field.partition("[")[0] in _SETTINGS


def request_id(value: str) -> str:
    """A request id that is short enough to be kept."""
    if len(value.encode()) > MAX_REQUEST_ID_BYTES:
        raise InvalidArgument("request_id", value, f"at most {MAX_REQUEST_ID_BYTES} bytes")
    return value


def path(value: str) -> str:
    """A path that a file system can be asked for."""
    too_long = any(len(part.encode()) > MAX_PATH_PART_BYTES for part in value.split("/"))
    if "\0" in value or too_long or len(value.encode()) > MAX_PATH_BYTES:
        allowed = f"at most {MAX_PATH_BYTES} bytes, {MAX_PATH_PART_BYTES} between slashes, none of them 0"
        raise InvalidArgument("path", value, allowed)
    return value


def idle_timeout(value: Duration, longest: float) -> float:
    """Seconds, in (0, longest]."""
    seconds = value.seconds + value.nanos / 1e9
    if not 0 <= value.nanos < 1_000_000_000 or not 0 < seconds <= longest:
        raise InvalidArgument("idle_timeout", f"{seconds:g} s", f"more than 0 s, at most {longest:g} s")
    return seconds


def duration(seconds: float) -> Duration:
    """Seconds as a Duration."""
    value = Duration()
    value.FromNanoseconds(round(seconds * 1e9))
    return value


def timestamp(seconds: float) -> Timestamp:
    """Seconds since the epoch as a Timestamp."""
    whole = int(seconds)
    return Timestamp(seconds=whole, nanos=int((seconds - whole) * 1e9))
