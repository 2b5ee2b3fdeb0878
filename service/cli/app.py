"""The commands put together, and how their errors are told: one line, exit code 1."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from service.cli import common
from service.cli.chat import chat
from service.cli.demo import demo
from service.cli.generate import generate
from service.cli.health import health
from service.cli.models import models
from service.cli.sessions import sessions
from service.version import VERSION


class Commands(TyperGroup):
    """All commands. `serve` is made when it is asked for: its flags are those of the configuration, whose library takes
    longer to import than everything else."""

    def list_commands(self, ctx: Any) -> list[str]:
        return ["serve", *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name != "serve":
            return super().get_command(ctx, cmd_name)
        from service.cli.serve import serve, with_flags

        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        alone.command(name="serve")(with_flags(serve))
        return typer.main.get_command(alone)


app = typer.Typer(
    name="tokenloom",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Stateful token generation over gRPC.\n\nStart with `tokenloom serve` in one terminal and `tokenloom chat` in "
    "another, or see everything at work with `tokenloom demo`.",
)
app.command()(chat)
app.command()(generate)
app.add_typer(models, name="models")
app.add_typer(sessions, name="sessions")
app.command()(health)
app.command()(demo)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and end.")) -> None:
    if version:
        print(VERSION)
        raise typer.Exit


def main() -> None:
    """Run the command line. Ends the process."""
    try:
        app()
    except Exception as error:
        message = common.one_line(error)
        if message is None:
            raise
        common.errors.print(f"error: {message}", style="red", markup=False, soft_wrap=True)
        sys.exit(1)
