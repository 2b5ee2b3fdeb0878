"""Requests of a session as operations. What each request promises is in protos/tokenloom/v1/generator.proto."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from runtime import operations
from runtime.errors import InvalidArgument
from runtime.operations import LogitsSelector, Operation, Sink
from service.convert import fields
from service.convert.inputs import to_inputs, tokenizer_of
from service.convert.logits import size_of_logits, to_edits, to_selector
from service.convert.settings import to_config
from service.convert.tensors import to_array
from service.target import Target
from tokenloom.v1 import generation_pb2
from tokenloom.v1 import generator_pb2 as pb


def create(request: pb.CreateSessionRequest, target: Target, sink: Sink) -> operations.Create:
    batch_size = request.batch_size if request.HasField("batch_size") else max(1, len(request.inputs))
    return operations.Create(
        session_id=request.session_id,
        sink=sink,
        request_id=fields.request_id(request.request_id),
        config=to_config(request.generation_config),
        batch_size=batch_size,
        adapter=request.adapter,
        idle_timeout=_idle_timeout(request, target) or target.server.config.default_idle_timeout,
        inputs=to_inputs(request.inputs, target.engine.model, batch_size),
    )


def fork(request: pb.ForkSessionRequest, target: Target, sink: Sink) -> operations.Fork:
    return operations.Fork(
        **_changing(request, target, sink),
        new_session_id=request.new_session_id,
        seed=request.seed if request.HasField("seed") else None,
        config=to_config(request.generation_config),
        idle_timeout=_idle_timeout(request, target),
    )


def append_tokens(request: pb.AppendTokensRequest, target: Target, sink: Sink) -> operations.Append:
    if not request.inputs:
        raise InvalidArgument("inputs", [], "at least one entry")
    inputs = to_inputs(request.inputs, target.engine.model, target.rows)
    return operations.Append(**_changing(request, target, sink), inputs=inputs)


def generate_next_token(request: pb.GenerateNextTokenRequest, target: Target, sink: Sink) -> operations.Generate:
    return operations.Generate(**_changing(request, target, sink), steps=1)


def generate_tokens(request: pb.GenerateTokensRequest, target: Target, sink: Sink) -> operations.Generate:
    read = hook = None
    if request.HasField("return_logits"):
        read = _selector(request.return_logits, target, "return_logits")
    if request.HasField("logits_hook"):
        if not target.streamed:
            raise InvalidArgument("logits_hook", "set", "set in Converse only")
        hook = _selector(request.logits_hook.selector, target, "logits_hook.selector")
    return operations.Generate(
        **_changing(request, target, sink),
        steps=request.steps if request.HasField("steps") else None,
        inputs=to_inputs(request.inputs, target.engine.model, target.rows) if request.inputs else {},
        edits=to_edits(request.edits, target.vocab_size, target.rows) if request.edits else (),
        read=read,
        hook=hook,
    )


def rewind_to(request: pb.RewindToRequest, target: Target, sink: Sink) -> operations.Rewind:
    return operations.Rewind(
        **_changing(request, target, sink),
        length=request.length,
        row=request.row if request.HasField("row") else None,
        seed=request.seed if request.HasField("seed") else None,
    )


def get_logits(request: pb.GetLogitsRequest, target: Target, sink: Sink) -> operations.GetLogits:
    selector = _selector(request.selector, target, "selector")
    return operations.GetLogits(session_id=target.session_id, sink=sink, selector=selector)


def set_logits(request: pb.SetLogitsRequest, target: Target, sink: Sink) -> operations.SetLogits:
    if not request.edits:
        raise InvalidArgument("edits", [], "at least one edit")
    edits = to_edits(request.edits, target.vocab_size, target.rows)
    return operations.SetLogits(**_changing(request, target, sink), edits=edits)


def set_inputs(request: pb.SetInputsRequest, target: Target, sink: Sink) -> operations.SetInputs:
    if not request.inputs:
        raise InvalidArgument("inputs", [], "at least one input")
    inputs = {}
    for index, named in enumerate(request.inputs):
        if named.name in inputs:
            raise InvalidArgument(f"inputs[{index}].name", named.name, "each input at most once")
        inputs[named.name] = to_array(named.tensor, f"inputs[{index}].tensor")
    return operations.SetInputs(**_changing(request, target, sink), inputs=inputs)


def set_model_input(request: pb.SetModelInputRequest, target: Target, sink: Sink) -> operations.SetInputs:
    inputs = {request.input.name: to_array(request.input.tensor, "input.tensor")}
    return operations.SetInputs(**_changing(request, target, sink), inputs=inputs)


def set_active_adapter(request: pb.SetActiveAdapterRequest, target: Target, sink: Sink) -> operations.SetAdapter:
    return operations.SetAdapter(
        **_changing(request, target, sink), adapter=request.adapter, recompute=request.recompute
    )


def set_runtime_option(request: pb.SetRuntimeOptionRequest, target: Target, sink: Sink) -> Operation:
    return operations.SetRuntimeOption(session_id=target.session_id, sink=sink, key=request.key, value=request.value)


def get_sequence(request: pb.GetSequenceRequest, target: Target, sink: Sink) -> operations.GetSequence:
    if request.return_text:
        tokenizer_of(target.engine.model)
    return operations.GetSequence(session_id=target.session_id, sink=sink, row=request.row, start=request.start)


def bare(kind: type[Operation]) -> Callable[[Message, Target, Sink], Operation]:
    """An operation that needs nothing but its session."""
    return lambda request, target, sink: kind(session_id=target.session_id, sink=sink)


def named(kind: type[operations.GetInput] | type[operations.GetOutput]) -> Callable[[Any, Target, Sink], Operation]:
    return lambda request, target, sink: kind(session_id=target.session_id, sink=sink, name=request.name)


def _changing(request: Any, target: Target, sink: Sink) -> dict[str, Any]:
    """What all requests that change a session have."""
    return {
        "session_id": target.session_id,
        "sink": sink,
        "request_id": fields.request_id(request.request_id),
        "expected_length": request.expected_length if request.HasField("expected_length") else None,
    }


def _selector(message: generation_pb2.LogitsSelector, target: Target, field: str) -> LogitsSelector:
    """Which logits to read; not more than a reply can carry."""
    selector = to_selector(message, target.vocab_size, field)
    size, limit = size_of_logits(message, target.vocab_size), target.reply_limit
    if size * target.engine.model.slots > limit and size * target.rows > limit:
        allowed = f"at most {limit} bytes in a message; ask for fewer tokens or FLOAT16"
        raise InvalidArgument(field, f"{size * target.rows} bytes of logits", allowed)
    return selector


def _idle_timeout(request: pb.CreateSessionRequest | pb.ForkSessionRequest, target: Target) -> float | None:
    if not request.HasField("idle_timeout"):
        return None
    return fields.idle_timeout(request.idle_timeout, target.server.config.max_idle_timeout)
