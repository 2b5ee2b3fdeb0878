"""Chooses the next token of each row of a step.

A draw depends on (seed, row, position) and the row's logits alone: the random number comes from a counter-based
generator, so it is the same in any batch, after a rewind and on another replica.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.errors import FailedPrecondition
from runtime.generation_config import SamplingParameters
from runtime.logits_processors import process
from runtime.operations import FloatArray, TokenArray

BLOCK = 64
"""Values per block in `largest`: its maximum stands for it in the first, cheap pass."""
FIRST_NUCLEUS = 512
"""Candidates looked at first for top_p alone; most distributions have their mass in far fewer tokens."""


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """One row about to get a token. `seed` is the row's own; `tokens` the row so far."""

    logits: FloatArray
    parameters: SamplingParameters
    seed: int
    tokens: TokenArray
    new_tokens: int


def row_seed(seed: int, row: int) -> int:
    """Seed of a row: seed + row * 2^32, as Modular MAX gives it to the rows of a batch."""
    return (seed + (row << 32)) % 2**64


def sample(row: SamplingRow) -> int:
    """The chosen token. Raises FailedPrecondition with reason LOGITS_NOT_FINITE where no token can be chosen."""
    logits = process(row.logits, row.parameters, row.tokens, row.new_tokens)
    best = int(np.argmax(logits))
    # argmax finds a NaN or +inf if there is one, and -inf only if there is nothing else.
    if not np.isfinite(logits[best]):
        raise FailedPrecondition(
            "LOGITS_NOT_FINITE", f"the largest logit is {logits[best]}: no token can be chosen", token=best
        )
    if not row.parameters.do_sample:
        return best
    token_ids, probabilities = distribution(logits, row.parameters)
    cumulative = np.cumsum(probabilities)
    point = uniform(row.seed, len(row.tokens)) * cumulative[-1]
    return int(token_ids[min(int(np.searchsorted(cumulative, point, side="right")), len(token_ids) - 1)])


def uniform(seed: int, position: int) -> float:
    """The random number in [0, 1) of a seed and position (Philox4x64, Salmon et al. 2011)."""
    return float(np.random.Generator(np.random.Philox(key=seed, counter=[position, 0, 0, 0])).random())


def distribution(logits: FloatArray, parameters: SamplingParameters) -> tuple[TokenArray, NDArray[np.float64]]:
    """Tokens that can be drawn and their probabilities, after temperature, top_k, top_p and min_p in that order.

    Where anything is cut they are sorted by falling probability, equal ones by token id; otherwise by token id.
    """
    scores = logits.astype(np.float64) / parameters.temperature
    cut_k = 0 < parameters.top_k < len(scores)
    if not cut_k and parameters.top_p == 1.0 and parameters.min_p == 0.0:
        return np.arange(len(scores)), _softmax(scores)
    if cut_k:
        token_ids = largest(scores, parameters.top_k)
        kept = _softmax(scores[token_ids])
    elif parameters.top_p < 1.0:
        token_ids, kept = _nucleus_candidates(scores, parameters.top_p)
    else:
        token_ids = np.argsort(-scores, kind="stable")
        kept = _softmax(scores[token_ids])
    if parameters.top_p < 1.0:
        before = np.cumsum(kept) - kept
        count = max(1, int(np.count_nonzero(before < parameters.top_p)))
        token_ids, kept = token_ids[:count], kept[:count]
    if parameters.min_p > 0.0:
        count = int(np.count_nonzero(kept >= parameters.min_p * kept[0]))
        token_ids, kept = token_ids[:count], kept[:count]
    return token_ids, kept / kept.sum()


def largest(scores: NDArray[np.floating], k: int) -> TokenArray:
    """Indices of the k largest values by falling value, equal ones by index; all values equal to the k-th are kept.

    The k-th largest of the block maxima is no larger than the k-th largest value, so one cheap pass leaves few values
    to sort.
    """
    whole = len(scores) // BLOCK * BLOCK
    maxima = scores[:whole].reshape(-1, BLOCK).max(axis=1) if whole else scores
    candidates = np.arange(len(scores))
    if len(maxima) > k:
        floor = np.partition(maxima, len(maxima) - k)[len(maxima) - k]
        candidates = np.flatnonzero(scores >= floor)
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    if len(order) <= k:
        return order
    return order[: int(np.count_nonzero(scores[order] >= scores[order[k - 1]]))]


def _nucleus_candidates(scores: NDArray[np.float64], top_p: float) -> tuple[TokenArray, NDArray[np.float64]]:
    """Enough of the most likely tokens to hold top_p, sorted, with their probabilities over the whole vocabulary."""
    peak = scores.max()
    total = np.exp(scores - peak).sum()
    count = FIRST_NUCLEUS
    while True:
        token_ids = largest(scores, min(count, len(scores)))
        kept = np.exp(scores[token_ids] - peak) / total
        if kept.sum() >= top_p or len(token_ids) == len(scores):
            return token_ids, kept
        count *= 8


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())
