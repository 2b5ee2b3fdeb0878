"""Changes made to a row's logits before a token is chosen, in transformers' order.

Each is a pure function: logits [vocab_size] in, new logits out; the input is never written to.
"""

from __future__ import annotations

import numpy as np

from runtime.generation_config import SamplingParameters
from runtime.operations import FloatArray, TokenArray


def process(logits: FloatArray, parameters: SamplingParameters, tokens: TokenArray, new_tokens: int) -> FloatArray:
    """All processors the parameters ask for. tokens: the row so far, new_tokens of them since the last append."""
    if parameters.repetition_penalty != 1.0:
        logits = repetition_penalty(logits, tokens, parameters.repetition_penalty)
    if new_tokens < parameters.min_new_tokens and parameters.eos_token_id:
        logits = suppress(logits, parameters.eos_token_id)
    return logits


def repetition_penalty(logits: FloatArray, tokens: TokenArray, penalty: float) -> FloatArray:
    """Divides positive and multiplies negative logits of tokens already there (CTRL, Keskar et al. 2019)."""
    logits = logits.copy()
    seen = np.unique(tokens)
    values = logits[seen]
    logits[seen] = np.where(values < 0, values * penalty, values / penalty)
    return logits


def suppress(logits: FloatArray, token_ids: tuple[int, ...]) -> FloatArray:
    """Makes tokens impossible."""
    logits = logits.copy()
    logits[list(token_ids)] = -np.inf
    return logits
