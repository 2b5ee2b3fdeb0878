"""What the configuration means for models and their engines."""

from __future__ import annotations

from runtime.engine import EngineOptions
from runtime.model import ModelOptions
from service.config import ServerConfig


def model_options(config: ServerConfig) -> ModelOptions:
    """How every model of the server is loaded."""
    return ModelOptions(config.device, config.threads, config.slots, config.max_length)


def engine_options(config: ServerConfig) -> EngineOptions:
    """Limits of every model's engine; what is unset stays the engine's own default."""
    given = {
        name: value for name in ("prefill_chunk", "host_cache_bytes") if (value := getattr(config, name)) is not None
    }
    return EngineOptions(
        max_sessions=config.max_sessions,
        max_queued_operations=config.max_queued_operations,
        prefix_cache=config.prefix_cache,
        **given,
    )
