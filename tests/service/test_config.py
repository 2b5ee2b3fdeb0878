"""Settings come from arguments over environment over file over defaults, checked once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from service.config import ServerConfig


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokenloom.toml"
    path.write_text('port = 1\nhost = "file"\nslots = 3\n\n[models]\nchat = "smollm2"\n')
    return path


def test_arguments_win_over_environment_over_file_over_defaults(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENLOOM_HOST", "environment")
    monkeypatch.setenv("TOKENLOOM_SLOTS", "4")
    config = ServerConfig(config_file=file, slots=5)
    assert (config.slots, config.host, config.port, config.max_sessions) == (5, "environment", 1, 256)
    assert config.models == {"chat": "smollm2"}


def test_the_environment_may_name_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENLOOM_CONFIG_FILE", str(file))
    assert ServerConfig().port == 1


def test_lists_and_tables_are_json_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENLOOM_MODEL_DIRECTORIES", '["/a", "/b"]')
    monkeypatch.setenv("TOKENLOOM_MODELS", '{"chat": "smollm2"}')
    config = ServerConfig()
    assert config.model_directories == (Path("/a"), Path("/b"))
    assert config.models == {"chat": "smollm2"}


def test_settings_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="slot_count"):
        ServerConfig(slot_count=3)
    file = tmp_path / "wrong.toml"
    file.write_text("slot_count = 3\n")
    with pytest.raises(ValidationError, match="slot_count"):
        ServerConfig(config_file=file)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.toml"):
        ServerConfig(config_file=tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"port": 70_000}, "port"),
        ({"slots": 0}, "slots"),
        ({"device": "tpu"}, "device"),
        ({"drain_grace": -1}, "drain_grace"),
        ({"default_model": "b", "models": {"a": ""}}, "default_model"),
        ({"adapters": {"b": {"x": "x.onnx_adapter"}}, "models": {"a": ""}}, "adapters"),
        ({"default_idle_timeout": 100, "max_idle_timeout": 10}, "default_idle_timeout"),
    ],
)
def test_values_out_of_range_are_refused_by_name(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        ServerConfig(**settings)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        ServerConfig().port = 1  # type: ignore[misc]


def test_every_setting_is_described() -> None:
    assert all(field.description for field in ServerConfig.model_fields.values())
