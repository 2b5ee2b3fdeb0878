"""What each request of a session means: the operation it asks for, and the reply its result makes.

One table for the unary methods and for Converse, so that both check and answer alike. Knows nothing of calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from runtime import operations
from runtime.errors import InvalidArgument, TokenloomError
from runtime.operations import Operation, Sink
from service import replies, requests
from service.convert import fields
from service.target import Target
from tokenloom.v1 import generator_pb2 as pb

LONG_REQUEST_BYTES = 4096
"""Requests beyond this are translated in a worker thread: tokenising them would hold up everybody else."""


@dataclass(frozen=True, slots=True)
class Verb:
    """parse: (request, target, sink) to the operation. render: (request, result, target) to the reply."""

    parse: Callable[[Any, Target, Sink], Operation]
    render: Callable[[Any, Any, Target], Message]


VERBS: dict[type[Message], Verb] = {
    pb.CreateSessionRequest: Verb(requests.create, replies.created_in(pb.CreateSessionResponse)),
    pb.AttachSessionRequest: Verb(requests.bare(operations.GetState), replies.attached),
    pb.ForkSessionRequest: Verb(requests.fork, replies.created_in(pb.ForkSessionResponse)),
    pb.AppendTokensRequest: Verb(requests.append_tokens, replies.state_in(pb.AppendTokensResponse)),
    pb.GenerateNextTokenRequest: Verb(requests.generate_next_token, replies.next_token),
    pb.GenerateTokensRequest: Verb(requests.generate_tokens, replies.generated),
    pb.RewindToRequest: Verb(requests.rewind_to, replies.state_in(pb.RewindToResponse)),
    pb.GetNextTokensRequest: Verb(requests.bare(operations.GetNextTokens), replies.next_tokens),
    pb.GetSequenceRequest: Verb(requests.get_sequence, replies.sequence),
    pb.GetTokenCountRequest: Verb(requests.bare(operations.GetState), replies.state_in(pb.GetTokenCountResponse)),
    pb.GetLogitsRequest: Verb(requests.get_logits, replies.logits),
    pb.SetLogitsRequest: Verb(requests.set_logits, replies.state_in(pb.SetLogitsResponse)),
    pb.SetInputsRequest: Verb(requests.set_inputs, replies.state_in(pb.SetInputsResponse)),
    pb.SetModelInputRequest: Verb(requests.set_model_input, replies.state_in(pb.SetModelInputResponse)),
    pb.GetInputRequest: Verb(requests.named(operations.GetInput), replies.tensor_in(pb.GetInputResponse, "input")),
    pb.GetOutputRequest: Verb(requests.named(operations.GetOutput), replies.tensor_in(pb.GetOutputResponse, "output")),
    pb.SetActiveAdapterRequest: Verb(requests.set_active_adapter, replies.state_in(pb.SetActiveAdapterResponse)),
    pb.SetRuntimeOptionRequest: Verb(requests.set_runtime_option, replies.state_in(pb.SetRuntimeOptionResponse)),
    pb.InterruptRequest: Verb(requests.bare(operations.Interrupt), replies.state_in(pb.InterruptResponse)),
    pb.CloseSessionRequest: Verb(requests.bare(operations.Close), replies.closed),
}


async def parse(request: Message, target: Target, sink: Sink) -> Operation:
    """The operation a request asks for. Raises Unavailable while the server drains."""
    if not isinstance(request, pb.InterruptRequest | pb.CloseSessionRequest):
        target.server.check_accepting()
    verb = VERBS[type(request)]
    if request.ByteSize() > LONG_REQUEST_BYTES:
        return await asyncio.to_thread(verb.parse, request, target, sink)
    return verb.parse(request, target, sink)


def render(request: Message, result: Any, target: Target) -> Any:
    """The reply to a request."""
    return VERBS[type(request)].render(request, result, target)


def placed(request: Message, error: TokenloomError) -> TokenloomError:
    """The error, with its field named as in the request where the runtime knows it by another name."""
    if not isinstance(error, InvalidArgument):
        return error
    match request:
        case pb.CreateSessionRequest() if fields.is_setting(error.field):
            return fields.below("generation_config", error)
        case pb.ForkSessionRequest() if error.field == "session_id":
            return fields.renamed("new_session_id", error)
        case pb.ForkSessionRequest() if fields.is_setting(error.field):
            return fields.below("generation_config", error)
        case pb.SetModelInputRequest() if error.field == request.input.name:
            return fields.renamed("input.tensor", error)
        case pb.SetInputsRequest():
            for index, named in enumerate(request.inputs):
                if error.field == named.name:
                    return fields.renamed(f"inputs[{index}].tensor", error)
    return error
