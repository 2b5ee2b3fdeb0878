"""The container files name settings, commands and paths that exist."""

import re
from pathlib import Path
from typing import Any

import yaml

from service.config import ServerConfig

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def test_every_variable_of_the_image_and_the_services_is_a_setting() -> None:
    names = set(re.findall(r"TOKENLOOM_[A-Z_]+", DOCKERFILE + (ROOT / "docker-compose.yml").read_text()))
    assert "TOKENLOOM_HOST" in names
    assert {name.removeprefix("TOKENLOOM_").lower() for name in names} <= set(ServerConfig.model_fields)


def test_everything_the_image_copies_is_there_and_sent_to_the_builder() -> None:
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        *paths, _ = line.split()
        for path in paths:
            assert (ROOT / path).exists()
            assert f"!{path}" in ignore


def test_the_cpu_runs_by_default_and_the_gpu_on_request() -> None:
    services = COMPOSE["services"]
    assert "profiles" not in services["cpu"]
    assert services["cpu"]["build"]["args"]["RUNTIME"] == "cpu"
    assert services["gpu"]["profiles"] == ["gpu"]
    assert services["gpu"]["build"]["args"]["RUNTIME"] == "gpu"


def test_a_container_may_run_for_as_long_as_the_server_drains() -> None:
    config = ServerConfig()
    for service in COMPOSE["services"].values():
        assert int(service["stop_grace_period"].removesuffix("s")) > config.lame_duck + config.drain_grace


def test_the_published_port_is_the_servers() -> None:
    port = ServerConfig().port
    assert f"EXPOSE {port}" in DOCKERFILE
    assert COMPOSE["services"]["cpu"]["ports"] == [f"127.0.0.1:{port}:{port}"]
