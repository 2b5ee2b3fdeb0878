"""What is appended to rows: tokens, text or conversations, and which row each is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from runtime.errors import FailedPrecondition, InvalidArgument
from runtime.operations import TokenArray
from service.convert.fields import below
from tokenloom.v1 import types_pb2

if TYPE_CHECKING:
    from runtime.model import Model
    from runtime.tokenizer import Tokenizer


def to_tokens(message: types_pb2.TokenIds, vocab_size: int, field: str) -> TokenArray:
    """int64 [n]: the ids whose mask is not false, each checked against the vocabulary."""
    ids = np.array(message.ids, dtype=np.int64)
    kept = np.arange(len(ids))
    if mask := message.attention_mask:
        if len(mask) != len(ids):
            raise InvalidArgument(f"{field}.attention_mask", f"{len(mask)} entries", f"{len(ids)}, one per id")
        kept = np.flatnonzero(np.array(mask, dtype=np.bool_))
        ids = ids[kept]
    check_ids(ids, vocab_size, lambda index: f"{field}.ids[{kept[index]}]")
    return ids


def check_ids(ids: TokenArray, vocab_size: int, path: Callable[[int], str]) -> None:
    """Refuses ids that are no tokens. `path` gives the field of the id at an index of `ids`."""
    outside = (ids < 0) | (ids >= vocab_size)
    if outside.any():
        first = int(outside.argmax())
        raise InvalidArgument(path(first), int(ids[first]), f"an id in [0, {vocab_size})")


def from_tokens(tokens: TokenArray | Sequence[int]) -> types_pb2.TokenIds:
    """Token ids as a message, without a mask."""
    return types_pb2.TokenIds(ids=tokens.tolist() if isinstance(tokens, np.ndarray) else tokens)


def to_inputs(
    messages: Sequence[types_pb2.RowInput], model: Model, rows: int, field: str = "inputs"
) -> dict[int, TokenArray]:
    """Row to int64 [n] tokens, n at least 1. `rows` is the number of rows of the session."""
    inputs: dict[int, TokenArray] = {}
    for index, row in enumerate(_rows(messages, rows, field)):
        inputs[row] = _content(messages[index], model, f"{field}[{index}]")
    return inputs


def apply_chat_template(tokenizer: Tokenizer, chat: types_pb2.ChatMessages, field: str) -> str:
    """The text the model's template makes of a conversation."""
    if not chat.messages:
        raise InvalidArgument(f"{field}.messages", [], "at least one message")
    messages = [{"role": message.role, "content": message.content} for message in chat.messages]
    opens_answer = chat.add_generation_prompt if chat.HasField("add_generation_prompt") else True
    try:
        return tokenizer.apply_chat_template(messages, add_generation_prompt=opens_answer)
    except InvalidArgument as error:
        raise below(field, error) from error


def tokenizer_of(model: Model) -> Tokenizer:
    """The model's tokenizer. Raises FailedPrecondition where it has none."""
    if model.tokenizer is None:
        raise FailedPrecondition(
            "NO_TOKENIZER", f"model {model.name!r} has no tokenizer; give tokens", model=model.name
        )
    return model.tokenizer


def _rows(messages: Sequence[types_pb2.RowInput], rows: int, field: str) -> list[int]:
    """The row of each message: all of them left out, or each one named once."""
    named = [message.HasField("row") for message in messages]
    if not any(named):
        if messages and len(messages) != rows:
            raise InvalidArgument(field, f"{len(messages)} entries without row", f"one for each of {rows} rows")
        return list(range(len(messages)))
    seen: set[int] = set()
    for index, message in enumerate(messages):
        where = f"{field}[{index}].row"
        if not named[index]:
            raise InvalidArgument(where, None, "set in every entry or in none")
        if message.row >= rows:
            raise InvalidArgument(where, message.row, f"a row in [0, {rows})")
        if message.row in seen:
            raise InvalidArgument(where, message.row, "each row at most once")
        seen.add(message.row)
    return [message.row for message in messages]


def _content(message: types_pb2.RowInput, model: Model, field: str) -> TokenArray:
    kind = message.WhichOneof("content")
    if message.HasField("add_special_tokens") and kind != "text":
        raise InvalidArgument(f"{field}.add_special_tokens", message.add_special_tokens, "set with text only")
    match kind:
        case "tokens":
            tokens = to_tokens(message.tokens, model.vocab_size, f"{field}.tokens")
        case "text":
            tokenizer = tokenizer_of(model)
            tokens = np.array(tokenizer.encode(message.text, message.add_special_tokens), dtype=np.int64)
        case "chat":
            tokenizer = tokenizer_of(model)
            text = apply_chat_template(tokenizer, message.chat, f"{field}.chat")
            tokens = np.array(tokenizer.encode(text), dtype=np.int64)
        case _:
            raise InvalidArgument(field, None, "one of tokens, text and chat")
    if not len(tokens):
        raise InvalidArgument(f"{field}.{kind}", "no token", "content of at least one token")
    return tokens
