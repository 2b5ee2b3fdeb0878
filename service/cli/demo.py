"""`tokenloom demo`: everything at work, from nothing to an answer."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated

import typer

from service.cli import common
from service.cli.health import SERVING, check

STOP_SECONDS = 30.0


def demo(
    question: Annotated[str, typer.Argument(help="What to ask.")] = "What is the capital of France?",
    model: Annotated[str, typer.Option("--model", "-m", help="Model of the store; its default if unset.")] = "",
    max_new_tokens: Annotated[int, typer.Option(help="Most tokens of the answer.")] = 64,
) -> None:
    """Get the default model, serve it, ask it a question, stream the answer, shut down.

    The exit code is 0 only if text came. The first time, the model is downloaded and built.

    Examples:

      tokenloom demo

      tokenloom demo "Name three rivers." --max-new-tokens 100
    """
    started = time.monotonic()
    with _server(model) as target, common.connect(target) as client:
        common.errors.print(f"serving at {target} after {time.monotonic() - started:.1f} s", style="dim")
        common.console.print(question, style="bold", markup=False)
        first, said = 0.0, ""
        for piece in client.chat([{"role": "user", "content": question}], max_new_tokens=max_new_tokens):
            first = first or time.monotonic()
            said += piece
            print(piece, end="", flush=True)
        print()
    if not said.strip():
        common.errors.print("error: no text came", style="red")
        raise typer.Exit(1)
    common.errors.print(f"first text {first - started:.1f} s after the start", style="dim")


@contextmanager
def _server(model: str) -> Iterator[str]:
    """A server on a free port, taken down at the end. It gets the model itself and shows its progress and errors."""
    port = _free_port()
    command = [sys.executable, "-m", "service.cli", "serve", *([model] if model else []), "--port", str(port)]
    process = subprocess.Popen([*command, "--lame-duck", "0", "--log-level", "warning"], start_new_session=True)
    try:
        _await_serving(f"127.0.0.1:{port}", process)
        yield f"127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_serving(target: str, process: subprocess.Popen[bytes]) -> None:
    from tokenloom.errors import Unavailable  # Here, so that the server starts before the client is imported.

    while process.poll() is None:
        with suppress(Unavailable):
            if check(target) == SERVING:
                return
        time.sleep(0.05)
    common.errors.print("error: the server did not start", style="red")
    raise typer.Exit(1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
