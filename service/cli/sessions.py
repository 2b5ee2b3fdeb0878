"""`tokenloom sessions`: who is on the server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table

from service.cli import common

sessions = typer.Typer(no_args_is_help=True, help="List and close the sessions of a server.")


@sessions.command("list")
def list_sessions(target: common.Target = common.DEFAULT_TARGET, model: common.ModelName = "") -> None:
    """List the sessions of a server.

    A parked session has given its cache slot to others; its next operation brings the cache back.

    Examples:

      tokenloom sessions list

      tokenloom sessions list --model smollm2-135m --target 10.0.0.7:50051
    """
    with common.connect(target) as client:
        found = client.list_sessions(model)
    if not found:
        common.console.print("no sessions")
        return
    table = Table("session", "model", "adapter", "rows", "tokens", "state", "expires in", box=None)
    now = datetime.now(UTC)
    for state in found:
        status = [name for name in ("attached", "parked") if getattr(state, name)] + ["done"] * state.is_done
        seconds = max(0, round((state.expire_time - now).total_seconds()))
        table.add_row(
            state.session_id,
            state.model,
            state.adapter or "-",
            str(len(state.rows)),
            str(state.length),
            ", ".join(status) or "-",
            f"{seconds} s",
        )
    common.console.print(table)


@sessions.command("close")
def close_sessions(
    session_ids: Annotated[list[str] | None, typer.Argument(metavar="SESSION", help="Sessions to close.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Close all sessions, of --model if that is given.")] = False,
    target: common.Target = common.DEFAULT_TARGET,
    model: common.ModelName = "",
) -> None:
    """Close sessions and free what they hold. Their clients get NOT_FOUND.

    Examples:

      tokenloom sessions close 3f1c9a0b7d52

      tokenloom sessions close --all --model smollm2-135m
    """
    if bool(session_ids) == every:
        raise typer.BadParameter("name sessions, or give --all", param_hint="SESSION")
    with common.connect(target) as client:
        ids = [state.session_id for state in client.list_sessions(model)] if every else session_ids or []
        for session_id in ids:
            client.close_session(session_id)
            common.console.print(f"closed {session_id}", soft_wrap=True)
