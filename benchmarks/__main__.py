"""The command."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks import latency, memory, report, throughput
from benchmarks.figures import Figure
from benchmarks.server import serving
from benchmarks.workload import FULL, QUICK, Prompts, Sizes
from runtime import Tokenizer
from runtime.model_store import ModelStore
from service.cli.models import progress_bars

console = Console(stderr=True, highlight=False)


class Precision(StrEnum):
    """Precisions of the default model that are measured."""

    FP32 = "fp32"
    UINT4 = "uint4"


def main(
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
    """
    sizes = QUICK if quick else FULL
    figures: list[Figure] = []
    for name in [each.value for each in precision or Precision]:
        with progress_bars() as progress:
            folder = ModelStore().get(precision=name, progress=progress)
        figures += _measure(name, folder, threads, sizes)
    report.show(figures)
    path = report.write(figures, {"quick": quick, "threads": threads}, output)
    console.print(f"written to {path}", style="dim")


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
    typer.run(main)
