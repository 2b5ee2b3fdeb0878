"""onnxruntime-genai, where it is installed, on a folder that was built here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def peer() -> Any:
    """The library; the test is skipped where it is not there."""
    return pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is in the extra 'bench'")


def greedy(folder: Path, prompt: Sequence[int], **settings: Any) -> list[int]:
    """The prompt and its continuation.

    It runs twice in one batch: with some quantised kernels a row alone gets other logits, which the engine avoids.
    """
    og = peer()
    parameters = og.GeneratorParams(model := og.Model(str(folder)))
    parameters.set_search_options(batch_size=2, do_sample=False, **settings)
    generator = og.Generator(model, parameters)
    generator.append_tokens(np.array([prompt, prompt], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [int(token) for token in generator.get_sequence(0)]
