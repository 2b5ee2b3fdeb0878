"""Messages of the wire to the values of `tokenloom.types`, and prompts and settings to messages. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta
from typing import Any, TypeVar, cast

import numpy as np
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message as ProtoMessage

from tokenloom import types
from tokenloom._tensors import to_numpy, token_ids
from tokenloom.errors import invalid
from tokenloom.v1 import generation_pb2, generator_pb2, models_pb2, types_pb2

M = TypeVar("M", bound=ProtoMessage)

_FINISH_REASONS = {
    types_pb2.FINISH_REASON_UNSPECIFIED: None,
    types_pb2.FINISH_REASON_EOS: types.FinishReason.EOS,
    types_pb2.FINISH_REASON_LENGTH: types.FinishReason.LENGTH,
    types_pb2.FINISH_REASON_STOP_STRING: types.FinishReason.STOP_STRING,
    types_pb2.FINISH_REASON_STOPPED: types.FinishReason.STOPPED,
}
_DTYPES = {np.dtype(np.float32): types_pb2.DATA_TYPE_FLOAT32, np.dtype(np.float16): types_pb2.DATA_TYPE_FLOAT16}


# --- to the wire -----------------------------------------------------------------------------------------------------


def build(kind: type[M], /, **fields: Any) -> M:
    """The message with these fields; None leaves one unset. A value that does not fit is InvalidArgument naming it."""
    try:
        return kind(**fields)
    except (ValueError, TypeError):
        for name, value in fields.items():
            try:
                kind(**{name: value})
            except (ValueError, TypeError) as error:
                raise invalid(name, f"{value!r} does not fit: {error}") from error
        raise


def generation_config(settings: Mapping[str, Any]) -> generation_pb2.GenerationConfig | None:
    """The message for settings, None where there are none. Unknown names are InvalidArgument listing the known."""
    known = generation_pb2.GenerationConfig.DESCRIPTOR.fields_by_name
    for name in settings:
        if name not in known:
            raise invalid(name, f"there is no such setting; known: {', '.join(known)}")
    return build(generation_pb2.GenerationConfig, **settings) if settings else None


def duration(value: float | timedelta | None) -> Duration | None:
    """A duration given in seconds or as a timedelta."""
    if value is None:
        return None
    message = Duration()
    message.FromTimedelta(value if isinstance(value, timedelta) else timedelta(seconds=value))
    return message


def chat(messages: Sequence[types.Message], add_generation_prompt: bool = True) -> types_pb2.ChatMessages:
    """The message for a conversation."""
    return types_pb2.ChatMessages(
        messages=[build(types_pb2.ChatMessage, **message) for message in messages],
        add_generation_prompt=add_generation_prompt,
    )


def row_input(content: types.RowPrompt, *, row: int | None = None) -> types_pb2.RowInput:
    """The message for the content of one row: text, messages or token ids."""
    if isinstance(content, str):
        return build(types_pb2.RowInput, row=row, text=content)
    if _is_chat(content):
        return build(types_pb2.RowInput, row=row, chat=chat(cast(Sequence[types.Message], content)))
    ids = token_ids(cast(types.Tokens, content), "tokens")
    return build(types_pb2.RowInput, row=row, tokens=types_pb2.TokenIds(ids=ids))


def prompt_inputs(prompt: types.Prompt | None) -> list[types_pb2.RowInput]:
    """The messages for content of one row or of several."""
    if prompt is None:
        return []
    if isinstance(prompt, str) or _is_chat(prompt) or not _is_nested(prompt):
        return [row_input(cast(types.RowPrompt, prompt))]
    return [row_input(content) for content in cast(Sequence[types.RowPrompt], prompt)]


def token_inputs(
    tokens: types.Tokens | Sequence[types.Tokens],
    attention_mask: types.Tokens | Sequence[types.Tokens] | None,
    rows: Sequence[int] | None,
) -> list[types_pb2.RowInput]:
    """The messages for token ids of one row or of several; entries whose mask is 0 are padding."""
    per_row: list[Any] = list(tokens) if _is_nested(tokens) else [tokens]
    masks: list[Any] = [None] * len(per_row)
    if attention_mask is not None:
        masks = list(attention_mask) if _is_nested(attention_mask) else [attention_mask]
        if [len(mask) for mask in masks] != [len(ids) for ids in per_row]:
            raise invalid("attention_mask", "must have the shape of tokens")
    return [
        build(
            types_pb2.RowInput,
            row=row,
            tokens=types_pb2.TokenIds(
                ids=token_ids(ids, "tokens"),
                attention_mask=None if mask is None else np.asarray(mask).astype(bool).tolist(),
            ),
        )
        for row, ids, mask in zip(named_rows(rows, len(per_row)), per_row, masks, strict=True)
    ]


def named_rows(rows: Sequence[int] | None, count: int) -> Sequence[int | None]:
    """One row (or None: by position) for each of `count` contents."""
    if rows is None:
        return [None] * count
    if len(rows) != count:
        raise invalid("rows", f"expected one row for each of the {count} contents, got {len(rows)}")
    return rows


def selector(top_k: int | None, ids: types.Tokens | None, dtype: Any) -> generation_pb2.LogitsSelector:
    """The message for which logits to return. dtype: float32 or float16."""
    data_type = _DTYPES.get(np.dtype(dtype))
    if data_type is None:
        raise invalid("dtype", f"{dtype!r} is neither float32 nor float16")
    if top_k is not None and ids is not None:
        raise invalid("token_ids", "give either top_k or token_ids")
    return build(
        generation_pb2.LogitsSelector,
        top_k=top_k,
        token_ids=None if ids is None else types_pb2.TokenIds(ids=token_ids(ids, "token_ids")),
        dtype=data_type,
    )


def _is_chat(content: Any) -> bool:
    return isinstance(content, Sequence) and len(content) > 0 and isinstance(content[0], Mapping)


def _is_nested(content: Any) -> bool:
    """Whether this is content of several rows: a 2-D array, or a sequence of anything but numbers."""
    if isinstance(content, np.ndarray):
        return content.ndim > 1
    return len(content) > 0 and not isinstance(content[0], int | np.integer)


# --- from the wire ---------------------------------------------------------------------------------------------------


def tokens(ids: Sequence[int]) -> types.TokenArray:
    """int32 [n]."""
    return np.array(ids, dtype=np.int32)


def finish_reason(value: types_pb2.FinishReason) -> types.FinishReason | None:
    """None while the row can go on."""
    return _FINISH_REASONS[value]


def session_state(state: generator_pb2.SessionState) -> types.SessionState:
    """The state of a session."""
    return types.SessionState(
        session_id=state.session_id,
        model=state.model,
        adapter=state.adapter,
        length=state.length,
        is_done=state.is_done,
        rows=tuple(
            types.RowState(row.length, row.new_tokens, finish_reason(row.finish_reason), row.stop_string)
            for row in state.rows
        ),
        expire_time=state.expire_time.ToDatetime(tzinfo=UTC),
        parked=state.parked,
        attached=state.attached,
    )


def settings(config: generation_pb2.GenerationConfig) -> types.GenerationConfig:
    """The settings that are set."""
    found: types.GenerationConfig = {}
    for field, value in config.ListFields():
        found[field.name] = list(value) if field.is_repeated else value  # type: ignore[literal-required]
    return found


def step(event: generator_pb2.StepEvent) -> types.Step:
    """A step of a stream: each row has one token."""
    return types.Step(
        tuple(types.Token(row.row, row.token_ids[0], row.text, finish_reason(row.finish_reason)) for row in event.rows)
    )


def logits(message: generation_pb2.Logits) -> types.LogitsArray | types.SelectedLogits:
    """All logits [rows, vocab_size], or a selection."""
    values = to_numpy(message.values)
    if not message.token_ids:
        return values
    return types.SelectedLogits(values, tokens(message.token_ids).reshape(values.shape))


def generated(reply: generator_pb2.GenerateTokensResponse) -> types.Generated:
    """Result of generate_tokens."""
    return types.Generated(
        rows=tuple(
            types.RowOutput(row.row, tokens(row.token_ids), row.text, finish_reason(row.finish_reason))
            for row in reply.rows
        ),
        steps=reply.steps,
        logits=logits(reply.logits) if reply.HasField("logits") else None,
        interrupted=reply.interrupted,
    )


def row_summary(summary: generator_pb2.RowSummary) -> types.RowSummary:
    """Summary of a row of a one-shot generation."""
    return types.RowSummary(
        row=summary.row,
        token_ids=tokens(summary.token_ids),
        text=summary.text,
        finish_reason=finish_reason(summary.finish_reason),
        stop_string=summary.stop_string,
        prompt_tokens=summary.prompt_tokens,
        seed=summary.seed,
    )


def model_info(
    model: models_pb2.Model,
    inputs: Sequence[models_pb2.TensorInfo] = (),
    outputs: Sequence[models_pb2.TensorInfo] = (),
) -> types.ModelInfo:
    """A loaded model."""
    return types.ModelInfo(
        name=model.name,
        type=model.type,
        vocab_size=model.vocab_size,
        max_length=model.max_length,
        slots=model.slots,
        device=model.device,
        generation_config=settings(model.generation_config),
        has_tokenizer=model.has_tokenizer,
        has_chat_template=model.has_chat_template,
        inputs=tuple(types.TensorInfo(info.name, info.type, tuple(info.shape)) for info in inputs),
        outputs=tuple(types.TensorInfo(info.name, info.type, tuple(info.shape)) for info in outputs),
    )


def adapter_info(adapter: models_pb2.Adapter) -> types.AdapterInfo:
    """A loaded adapter."""
    return types.AdapterInfo(adapter.name, adapter.path, adapter.size_bytes, adapter.sessions)


def server_info(reply: models_pb2.GetServerInfoResponse) -> types.ServerInfo:
    """Version and limits of the server."""
    return types.ServerInfo(
        version=reply.version,
        instance_id=reply.instance_id,
        max_sessions=reply.max_sessions,
        max_queued_operations=reply.max_queued_operations,
        max_message_bytes=reply.max_message_bytes,
        default_idle_timeout=reply.default_idle_timeout.ToTimedelta(),
        max_idle_timeout=reply.max_idle_timeout.ToTimedelta(),
        default_model=reply.default_model,
        features=tuple(reply.features),
    )
