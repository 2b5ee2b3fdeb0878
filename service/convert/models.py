"""Models and adapters, as messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from service.convert.settings import from_config
from tokenloom.v1 import models_pb2

if TYPE_CHECKING:
    from runtime.adapters import AdapterInfo
    from runtime.model import Model, TensorInfo


def from_model(model: Model) -> models_pb2.Model:
    """A loaded model."""
    tokenizer = model.tokenizer
    return models_pb2.Model(
        name=model.name,
        type=model.type,
        vocab_size=model.vocab_size,
        max_length=model.max_length,
        slots=model.slots,
        device=model.options.device,
        generation_config=from_config(model.default_config),
        has_tokenizer=tokenizer is not None,
        has_chat_template=tokenizer is not None and tokenizer.has_chat_template,
    )


def from_tensor_infos(infos: Iterable[TensorInfo]) -> list[models_pb2.TensorInfo]:
    """A signature; dimensions that vary are -1."""
    return [
        models_pb2.TensorInfo(
            name=info.name,
            type=info.type,
            shape=[extent if isinstance(extent, int) else -1 for extent in info.shape],
        )
        for info in infos
    ]


def from_adapter(adapter: AdapterInfo) -> models_pb2.Adapter:
    """A loaded adapter."""
    return models_pb2.Adapter(
        name=adapter.name, path=adapter.path, size_bytes=adapter.size_bytes, sessions=adapter.sessions
    )
