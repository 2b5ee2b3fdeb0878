"""Sessions and what they produce, as messages."""

from __future__ import annotations

from collections.abc import Iterable

from runtime.operations import FinishReason, Generated, RowOutput, RowToken, SessionSnapshot
from service.convert.fields import timestamp
from service.convert.logits import from_logits
from tokenloom.v1 import generator_pb2, types_pb2

FINISH_REASONS = {
    FinishReason.NONE: types_pb2.FINISH_REASON_UNSPECIFIED,
    FinishReason.EOS: types_pb2.FINISH_REASON_EOS,
    FinishReason.LENGTH: types_pb2.FINISH_REASON_LENGTH,
    FinishReason.STOP_STRING: types_pb2.FINISH_REASON_STOP_STRING,
    FinishReason.STOPPED: types_pb2.FINISH_REASON_STOPPED,
}


def from_snapshot(snapshot: SessionSnapshot, attached: bool) -> generator_pb2.SessionState:
    """A session's state; `attached`: whether a Converse stream holds it."""
    return generator_pb2.SessionState(
        session_id=snapshot.session_id,
        model=snapshot.model,
        adapter=snapshot.adapter,
        length=snapshot.length,
        is_done=snapshot.is_done,
        rows=[
            types_pb2.RowState(
                length=row.length,
                new_tokens=row.new_tokens,
                finish_reason=FINISH_REASONS[row.finish_reason],
                stop_string=row.stop_string,
            )
            for row in snapshot.rows
        ],
        expire_time=timestamp(snapshot.expire_time),
        parked=snapshot.parked,
        attached=attached,
    )


def from_step(rows: Iterable[RowToken], skip_text: bool) -> generator_pb2.StepEvent:
    """One step: a token for each row that was not finished."""
    return generator_pb2.StepEvent(
        rows=[
            generator_pb2.RowTokens(
                row=row.row,
                token_ids=(row.token_id,),
                text="" if skip_text else row.text,
                finish_reason=FINISH_REASONS[row.finish_reason],
            )
            for row in rows
        ]
    )


def from_row(row: RowOutput, skip_text: bool) -> generator_pb2.RowTokens:
    """Everything a row got in an operation."""
    return generator_pb2.RowTokens(
        row=row.row,
        token_ids=row.token_ids,
        text="" if skip_text else row.text,
        finish_reason=FINISH_REASONS[row.finish_reason],
    )


def from_generated(
    generated: Generated, request: generator_pb2.GenerateTokensRequest, attached: bool, streamed: bool
) -> generator_pb2.GenerateTokensResponse:
    """Result of a generate operation. `streamed`: the rows were told step by step and are left out."""
    response = generator_pb2.GenerateTokensResponse(
        state=from_snapshot(generated.snapshot, attached), steps=generated.steps, interrupted=generated.interrupted
    )
    if not streamed:
        response.rows.extend(from_row(row, request.skip_text) for row in generated.rows)
    if generated.logits is not None:
        response.logits.CopyFrom(from_logits(generated.logits, request.return_logits.dtype))
    return response
