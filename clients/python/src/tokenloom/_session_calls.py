"""The operations of a session: arguments to requests, replies to results.

These functions are the methods of Session, aio.Session, Conversation and aio.Conversation, under the same names; what
they say about arguments, results and errors holds there. They know nothing of how a request travels. The caller fills
in session_id and request_id.

Every operation may raise NotFound (no such session), SessionExpired, ResourceExhausted (its queue is full),
DeadlineExceeded, Unavailable. Those that take `expected_length` raise LengthMismatch, changing nothing, where the
session's length in tokens is another one when the operation starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, Unpack

import numpy as np

from tokenloom import _convert as convert
from tokenloom import edit, types
from tokenloom._call import Call
from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import types_pb2


class Opened(NamedTuple):
    """A session that was created, forked or found."""

    state: pb.SessionState
    config: types.GenerationConfig


def opened(reply: Any) -> Opened:
    """From the replies of CreateSession, ForkSession and GetSession."""
    return Opened(reply.state, convert.settings(reply.generation_config))


def nothing(reply: Any) -> None:
    """For operations whose reply is the state alone; the session keeps it."""


def append_tokens(
    tokens: types.Tokens | Sequence[types.Tokens],
    *,
    attention_mask: types.Tokens | Sequence[types.Tokens] | None = None,
    rows: Sequence[int] | None = None,
    expected_length: int | None = None,
) -> Call[None]:
    """Append token ids and compute them. Clears finish reasons; may be done at any time, also after generation.

    tokens: integers [n] for one row, [rows, n], or one sequence per row, of any lengths. Ids in [0, vocab_size).
    attention_mask: of the shape of tokens; where it is 0 the token is padding and dropped.
    rows: the rows meant, one for each sequence. Default: all rows, in order.

    Raises InvalidArgument (an id outside the vocabulary, nothing to append, not one sequence per row) and
    ContextLengthExceeded (past max_length); then nothing is appended to any row.
    """
    inputs = convert.token_inputs(tokens, attention_mask, rows)
    return Call(convert.build(pb.AppendTokensRequest, expected_length=expected_length, inputs=inputs), nothing)


def append_text(
    text: str | Sequence[str],
    *,
    rows: Sequence[int] | None = None,
    add_special_tokens: bool = False,
    expected_length: int | None = None,
) -> Call[None]:
    """Append text, with the model's tokenizer. As `append_tokens` otherwise.

    text: one text, or one per row. rows: the rows meant. add_special_tokens: let the tokenizer add its own.

    Raises InvalidArgument (text that comes to no token) and ContextLengthExceeded; FailedPrecondition where the model
    has no tokenizer.
    """
    texts = [text] if isinstance(text, str) else list(text)
    inputs = [
        convert.build(types_pb2.RowInput, row=row, text=content, add_special_tokens=add_special_tokens or None)
        for row, content in zip(convert.named_rows(rows, len(texts)), texts, strict=True)
    ]
    return Call(convert.build(pb.AppendTokensRequest, expected_length=expected_length, inputs=inputs), nothing)


def append_messages(
    messages: Sequence[types.Message] | Sequence[Sequence[types.Message]],
    *,
    rows: Sequence[int] | None = None,
    add_generation_prompt: bool = True,
    expected_length: int | None = None,
) -> Call[None]:
    """Append messages, with the model's chat template and tokenizer. As `append_tokens` otherwise.

    messages: {"role": ..., "content": ...} mappings, oldest first, or a list of those per row.
    rows: the rows meant. add_generation_prompt: end with the opening of an assistant's message.

    Raises InvalidArgument (no message) and ContextLengthExceeded; FailedPrecondition where the model has no template.
    """
    one = not messages or isinstance(messages[0], Mapping)
    chats: list[Any] = [messages] if one else list(messages)
    inputs = [
        convert.build(types_pb2.RowInput, row=row, chat=convert.chat(content, add_generation_prompt))
        for row, content in zip(convert.named_rows(rows, len(chats)), chats, strict=True)
    ]
    return Call(convert.build(pb.AppendTokensRequest, expected_length=expected_length, inputs=inputs), nothing)


def generate_next_token(*, expected_length: int | None = None) -> Call[types.TokenArray]:
    """One step: sample a token for every unfinished row. Runs the model only if the logits are stale.

    Returns int32 [rows]; rows that were finished before give the pad token and do not grow.
    Raises FailedPrecondition: SESSION_EMPTY (nothing appended to some row), SESSION_DONE (every row is finished).
    """
    return Call(
        convert.build(pb.GenerateNextTokenRequest, expected_length=expected_length),
        lambda reply: convert.tokens(reply.next_tokens),
    )


def generate_tokens(
    steps: int | None = None,
    *,
    prompt: types.Prompt | None = None,
    edits: Sequence[edit.LogitsEdit] = (),
    return_logits: bool = False,
    top_k: int | None = None,
    token_ids: types.Tokens | None = None,
    dtype: Any = np.float32,
    skip_text: bool = False,
    expected_length: int | None = None,
) -> Call[types.Generated]:
    """Append, edit, make steps and read logits, as one operation in one round trip.

    steps: the most to make; fewer are made where every row finishes. None: until every row finishes. 0: no step.
    prompt: appended first. edits: made to the logits of the first step, see `tokenloom.edit`.
    return_logits: also return logits after the last step, selected by top_k, token_ids and dtype as in `get_logits`.
    skip_text: leave the text out. The result is `interrupted` where `interrupt`, or a lost connection, ended it early;
    what was made is in it.

    Raises what `append_tokens`, `set_logits` and `generate_next_token` raise.
    """
    request = convert.build(
        pb.GenerateTokensRequest,
        expected_length=expected_length,
        steps=steps,
        inputs=convert.prompt_inputs(prompt),
        edits=edits,
        return_logits=convert.selector(top_k, token_ids, dtype) if return_logits else None,
        skip_text=skip_text,
    )
    return Call(request, convert.generated)


def get_next_tokens() -> Call[types.TokenArray]:
    """The tokens of the last step: int32 [rows], the pad token for rows that were finished.

    Raises FailedPrecondition (NOTHING_GENERATED) where no step was made since the last append or rewind.
    """
    return Call(pb.GetNextTokensRequest(), lambda reply: convert.tokens(reply.next_tokens))


def get_sequence(row: int = 0, *, start: int = 0) -> Call[types.TokenArray]:
    """The tokens of a row from index `start`, prompt included: int32 [n]. An end-of-sequence token is part of it.

    Raises InvalidArgument (no such row, or start past the length).
    """
    return Call(
        convert.build(pb.GetSequenceRequest, row=row, start=start), lambda reply: convert.tokens(reply.token_ids)
    )


def get_text(row: int = 0, *, start: int = 0) -> Call[str]:
    """The text of a row's tokens from index `start`, without special tokens.

    Raises InvalidArgument (no such row, or start past the length); FailedPrecondition without a tokenizer.
    """
    return Call(convert.build(pb.GetSequenceRequest, row=row, start=start, return_text=True), lambda reply: reply.text)


def rewind_to(
    length: int, *, row: int | None = None, seed: int | None = None, expected_length: int | None = None
) -> Call[None]:
    """Cut rows back to their first `length` tokens. Costs no model run; clears finish reasons.

    row: only this one. seed: a new one from here on; by default the same tokens would be drawn again.

    Raises FailedPrecondition (REWIND_BEYOND_LENGTH) where a row is shorter already; then nothing is changed.
    """
    return Call(
        convert.build(pb.RewindToRequest, expected_length=expected_length, length=length, row=row, seed=seed), nothing
    )


def set_active_adapter(adapter: str, /, *, recompute: bool = False, expected_length: int | None = None) -> Call[None]:
    """Switch to a loaded LoRA adapter, or back to the base model with "".

    recompute: compute what the cache holds again with the adapter; by default the cache stays as it is.

    Raises NotFound (no such adapter).
    """
    request = convert.build(
        pb.SetActiveAdapterRequest, expected_length=expected_length, adapter=adapter, recompute=recompute
    )
    return Call(request, nothing)


def set_runtime_option(key: str, value: str) -> Call[None]:
    """Set an option of the engine for this session: terminate_session, enable_profiling or cuda_graph, "1" or "0".

    Raises InvalidArgument listing the known keys.
    """
    return Call(convert.build(pb.SetRuntimeOptionRequest, key=key, value=value), nothing)


def interrupt() -> Call[None]:
    """End the running generation at a token boundary, and those queued behind it. Tokens stay; they answer normally."""
    return Call(pb.InterruptRequest(), nothing)


def fork(
    *,
    session_id: str = "",
    idle_timeout: float | timedelta | None = None,
    expected_length: int | None = None,
    **config: Unpack[types.GenerationConfig],
) -> Call[Opened]:
    """A new session with the same tokens, cache and settings. The original goes on unchanged.

    session_id: proposed id; by default the server makes one. idle_timeout: seconds or timedelta, by default the
    original's. config: settings over the original's; with a new `seed` the two draw differently.

    Raises AlreadyExists (the id is taken), InvalidArgument (a setting), ResourceExhausted (a limit is reached).
    """
    seed = config.pop("seed", None)
    request = convert.build(
        pb.ForkSessionRequest,
        expected_length=expected_length,
        new_session_id=session_id,
        seed=seed,
        generation_config=convert.generation_config(config),
        idle_timeout=convert.duration(idle_timeout),
    )
    return Call(request, opened)


def refresh() -> Call[types.SessionState]:
    """Ask the server for the state, for sessions that others write to too. Does not count as use."""
    return Call(pb.GetSessionRequest(), lambda reply: convert.session_state(reply.state))


def close() -> Call[None]:
    """End the session and free what it holds. Queued operations end with Cancelled."""
    return Call(pb.CloseSessionRequest(), nothing)
