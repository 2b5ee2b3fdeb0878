"""What a session costs in memory: the growth of a fresh server's, per session."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure
from benchmarks.peer import Peer
from benchmarks.server import ServerProcess, resident_bytes
from benchmarks.workload import LONG_PROMPT, ROWS, Prompts, Sizes
from tokenloom import Client, Session

MIB = 1 << 20


def measure(
    model: str, folder: Path, server: ServerProcess, peer: Peer, prompts: Prompts, sizes: Sizes
) -> list[Figure]:
    """Figures of memory. The server must be fresh: cache pages that were used stay with it."""
    contents = [np.array([prompts.take(LONG_PROMPT, index)], np.int32) for index in range(ROWS + 1)]
    with Client(server.target) as client, ExitStack() as stack:

        def open_session(content: Any = None) -> Session:
            return stack.enter_context(client.create_session(content))

        filled = _growth(server.resident_bytes, lambda index: open_session(contents[index]), ROWS)
        empty = _growth(server.resident_bytes, lambda _: open_session(), sizes.empty_sessions)

    def open_generator(index: int) -> Any:
        generator = peer.generator()
        generator.append_tokens(contents[index])
        return generator

    theirs = _growth(lambda: resident_bytes(os.getpid()), open_generator, ROWS)
    cache = _cache_bytes_per_token(folder) * LONG_PROMPT
    name = f"session of {LONG_PROMPT} tokens"
    return [
        Figure(name, model, "MiB", filled / MIB, "peer's Generator", theirs / MIB, filled / theirs),
        Figure(name, model, "MiB", filled / MIB, "keys and values", cache / MIB, filled / cache),
        Figure(
            "session without tokens", model, "KiB", empty / 1024, f"one of {LONG_PROMPT}", filled / 1024, empty / filled
        ),
    ]


def _growth(resident: Callable[[], int], make: Callable[[int], object], count: int) -> float:
    """Bytes that each of `count` things adds. One made before them pays for what all share."""
    kept = [make(count)]
    before = resident()
    kept += [make(index) for index in range(count)]
    return (resident() - before) / count


def _cache_bytes_per_token(folder: Path) -> int:
    """Keys and values of one token in all layers, in float32."""
    decoder = json.loads((folder / "genai_config.json").read_text("utf-8"))["model"]["decoder"]
    return int(2 * decoder["num_hidden_layers"] * decoder["num_key_value_heads"] * decoder["head_size"] * 4)
