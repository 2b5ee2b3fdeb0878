"""The Tokenizer service: text to tokens and back, with the tokenizer of a loaded model. Keeps nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message

from runtime.errors import InvalidArgument
from runtime.model import Model
from service.convert.inputs import apply_chat_template, from_tokens, to_tokens, tokenizer_of
from service.interceptor import Context
from service.state import ServerState
from service.verbs import LONG_REQUEST_BYTES
from tokenloom.v1 import tokenizer_pb2 as pb
from tokenloom.v1 import tokenizer_pb2_grpc

Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)


class TokenizerServicer(tokenizer_pb2_grpc.TokenizerServicer):
    """See protos/tokenloom/v1/tokenizer.proto for what each method promises."""

    def __init__(self, server: ServerState) -> None:
        self._server = server

    async def Encode(self, request: pb.EncodeRequest, context: Context) -> pb.EncodeResponse:
        return await self._do(_encode, request)

    async def Decode(self, request: pb.DecodeRequest, context: Context) -> pb.DecodeResponse:
        return await self._do(_decode, request)

    async def ApplyChatTemplate(
        self, request: pb.ApplyChatTemplateRequest, context: Context
    ) -> pb.ApplyChatTemplateResponse:
        return await self._do(_apply_chat_template, request)

    async def GetTokenIds(self, request: pb.GetTokenIdsRequest, context: Context) -> pb.GetTokenIdsResponse:
        return await self._do(_get_token_ids, request)

    async def _do(self, work: Callable[[Model, Request], Reply], request: Request) -> Reply:
        model = self._server.registry.engine(request.model).model  # type: ignore[attr-defined]  # all requests have it
        if request.ByteSize() > LONG_REQUEST_BYTES:
            return await asyncio.to_thread(work, model, request)
        return work(model, request)


def _encode(model: Model, request: pb.EncodeRequest) -> pb.EncodeResponse:
    sequences = tokenizer_of(model).encode_batch(request.texts, request.add_special_tokens)
    return pb.EncodeResponse(sequences=map(from_tokens, sequences))


def _decode(model: Model, request: pb.DecodeRequest) -> pb.DecodeResponse:
    tokenizer = tokenizer_of(model)
    skips = request.skip_special_tokens if request.HasField("skip_special_tokens") else True
    sequences = [
        to_tokens(sequence, tokenizer.vocab_size, f"sequences[{index}]")
        for index, sequence in enumerate(request.sequences)
    ]
    return pb.DecodeResponse(texts=tokenizer.decode_batch(sequences, skips))


def _apply_chat_template(model: Model, request: pb.ApplyChatTemplateRequest) -> pb.ApplyChatTemplateResponse:
    tokenizer = tokenizer_of(model)
    text = apply_chat_template(tokenizer, request.chat, "chat")
    return pb.ApplyChatTemplateResponse(text=text, tokens=from_tokens(tokenizer.encode(text)))


def _get_token_ids(model: Model, request: pb.GetTokenIdsRequest) -> pb.GetTokenIdsResponse:
    tokenizer = tokenizer_of(model)
    ids = []
    for index, token in enumerate(request.tokens):
        try:
            ids.append(tokenizer.to_token_id(token))
        except InvalidArgument as error:
            raise InvalidArgument(f"tokens[{index}]", token, error.allowed) from error
    return pb.GetTokenIdsResponse(ids=ids)
