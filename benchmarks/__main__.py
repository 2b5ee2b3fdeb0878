"""The command."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import latency, load, memory, report, throughput
from benchmarks.figures import Figure
from benchmarks.server import serving
from benchmarks.workload import FULL, QUICK, Prompts, Sizes
from runtime import Tokenizer
from runtime.model_store import ModelStore
from service.cli.models import progress_bars

console = Console(stderr=True, highlight=False)
app = typer.Typer(add_completion=False)


class Precision(StrEnum):
    """Precisions of the default model that are measured."""

    FP32 = "fp32"
    UINT4 = "uint4"


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    quick: Annotated[
        bool, typer.Option(help="Fewer and shorter rounds: whether it works, not how fast it is.")
    ] = False,
    threads: Annotated[
        int, typer.Option(min=1, help="Threads of a model run, here and in the peer.", show_default="one per core")
    ] = os.cpu_count() or 1,
    precision: Annotated[
        list[Precision] | None, typer.Option(help="Precision to measure; may be given again. Both if left out.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="JSON file to write.", show_default="benchmarks/results/<date>.json")
    ] = None,
) -> None:
    """Measure this server against onnxruntime-genai in-process: the same model file, threads, prompts and tokens.

    The server runs in a process of its own and is driven over gRPC; the peer runs here. They take turns, round by
    round, so that whatever else the machine does meets both. Each line of the table is a ratio, ours / theirs: for
    rates more is better, for times and memory less. docs/performance.md says what each figure means.

    Needs the extra "bench" (`make bench` installs it). The first run gets the default model. Takes some minutes on two
    cores; leave the machine alone meanwhile.

    Examples:

      python -m benchmarks

      python -m benchmarks --quick --precision uint4

      python -m benchmarks --threads 4 --output mine.json

      python -m benchmarks load --rate 2
    """
    if context.invoked_subcommand is not None:
        return
    sizes = QUICK if quick else FULL
    figures: list[Figure] = []
    for name in [each.value for each in precision or Precision]:
        figures += _measure(name, _folder(name), threads, sizes)
    report.show(figures)
    path = report.write(figures, {"quick": quick, "threads": threads}, output, "-quick" if quick else "")
    console.print(f"written to {path}", style="dim")


@app.command("load")
def open_loop(
    rate: Annotated[float, typer.Option(min=0.01, help="Requests a second, on average.")] = 1.0,
    requests: Annotated[int, typer.Option(min=1, help="Most requests.")] = 60,
    seconds: Annotated[float, typer.Option(min=1, help="Seconds in which they arrive.")] = 60.0,
    shared: Annotated[int, typer.Option(min=0, max=768, help="Tokens that all prompts begin with.")] = 0,
    seed: Annotated[int, typer.Option(help="Of arrivals and lengths.")] = 0,
    first_token: Annotated[float, typer.Option(help="Seconds to a first token that count as in time.")] = 2.0,
    next_token: Annotated[float, typer.Option(help="Seconds a token, on average, that count as in time.")] = 0.2,
    precision: Annotated[Precision, typer.Option(help="Precision of the default model.")] = Precision.FP32,
    threads: Annotated[
        int, typer.Option(min=1, help="Threads of a model run, here and in the peer.", show_default="one per core")
    ] = os.cpu_count() or 1,
    output: Annotated[
        Path | None, typer.Option(help="JSON file to write.", show_default="benchmarks/results/<date>-load.json")
    ] = None,
) -> None:
    """Let requests arrive at random, whether the last ones are done or not, and see how long they take.

    Prompts of 16 to 1024 tokens, answers of 16 to 64. First the server gets them over gRPC, then the peer's Generator,
    which serves one after another, gets the same ones at the same times.

    Examples:

      python -m benchmarks load --rate 2 --requests 100

      python -m benchmarks load --shared 512 --precision uint4
    """
    from benchmarks.peer import Peer

    offered, target = load.Load(rate, requests, seconds, seed, shared), load.Target(first_token, next_token)
    folder = _folder(precision.value)
    prompts = Prompts(Tokenizer.load(folder))
    ours, theirs = (load.arrivals(offered, prompts) for _ in range(2))
    if not ours:
        raise typer.BadParameter("nothing arrives in so few seconds")
    with serving(folder, threads) as server:
        console.print(f"{len(ours)} requests: server", style="dim")
        asyncio.run(load.drive(server.target, ours))
    console.print(f"{len(theirs)} requests: peer", style="dim")
    load.drive_peer(Peer(folder, threads), theirs)
    figures = list(load.figures(precision.value, target, ours, theirs))
    report.show(figures)
    settings = {"threads": threads, "load": dataclasses.asdict(offered), "target": dataclasses.asdict(target)}
    console.print(f"written to {report.write(figures, settings, output, '-load')}", style="dim")


def _folder(precision: str) -> Path:
    """The default model's; the first time it is made."""
    with progress_bars() as progress:
        return ModelStore().get(precision=precision, progress=progress)


def _measure(model: str, folder: Path, threads: int, sizes: Sizes) -> list[Figure]:
    from benchmarks.peer import Peer

    prompts = Prompts(Tokenizer.load(folder))
    peer = Peer(folder, threads)
    with serving(folder, threads) as server:
        console.print(f"{model}: memory", style="dim")
        used = memory.measure(model, folder, server, peer, prompts, sizes)
        console.print(f"{model}: streams", style="dim")
        rates = throughput.measure(model, server, peer, prompts, sizes)
        console.print(f"{model}: round trips", style="dim")
        return [*rates, *latency.measure(model, server, prompts, sizes), *used]


if __name__ == "__main__":
    app()
