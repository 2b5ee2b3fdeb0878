"""Generate: a batch of prompts in, their tokens out as they come. The session behind it lives as long as the call."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator

from runtime.errors import InvalidArgument, TokenloomError
from runtime.operations import FinishReason, Generate, Generated, RowSnapshot, RowToken, SessionCreated, StepResult
from service.convert.state import FINISH_REASONS, from_step
from service.sinks import ReplySink, StreamSink, Window, answer, close
from service.state import ServerState
from service.target import Target
from service.tracing import current_span
from service.verbs import parse, placed
from tokenloom.v1 import generator_pb2 as pb


async def generate(server: ServerState, request: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse, None]:
    """Steps of the rows, and a summary as each row finishes. Ends the session in every case."""
    engine = server.registry.engine(request.model)
    session_id = f"generate-{uuid.uuid4().hex}"
    creating = _creation(request, session_id)
    reply = ReplySink()
    create = await parse(creating, Target(server, engine, session_id), reply)
    span = current_span.get()
    span.asked(create, engine)
    try:
        try:
            created: SessionCreated = await answer(engine, create, reply)
        except TokenloomError as error:
            raise placed(creating, error) from error
        span.answered(created)
        rows = [_Row(index, row, created, request.skip_text) for index, row in enumerate(created.snapshot.rows)]
        for row in rows:
            if row.is_finished:
                yield row.summary()
        if all(row.is_finished for row in rows):
            return

        wake, window = asyncio.Event(), Window()
        sink = StreamSink(wake.set)
        operation = Generate(session_id=session_id, sink=sink, window=window.size)
        operation.submitted = create.submitted  # to its caller the prompt is part of it
        span.asked(operation, engine)
        engine.submit(operation)
        while True:
            while not sink.messages:
                wake.clear()
                await wake.wait()
            message = sink.messages.popleft()
            if isinstance(message, StepResult):
                yield pb.GenerateResponse(step=from_step(message.rows, request.skip_text))
                window.written(engine, operation)
                for token in message.rows:
                    row = rows[token.row]
                    row.take(token)
                    if row.is_finished:
                        yield row.summary()
            elif isinstance(message, Generated):
                span.answered(message)
                for row in rows:
                    if not row.is_finished:  # it was interrupted
                        row.finish_reason = FinishReason.STOPPED
                        yield row.summary()
                return
            else:
                raise message
    finally:
        close(engine, session_id)


def _creation(request: pb.GenerateRequest, session_id: str) -> pb.CreateSessionRequest:
    """The request that makes the call's session."""
    if not request.inputs:
        raise InvalidArgument("inputs", [], "at least one entry")
    for index, entry in enumerate(request.inputs):
        if entry.HasField("row"):
            raise InvalidArgument(f"inputs[{index}].row", entry.row, "left out: the i-th entry is row i")
    return pb.CreateSessionRequest(
        session_id=session_id,
        inputs=request.inputs,
        generation_config=request.generation_config,
        adapter=request.adapter,
    )


class _Row:
    """What a row came to so far."""

    def __init__(self, index: int, row: RowSnapshot, created: SessionCreated, skip_text: bool) -> None:
        self.finish_reason = row.finish_reason  # a prompt as long as a row may get leaves nothing to generate
        self.stop_string = ""
        self._summary = pb.RowSummary(
            row=index, prompt_tokens=row.length, seed=((created.config.seed or 0) + index * 2**32) % 2**64
        )
        self._skip_text = skip_text
        self._texts: list[str] = []

    @property
    def is_finished(self) -> bool:
        return self.finish_reason is not FinishReason.NONE

    def take(self, token: RowToken) -> None:
        """One more token."""
        self._summary.token_ids.append(token.token_id)
        self._texts.append(token.text)
        self.finish_reason = token.finish_reason
        self.stop_string = token.stop_string

    def summary(self) -> pb.GenerateResponse:
        """All of it."""
        self._summary.finish_reason = FINISH_REASONS[self.finish_reason]
        self._summary.stop_string = self.stop_string
        self._summary.text = "" if self._skip_text else "".join(self._texts)
        return pb.GenerateResponse(summary=self._summary)
