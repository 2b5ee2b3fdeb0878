"""A real server on loopback, as the console script starts it, and ways to break the connection to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from proxy import Proxy

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "tests" / "data" / "models"


@dataclass
class RunningServer:
    target: str
    process: subprocess.Popen[str]


@contextmanager
def running_server(*flags: str) -> Iterator[RunningServer]:
    """`tokenloom serve` with the tiny models, on a port of its own choice."""
    command = [sys.executable, "-m", "service.cli", "serve", "--port", "0", "--threads", "1", "--lame-duck", "0"]
    command += ["--model-directory", str(MODELS), "--load", "tiny=tiny-llama-lora", "--load", "gpt2=tiny-gpt2"]
    command += ["--default-model", "tiny", "--adapter-directory", str(MODELS / "tiny-llama-lora" / "adapters")]
    process = subprocess.Popen(
        [*command, *flags], cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert process.stderr is not None
    lines = []
    port = None
    for line in process.stderr:
        lines.append(line)
        if '"serving"' in line:
            port = json.loads(line)["port"]
            break
    assert port, "".join(lines)
    drain = threading.Thread(target=process.stderr.read, daemon=True)  # A full pipe would block the server.
    drain.start()
    try:
        yield RunningServer(f"127.0.0.1:{port}", process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        drain.join()
        process.stderr.close()


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running


@pytest.fixture
def proxy(server: RunningServer) -> Iterator[Proxy]:
    """A TCP proxy in front of the server that can hold replies back and cut connections."""
    with Proxy(server.target) as running:
        yield running


@pytest.fixture
def run_program(server: RunningServer) -> Any:
    """Runs a Python program against the server; returns the finished process, output as text."""

    def run(*arguments: str, stdin: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=os.environ | {"TOKENLOOM_TARGET": server.target, "PYTHONPATH": str(ROOT), "COLUMNS": "120"},
        )

    return run
