"""onnxruntime-genai in this process, on the same model folder with the same number of threads."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime_genai  # type: ignore[import-untyped]

from benchmarks.workload import MAX_LENGTH


@dataclass(frozen=True, slots=True)
class Decoded:
    """A batch that was generated, from its first token on. rows: tokens of each."""

    tokens_per_second: float
    rows: list[list[int]]


class Peer:
    """A loaded model of the peer's."""

    def __init__(self, folder: Path, threads: int) -> None:
        config = onnxruntime_genai.Config(str(folder))
        options = {"intra_op_num_threads": threads, "inter_op_num_threads": 1}
        config.overlay(json.dumps({"model": {"decoder": {"session_options": options}}}))
        self._model = onnxruntime_genai.Model(config)

    def generator(self, rows: int = 1, min_length: int = 0) -> Any:
        """A greedy Generator with room for MAX_LENGTH tokens a row, that does not end before `min_length`."""
        settings = onnxruntime_genai.GeneratorParams(self._model)
        settings.set_search_options(batch_size=rows, max_length=MAX_LENGTH, min_length=min_length, do_sample=False)
        return onnxruntime_genai.Generator(self._model, settings)

    def decode(self, prompts: Sequence[Sequence[int]], steps: int) -> Decoded:
        """`steps` tokens for each of the prompts, which are of one length, as one batch."""
        generator = self.generator(len(prompts))
        generator.append_tokens(np.array(prompts, np.int32))
        tokens = [self._step(generator)]
        started = time.perf_counter()
        tokens += [self._step(generator) for _ in range(steps - 1)]
        seconds = time.perf_counter() - started
        return Decoded(len(prompts) * (steps - 1) / seconds, np.array(tokens).T.tolist())

    def first_token_seconds(self, prompt: Sequence[int]) -> float:
        """From handing in a prompt to having the first token."""
        generator = self.generator()
        started = time.perf_counter()
        generator.append_tokens(np.array([prompt], np.int32))
        self._step(generator)
        return time.perf_counter() - started

    def stream(self, prompt: Sequence[int], steps: int) -> Iterator[int]:
        """So many tokens after a prompt, none of them an end token, as they come."""
        generator = self.generator(min_length=len(prompt) + steps)
        generator.append_tokens(np.array([prompt], np.int32))
        for _ in range(steps):
            yield self._step(generator)[0]

    @staticmethod
    def _step(generator: Any) -> list[int]:
        if generator.is_done():
            raise RuntimeError("the peer ended early; the prompts must lead to longer continuations")
        generator.generate_next_token()
        return [int(token) for token in generator.get_next_tokens()]
