"""What the client gives back: plain, frozen values. Token ids are int32 arrays, logits float arrays.

Knows nothing of the wire; `tokenloom._convert` makes these from messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

TokenArray: TypeAlias = NDArray[np.int32]
LogitsArray: TypeAlias = NDArray[np.float32] | NDArray[np.float16]

Message: TypeAlias = Mapping[str, str]
"""One message of a conversation: {"role": ..., "content": ...}."""

Tokens: TypeAlias = NDArray[Any] | Sequence[int]
"""Token ids of one row."""

RowPrompt: TypeAlias = str | Tokens | Sequence[Message]
"""Content for one row: text, token ids, or messages for the model's chat template."""

Prompt: TypeAlias = RowPrompt | Sequence[RowPrompt]
"""Content for one row, or a list with one entry per row. A 2-D array of token ids is one row per row."""


class GenerationConfig(TypedDict, total=False):
    """Generation settings, named as in transformers. What is left out takes the model's default.

    max_length: most tokens a row may hold. max_new_tokens: most tokens generated after an append.
    min_new_tokens: no end-of-sequence token before this many. do_sample: draw (True) or take the likeliest (False).
    temperature: (0, 100]. top_k: 0 keeps all. top_p: (0, 1]. min_p: [0, 1]. repetition_penalty: (0, 100].
    seed: of the draws; row i uses seed + i * 2**32. eos_token_id: end-of-sequence tokens.
    pad_token_id: what finished rows give. stop_strings: text that ends a row.
    """

    max_length: int
    max_new_tokens: int
    min_new_tokens: int
    do_sample: bool
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    seed: int
    eos_token_id: Sequence[int]
    pad_token_id: int
    stop_strings: Sequence[str]


class FinishReason(Enum):
    """Why a row generates no more tokens."""

    EOS = "eos"
    LENGTH = "length"
    STOP_STRING = "stop_string"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class RowState:
    """One row. Lengths in tokens; `finish_reason` is None while the row can go on."""

    length: int
    new_tokens: int
    finish_reason: FinishReason | None
    stop_string: str


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session at a token boundary. `length` is the largest of its rows, `adapter` "" for the base model."""

    session_id: str
    model: str
    adapter: str
    length: int
    is_done: bool
    rows: tuple[RowState, ...]
    expire_time: datetime
    parked: bool
    attached: bool


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token. `text` is the text that became certain with it, which may be that of earlier tokens too."""

    row: int
    token_id: int
    text: str
    finish_reason: FinishReason | None


@dataclass(frozen=True, slots=True)
class Step:
    """One step: a token for every row that was not finished, by row."""

    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class SelectedLogits:
    """Some logits of each row. values: [rows, k]; token_ids: int32 [rows, k], the token of each value."""

    values: LogitsArray
    token_ids: TokenArray


@dataclass(frozen=True, slots=True)
class RowOutput:
    """What one row got from generate_tokens."""

    row: int
    token_ids: TokenArray
    text: str
    finish_reason: FinishReason | None


@dataclass(frozen=True, slots=True)
class Generated:
    """Result of generate_tokens. `rows` has those that were not finished; it is empty where the steps were streamed.

    steps: how many were made. logits: as asked for. interrupted: whether it was ended early by `interrupt`.
    """

    rows: tuple[RowOutput, ...]
    steps: int
    logits: LogitsArray | SelectedLogits | None
    interrupted: bool


@dataclass(frozen=True, slots=True)
class RowSummary:
    """What a finished row of a one-shot generation came to. `prompt_tokens` counts the prompt without padding."""

    row: int
    token_ids: TokenArray
    text: str
    finish_reason: FinishReason | None
    stop_string: str
    prompt_tokens: int
    seed: int


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """A tensor of a model's graph. `shape` has -1 where an extent varies."""

    name: str
    type: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded model. `slots`: rows in the cache at once. `inputs` and `outputs` are empty in lists of models."""

    name: str
    type: str
    vocab_size: int
    max_length: int
    slots: int
    device: str
    generation_config: GenerationConfig
    has_tokenizer: bool
    has_chat_template: bool
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class AdapterInfo:
    """A loaded LoRA adapter. `sessions`: how many have it active."""

    name: str
    path: str
    size_bytes: int
    sessions: int


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Version and limits of a server. `instance_id` is new with every start."""

    version: str
    instance_id: str
    max_sessions: int
    max_queued_operations: int
    max_message_bytes: int
    default_idle_timeout: timedelta
    max_idle_timeout: timedelta
    default_model: str
    features: tuple[str, ...]
    """Optional parts that are on."""


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """What a model's chat template makes of a conversation: its text and the tokens of it."""

    text: str
    token_ids: TokenArray
