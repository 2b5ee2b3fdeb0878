"""The server under measurement: what `tokenloom serve` runs, and its engine's counters on request.

Speaks JSON lines: tells its port when it is ready, answers each line on stdin with the counters, and ends with stdin.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from service.config import ServerConfig
from service.server import Server, serve


def main(folder: Path, threads: int, max_length: int) -> None:
    """Serves the model of a folder on a free port of this machine."""
    settings: dict[str, Any] = {
        "port": 0,
        "models": {"model": str(folder)},
        "threads": threads,
        "max_length": max_length,
        "lame_duck": 0.0,
        "drain_grace": 0.0,
        "log_level": "warning",
    }
    asyncio.run(serve(ServerConfig(**settings), on_ready=_answer))


def _answer(server: Server) -> None:
    def read() -> None:
        if not sys.stdin.readline():
            asyncio.get_running_loop().remove_reader(sys.stdin)
            signal.raise_signal(signal.SIGTERM)
            return
        stats = server.registry.engine().stats()
        counters = {"model_seconds": stats.model_seconds, "iterations": stats.iterations}
        _tell({"time": time.perf_counter(), **counters})

    asyncio.get_running_loop().add_reader(sys.stdin, read)
    _tell({"port": server.port})


def _tell(values: dict[str, object]) -> None:
    print(json.dumps(values), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
