"""The stack of docker-compose.yml as processes: the same programs, commands, variables and files, on loopback."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import grpc
import yaml

from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import generator_pb2_grpc

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "data" / "models"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
TIMEOUT = 20.0


def image_environment() -> dict[str, str]:
    """The variables that the image sets."""
    (block,) = re.findall(r"^ENV ((?:.*\\\n)*.*)$", DOCKERFILE, re.MULTILINE)
    return dict(pair.split("=", 1) for pair in shlex.split(block.replace("\\\n", " ")))


def image_command() -> list[str]:
    """What a container of the image runs."""
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)
    (command,) = re.findall(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)
    return [*json.loads(entry), *json.loads(command)]


def image_health_check() -> list[str]:
    (check,) = re.findall(r"^HEALTHCHECK .*CMD (.*)$", DOCKERFILE, re.MULTILINE)
    return list(json.loads(check))


def command_of(service: str, files: Mapping[str, Path]) -> list[str]:
    """A service's command, with paths in the container replaced by paths here."""
    words = list(COMPOSE["services"][service]["command"])
    for inside, here in files.items():
        words = [word.replace(inside, str(here)) for word in words]
    return words


def here(command: list[str]) -> list[str]:
    """The command of the image, run by this interpreter."""
    assert command[0] == "tokenloom"
    return [sys.executable, "-m", "service.cli", *command[1:]]


class Replica:
    """A server with the image's command and variables, except that ports are free ones and the model is a small one."""

    def __init__(self) -> None:
        own = {
            "TOKENLOOM_PORT": "0",
            "TOKENLOOM_METRICS_PORT": "0",
            "TOKENLOOM_MODELS": '{"tiny-llama": ""}',
            "TOKENLOOM_MODEL_DIRECTORIES": json.dumps([str(MODELS)]),
            "TOKENLOOM_THREADS": "1",
        }
        self.environment = os.environ | image_environment() | {"PATH": os.environ["PATH"]} | own
        self.process = subprocess.Popen(
            here(image_command()), env=self.environment, cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        serving = next(each for each in _records(self.process.stderr) if each["message"] == "serving")
        self.port, self.metrics_port = serving["port"], serving["metrics_port"]
        self.target = f"127.0.0.1:{self.port}"
        threading.Thread(target=self.process.stderr.read, daemon=True).start()  # so that it never waits for a reader
        self.channel = grpc.insecure_channel(self.target, [("grpc.use_local_subchannel_pool", 1)])
        self.generator = generator_pb2_grpc.GeneratorStub(self.channel)

    def sessions(self) -> set[str]:
        """Ids of its sessions, asked without a proxy."""
        reply = self.generator.ListSessions(pb.ListSessionsRequest(page_size=1000), timeout=TIMEOUT)
        return {session.session_id for session in reply.sessions}

    def close(self) -> None:
        self.channel.close()
        self.process.kill()
        self.process.wait()


def _records(lines: IO[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue
    raise AssertionError("the server ended")


@contextmanager
def envoy(replicas: list[Replica], folder: Path) -> Iterator[str]:
    """Envoy with the compose file's command and deploy/envoy.yaml, in which addresses alone are others. Its target."""
    config = yaml.safe_load((ROOT / "deploy" / "envoy.yaml").read_text())
    config["admin"]["address"]["socket_address"]["port_value"] = 0
    (listener,) = config["static_resources"]["listeners"]
    listener["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": 0}
    (cluster,) = config["static_resources"]["clusters"]
    endpoints = [each["endpoint"] for each in cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]]
    for endpoint, replica in zip(endpoints, replicas, strict=True):
        endpoint["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": replica.port}
    path, admin_path = folder / "envoy.yaml", folder / "admin"
    path.write_text(yaml.safe_dump(config))
    command = command_of("envoy", {"/etc/envoy/envoy.yaml": path})
    command[0] = which("envoy") or ""
    command += ["--admin-address-path", str(admin_path), "--disable-hot-restart", "--log-level", "error"]
    process = subprocess.Popen(command)
    try:
        wait_until(lambda: admin_path.exists() and bool(admin_path.read_text()), "Envoy's admin address")
        admin = f"http://{admin_path.read_text()}"
        wait_until(lambda: "LIVE" in read(f"{admin}/ready"), "Envoy to be ready")
        healthy = "cluster.tokenloom.membership_healthy: 2"
        wait_until(lambda: healthy in read(f"{admin}/stats?filter=membership_healthy"), "both replicas to be healthy")
        listeners = json.loads(read(f"{admin}/listeners?format=json"))["listener_statuses"]
        yield f"127.0.0.1:{listeners[0]['local_address']['socket_address']['port_value']}"
    finally:
        process.kill()
        process.wait()


def read(url: str) -> str:
    """What a GET answers; empty where nobody does."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as reply:
            return str(reply.read().decode())
    except OSError:
        return ""


def wait_until(condition: Callable[[], bool], what: str, timeout: float = TIMEOUT) -> None:
    """Looks until the condition holds. For what another program announces to nobody."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        threading.Event().wait(0.02)


def which(program: str) -> str | None:
    """Where a program is, beside this interpreter or on the path."""
    return shutil.which(program, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
