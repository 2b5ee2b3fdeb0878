"""GenerationConfig: the message and the runtime's class have the same fields; unset is None."""

from __future__ import annotations

import dataclasses

from runtime.generation_config import GenerationConfig
from tokenloom.v1 import generation_pb2

_REPEATED = ("eos_token_id", "stop_strings")
_OPTIONAL = tuple(field.name for field in dataclasses.fields(GenerationConfig) if field.name not in _REPEATED)


def to_config(message: generation_pb2.GenerationConfig) -> GenerationConfig:
    """Settings as given; the runtime checks their ranges."""
    given = {name: getattr(message, name) for name in _OPTIONAL if message.HasField(name)}
    return GenerationConfig(eos_token_id=tuple(message.eos_token_id), stop_strings=tuple(message.stop_strings), **given)


def from_config(config: GenerationConfig) -> generation_pb2.GenerationConfig:
    """Settings as a message; None stays unset."""
    given = {name: value for name in _OPTIONAL if (value := getattr(config, name)) is not None}
    return generation_pb2.GenerationConfig(eos_token_id=config.eos_token_id, stop_strings=config.stop_strings, **given)
