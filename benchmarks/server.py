"""The server's process, from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.workload import MAX_LENGTH

STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Counters:
    """The engine's at some time, in seconds of the server's clock."""

    time: float
    model_seconds: float
    iterations: int

    def host_share_until(self, later: Counters) -> float:
        """Share of the time between in which the model did not run."""
        return 1 - (later.model_seconds - self.model_seconds) / (later.time - self.time)


class ServerProcess:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.target = f"127.0.0.1:{self._line()['port']}"

    def counters(self) -> Counters:
        """The engine's counters now."""
        print(file=self._process.stdin, flush=True)
        line = self._line()
        return Counters(line["time"], line["model_seconds"], line["iterations"])

    def resident_bytes(self) -> int:
        """Memory of the process."""
        return resident_bytes(self._process.pid)

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the server ended; what it said is above")
        values: dict[str, Any] = json.loads(line)
        return values


@contextmanager
def serving(folder: Path, threads: int, max_length: int = MAX_LENGTH) -> Iterator[ServerProcess]:
    """A server of its own for the model of a folder, with the settings' defaults."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOKENLOOM_")}
    command = [sys.executable, "-m", "benchmarks.served", str(folder), str(threads), str(max_length)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield ServerProcess(process)
            process.communicate(timeout=STOP_SECONDS)
        finally:
            process.kill()


def resident_bytes(pid: int) -> int:
    """Anonymous memory of a process that is in RAM: not the pages of model files, which it shares. Linux only."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not tell the memory of a process")
