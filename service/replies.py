"""Results of operations as the replies to their requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from runtime.errors import FailedPrecondition
from runtime.operations import Generated, SessionCreated, Value
from service.convert.inputs import tokenizer_of
from service.convert.logits import from_logits
from service.convert.settings import from_config
from service.convert.state import from_generated
from service.convert.tensors import from_array
from service.target import Target
from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import types_pb2


def state_in(reply: Callable[..., Message]) -> Callable[[Any, Any, Target], Message]:
    """A reply of nothing but the state."""
    return lambda request, result, target: reply(state=target.state(result.snapshot))


def created_in(reply: Callable[..., Message]) -> Callable[[Any, SessionCreated, Target], Message]:
    """A reply of the state and the settings in force."""
    return lambda request, result, target: reply(
        state=target.state(result.snapshot), generation_config=from_config(result.config)
    )


def attached(request: pb.AttachSessionRequest, result: Value, target: Target) -> Message:
    config = target.engine.snapshot(target.session_id).config
    return pb.AttachSessionResponse(state=target.state(result.snapshot), generation_config=from_config(config))


def tensor_in(reply: Callable[..., Message], field: str) -> Callable[[Any, Any, Target], Message]:
    """A reply of the state and the tensor that was asked for by name."""

    def render(request: Any, result: Value, target: Target) -> Message:
        if result.value.nbytes > target.reply_limit:
            raise FailedPrecondition(
                "REPLY_TOO_LARGE",
                f"{request.name!r} has {result.value.nbytes} bytes; a message takes {target.reply_limit}",
                size=result.value.nbytes,
                limit=target.reply_limit,
            )
        tensor = types_pb2.NamedTensor(name=request.name, tensor=from_array(result.value))
        return reply(state=target.state(result.snapshot), **{field: tensor})

    return render


def next_token(request: Message, result: Generated, target: Target) -> Message:
    return pb.GenerateNextTokenResponse(state=target.state(result.snapshot), next_tokens=result.next_tokens)


def next_tokens(request: Message, result: Value, target: Target) -> Message:
    return pb.GetNextTokensResponse(state=target.state(result.snapshot), next_tokens=result.value)


def generated(request: pb.GenerateTokensRequest, result: Generated, target: Target) -> Message:
    attached = result.snapshot.session_id in target.server.attachments
    return from_generated(result, request, attached, target.streamed)


def sequence(request: pb.GetSequenceRequest, result: Value, target: Target) -> Message:
    text = ""
    if request.return_text:
        text = tokenizer_of(target.engine.model).decode(result.value, skip_special_tokens=True)
    return pb.GetSequenceResponse(state=target.state(result.snapshot), token_ids=result.value.tolist(), text=text)


def closed(request: pb.CloseSessionRequest, result: None, target: Target) -> Message:
    return pb.CloseSessionResponse()


def logits(request: pb.GetLogitsRequest, result: Value, target: Target) -> Message:
    logits = from_logits(result.value, request.selector.dtype)
    return pb.GetLogitsResponse(state=target.state(result.snapshot), logits=logits)
