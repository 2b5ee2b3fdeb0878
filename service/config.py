"""The settings of a server, built once at start and passed down; nothing reads the environment anywhere else.

Each value comes from the first of: an argument (the command line's flags), a TOKENLOOM_* environment variable, the TOML
file named by `config_file` or TOKENLOOM_CONFIG_FILE, the default here. Sizes in bytes, times in seconds.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import TomlConfigSettingsSource as TomlSource

MIB = 1024 * 1024
Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(ge=0)]


class ServerConfig(BaseSettings):
    """All settings. In the environment, lists and tables are JSON: TOKENLOOM_MODEL_DIRECTORIES='["/models"]'."""

    model_config = SettingsConfigDict(env_prefix="TOKENLOOM_", frozen=True, extra="forbid")

    config_file: Path | None = Field(None, description="TOML file with any of these settings.")

    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 or [::] for every interface.")
    port: Port = Field(50051, description="Port to listen on; 0 for any free one.")
    metrics_port: Port | None = Field(
        None, description="Port to answer Prometheus on, over HTTP; 0 for any free one. Unset: none."
    )
    reflection: bool = Field(True, description="Answer gRPC server reflection.")
    channelz: bool = Field(False, description="Answer gRPC channelz: state and counts of connections.")
    max_message_bytes: int = Field(64 * MIB, ge=MIB, le=2048 * MIB - 1, description="Largest message taken and sent.")

    models: dict[str, str] = Field(
        default_factory=dict,
        description="Models to load at start: name to folder, absolute or below a model directory. Empty: the name.",
    )
    default_model: str = Field("", description="Model of requests that name none. Empty: the first of models.")
    model_directories: tuple[Path, ...] = Field((), description="Folders that models may be loaded from.")
    adapter_directories: tuple[Path, ...] = Field((), description="Folders that adapters may be loaded from.")
    adapters: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="Adapters to load at start: model name to adapter name to file."
    )

    device: Literal["cpu", "cuda"] = Field("cpu", description="Where models run.")
    threads: int = Field(0, ge=0, description="Threads of a model run; 0 for one per core.")
    slots: PositiveInt = Field(16, description="Rows in the cache at once, per model; further sessions are parked.")
    max_length: PositiveInt | None = Field(
        None, description="Longest sequence, in tokens. Unset: the model's own context length."
    )
    prefill_chunk: int | None = Field(
        None, ge=2, description="Most tokens of a prompt computed in one run. Unset: the engine's default."
    )
    host_cache_bytes: int | None = Field(
        None, ge=0, description="Memory for the caches of parked sessions, per model. Unset: the engine's default."
    )
    prefix_cache: bool = Field(True, description="Copy what other sessions computed of a prompt's beginning.")

    max_sessions: PositiveInt = Field(256, description="Most sessions at once, per model.")
    max_queued_operations: PositiveInt = Field(64, description="Most operations of one session queued.")
    default_idle_timeout: PositiveFloat = Field(600.0, description="Idle timeout of sessions that name none.")
    max_idle_timeout: PositiveFloat = Field(86_400.0, description="Longest idle timeout a session may ask for.")

    lame_duck: Seconds = Field(
        2.0, description="How long to go on serving after health said NOT_SERVING, for balancers to notice."
    )
    drain_grace: Seconds = Field(30.0, description="How long running operations may go on after that.")

    tracing: bool = Field(
        default_factory=lambda: _traces_are_configured(),
        description="Send OpenTelemetry traces over OTLP; needs the extra otel. Unset: where the standard OTEL_* "
        "variables name an endpoint or an exporter.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: Literal["json", "text"] = Field("json", description="One JSON object per line, or lines for people.")

    @property
    def features(self) -> list[str]:
        """Optional parts that are on, by name."""
        optional = {
            "channelz": self.channelz,
            "metrics": self.metrics_port is not None,
            "reflection": self.reflection,
            "tracing": self.tracing,
        }
        return [name for name, is_on in optional.items() if is_on]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.default_model and self.default_model not in self.models:
            raise ValueError(f"default_model {self.default_model!r} is not one of models ({', '.join(self.models)})")
        if unknown := sorted(self.adapters.keys() - self.models.keys()):
            raise ValueError(f"adapters names models that are not loaded at start: {', '.join(unknown)}")
        if self.default_idle_timeout > self.max_idle_timeout:
            raise ValueError("default_idle_timeout is longer than max_idle_timeout")
        if self.tracing:
            _check_tracing()
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments over environment over file."""
        assert isinstance(init_settings, InitSettingsSource)
        file = init_settings.init_kwargs.get("config_file") or os.environ.get("TOKENLOOM_CONFIG_FILE")
        if not file:
            return init_settings, env_settings
        if not Path(file).is_file():
            raise FileNotFoundError(f"config_file {str(file)!r} does not exist")
        return init_settings, env_settings, TomlSource(settings_cls, Path(file))


def _traces_are_configured() -> bool:
    """Whether OpenTelemetry's own variables ask for traces."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if exporter := os.environ.get("OTEL_TRACES_EXPORTER"):
        return exporter != "none"
    return any(os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT") for signal in ("", "TRACES_"))


def _check_tracing() -> None:
    """Raises ValueError where traces cannot be sent as they are asked for."""
    if (exporter := os.environ.get("OTEL_TRACES_EXPORTER", "otlp")) not in ("", "otlp", "none"):
        raise ValueError(f"OTEL_TRACES_EXPORTER is {exporter!r}; traces go out as 'otlp' or, with 'none', not at all")
    for signal in ("", "TRACES_"):
        if (protocol := os.environ.get(name := f"OTEL_EXPORTER_OTLP_{signal}PROTOCOL", "")) not in ("", "grpc"):
            raise ValueError(f"{name} is {protocol!r}; traces are sent over 'grpc'")
    try:
        is_installed = bool(find_spec("opentelemetry.sdk") and find_spec("opentelemetry.exporter.otlp.proto.grpc"))
    except ModuleNotFoundError:
        is_installed = False
    if not is_installed:
        raise ValueError("tracing needs OpenTelemetry; install the server with the extra: tokenloom-server[otel]")
