"""What commands share: the options of a connection and of generation, and how errors are told.

The client takes a second to import on a slow machine, so modules of commands import it only where they use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer
from rich.console import Console

if TYPE_CHECKING:
    from tokenloom import Client, GenerationConfig

DEFAULT_TARGET = "localhost:50051"

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

Target: TypeAlias = Annotated[
    str, typer.Option("--target", "-t", envvar="TOKENLOOM_TARGET", help="Server to use, as HOST:PORT.")
]
ModelName: TypeAlias = Annotated[
    str, typer.Option("--model", "-m", help="Loaded model; the server's default if unset.")
]
Adapter: TypeAlias = Annotated[str, typer.Option(help="LoRA adapter; the base model if unset.")]
MaxNewTokens: TypeAlias = Annotated[int | None, typer.Option(help="Most tokens of an answer.")]
Temperature: TypeAlias = Annotated[
    float | None, typer.Option(help="Draw tokens, with logits divided by this. Unset or 0: always the likeliest.")
]
TopP: TypeAlias = Annotated[float | None, typer.Option(help="Draw from the likeliest tokens of this probability.")]
TopK: TypeAlias = Annotated[int | None, typer.Option(help="Draw from this many of the likeliest tokens.")]
Seed: TypeAlias = Annotated[int | None, typer.Option(help="Seed of the draws: the same one gives the same text.")]
Stop: TypeAlias = Annotated[list[str] | None, typer.Option(help="Text that ends an answer; may be given again.")]


def generation_config(
    max_new_tokens: int | None,
    temperature: float | None,
    top_p: float | None,
    top_k: int | None,
    seed: int | None,
    stop: list[str] | None,
) -> GenerationConfig:
    """The settings that were given. Giving a temperature, top_p or top_k means that tokens are drawn."""
    given: dict[str, Any] = {
        "max_new_tokens": max_new_tokens,
        "temperature": temperature or None,
        "top_p": top_p,
        "top_k": top_k,
        "seed": seed,
        "stop_strings": stop,
        "do_sample": True if temperature or top_p or top_k else False if temperature == 0 else None,
    }
    return cast("GenerationConfig", {name: value for name, value in given.items() if value is not None})


def connect(target: str) -> Client:
    """A client for the server."""
    from tokenloom import Client

    return Client(target)


def one_line(error: Exception) -> str | None:
    """What an error of the client or of the runtime comes to, for people; None for errors nobody planned."""
    from tokenloom.errors import InvalidArgument, TokenloomError, Unavailable

    if not isinstance(error, TokenloomError):
        from runtime.errors import TokenloomError as RuntimeFault

        return error.message if isinstance(error, RuntimeFault) else None
    if isinstance(error, Unavailable) and not error.reason:
        return "no server answers; start one with `tokenloom serve`, or name another with --target"
    if isinstance(error, InvalidArgument) and error.field_violations:
        return "; ".join(f"{violation.field}: {violation.description}" for violation in error.field_violations)
    return error.message
