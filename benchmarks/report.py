"""The figures as a table for people and as a file for programs."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("onnxruntime", "onnxruntime-genai", "grpcio", "numpy", "tokenloom-server")


def show(figures: Sequence[Figure]) -> None:
    """Prints the table."""
    table = Table(box=None, header_style="bold")
    for heading in ("figure", "model", "ours", "", "against", "theirs", "ratio", "target"):
        table.add_column(heading, justify="right" if heading in ("ours", "theirs", "ratio") else "left", no_wrap=True)
    for figure in figures:
        ours, theirs, ratio = map(_short, (figure.ours, figure.theirs, figure.ratio))
        table.add_row(figure.name, figure.model, ours, figure.unit, figure.against, theirs, ratio, figure.target)
    Console(width=140, highlight=False).print(table)


def write(figures: Sequence[Figure], settings: dict[str, Any], path: Path | None, suffix: str = "") -> Path:
    """Writes figures, settings, versions and the machine; by default to the day's file in benchmarks/results."""
    now = datetime.now(UTC)
    target = path or RESULTS / f"{now:%Y-%m-%d}{suffix}.json"
    report = {
        "time": now.isoformat(timespec="seconds"),
        "settings": settings,
        "machine": {"processor": _processor(), "cores": os.cpu_count(), "system": platform.system()},
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
        "figures": [dataclasses.asdict(figure) for figure in figures],
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return target


def _short(value: float) -> str:
    """Three significant digits, never in powers of ten."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
