"""Finds out how few rows a decode run may have on this machine.

What a row gets must not depend on how many run with it. Most kernels keep that to the last bit, but some have one code
path for a single row and another for several: ONNX Runtime's quantised products do on processors without int8 dot
products, where a row alone and the same row in a pair differ by up to 0.7 in the logits. Then no row may run alone.
It depends on kernels, weights and processor, so it is measured when the model is loaded (which also warms it up).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from runtime.kv_cache.base import FloatArray, RunRow

if TYPE_CHECKING:
    from runtime.kv_cache.base import KVCache

logger = logging.getLogger(__name__)

PROMPT = 2
"""Tokens before the probed step."""
WIDEST = 4
"""Rows of the widest batch that is compared."""


def smallest_exact_batch(cache: KVCache) -> int:
    """Rows a decode run must have so that its size never shows: 1 or 2.

    Leaves the cache empty. A machine on which not even that holds is warned about.
    """
    widest = min(WIDEST, cache.rows)
    if cache.model.extra_inputs or cache.model.max_length <= PROMPT:
        return 1
    generator = np.random.default_rng(0)
    prompts = generator.integers(0, cache.model.vocab_size, (widest, PROMPT + 1))
    for slot, prompt in enumerate(prompts):
        cache.run_row(RunRow(slot, 0, prompt[:PROMPT]), "")
    alone, *several = [_step(cache, prompts[:size]) for size in range(1, widest + 1)]
    for slot in range(widest):
        cache.truncate(slot, 0)
    if not all(np.array_equal(logits[:2], several[0]) for logits in several):
        logger.warning("%s: rows of a batch differ with its size on this machine", cache.model.name)
    return 1 if np.array_equal(alone[0], several[0][0]) else 2


def _step(cache: KVCache, prompts: NDArray[np.int64]) -> FloatArray:
    """Logits [rows, vocab_size] of the step after the prompts, which the slots hold."""
    for slot in range(len(prompts)):
        cache.truncate(slot, PROMPT)
    rows = [RunRow(slot, PROMPT, prompt[PROMPT:]) for slot, prompt in enumerate(prompts)]
    return np.stack(cache.decode(rows, ""))
