"""Tiny models, built once per session and never written to by a test."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tiny_gguf import draw_weights, write_gguf

from runtime.model_store import ModelStore


@pytest.fixture(scope="session")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", draw_weights())


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], Path]:
    """Folder of the tiny model in a precision, its head tied to the embedding or not."""
    folder = tmp_path_factory.mktemp("store")

    @cache
    def build(precision: str = "fp32", tied: bool = True) -> Path:
        name = f"tiny-{precision}-{'tied' if tied else 'untied'}"
        gguf = write_gguf(folder / f"{name}.gguf", draw_weights(tied=tied))
        return ModelStore(folder / "models").build(gguf, name, precision)

    return build


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """An empty one."""
    return ModelStore(tmp_path / "models")
