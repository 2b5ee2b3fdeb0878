"""`tokenloom demo`: everything at work, from nothing to an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli import common

if TYPE_CHECKING:
    from runtime.model import Model
    from service.config import ServerConfig


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
    from service.cli.serve import prepare

    started = time.monotonic()
    config, loaded = prepare([model], {"port": 0, "log_level": "warning"})

    def ask(target: str) -> str:
        common.errors.print(f"serving at {target} after {time.monotonic() - started:.1f} s", style="dim")
        common.console.print(question, style="bold", markup=False)
        first, said = 0.0, ""
        with common.connect(target) as client:
            for piece in client.chat([{"role": "user", "content": question}], max_new_tokens=max_new_tokens):
                first = first or time.monotonic()
                said += piece
                print(piece, end="", flush=True)
        print()
        common.errors.print(f"first text {first - started:.1f} s after the start", style="dim")
        return said

    if not asyncio.run(_serve_and(ask, config, loaded)).strip():
        common.errors.print("error: no text came", style="red")
        raise typer.Exit(1)


async def _serve_and(ask: Callable[[str], str], config: ServerConfig, loaded: list[Model]) -> str:
    """What `ask`, in a thread of its own, gets from a server that runs meanwhile."""
    from service.server import Server

    server = Server(config, loaded)
    await server.start()
    try:
        return await asyncio.to_thread(ask, f"127.0.0.1:{server.port}")
    finally:
        await server.stop()
