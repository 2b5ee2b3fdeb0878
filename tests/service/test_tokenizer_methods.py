"""Text to tokens and back, over the wire."""

from __future__ import annotations

import grpc
import pytest
from serving import TIMEOUT, Served, refused

from tokenloom.v1 import tokenizer_pb2, types_pb2

TEXTS = ["hello world", "", "na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve \N{WAVING HAND SIGN}"]


def test_texts_come_back_from_tokens_of_their_own_length(served: Served) -> None:
    encoded = served.tokenizer.Encode(tokenizer_pb2.EncodeRequest(texts=TEXTS), timeout=TIMEOUT)
    assert len(encoded.sequences) == 3
    assert not encoded.sequences[1].ids
    request = tokenizer_pb2.DecodeRequest(sequences=encoded.sequences)
    assert list(served.tokenizer.Decode(request, timeout=TIMEOUT).texts) == TEXTS


def test_long_texts_too(served: Served) -> None:
    text = "once upon a time " * 2000
    encoded = served.tokenizer.Encode(tokenizer_pb2.EncodeRequest(texts=[text]), timeout=TIMEOUT)
    request = tokenizer_pb2.DecodeRequest(sequences=encoded.sequences)
    assert served.tokenizer.Decode(request, timeout=TIMEOUT).texts[0] == text


def test_special_tokens_are_added_and_left_out_as_asked(served: Served) -> None:
    plain = served.tokenizer.Encode(tokenizer_pb2.EncodeRequest(texts=["hi"]), timeout=TIMEOUT).sequences[0]
    end = served.tokenizer.GetTokenIds(tokenizer_pb2.GetTokenIdsRequest(tokens=["</s>"]), timeout=TIMEOUT).ids[0]
    sequence = types_pb2.TokenIds(ids=[*plain.ids, end])
    decode = served.tokenizer.Decode
    assert decode(tokenizer_pb2.DecodeRequest(sequences=[sequence]), timeout=TIMEOUT).texts[0] == "hi"
    shown = tokenizer_pb2.DecodeRequest(sequences=[sequence], skip_special_tokens=False)
    assert decode(shown, timeout=TIMEOUT).texts[0] == "hi</s>"


@pytest.mark.parametrize("bad", [512, 2**31 - 1, 2**32 - 1])
def test_an_id_outside_the_vocabulary_fails_the_request_and_nothing_else(served: Served, bad: int) -> None:
    sequences = [types_pb2.TokenIds(ids=[1]), types_pb2.TokenIds(ids=[2, bad])]
    refusal = refused(served.tokenizer.Decode, tokenizer_pb2.DecodeRequest(sequences=sequences))
    assert (refusal.code, refusal.fields) == (grpc.StatusCode.INVALID_ARGUMENT, ["sequences[1].ids[1]"])
    assert served.tokenizer.Decode(tokenizer_pb2.DecodeRequest(sequences=sequences[:1]), timeout=TIMEOUT).texts


def test_a_conversation_becomes_text_and_its_tokens(served: Served) -> None:
    chat = types_pb2.ChatMessages(messages=[types_pb2.ChatMessage(role="user", content="hi")])
    apply = served.tokenizer.ApplyChatTemplate
    opened = apply(tokenizer_pb2.ApplyChatTemplateRequest(chat=chat), timeout=TIMEOUT)
    assert "hi" in opened.text
    encoded = served.tokenizer.Encode(tokenizer_pb2.EncodeRequest(texts=[opened.text]), timeout=TIMEOUT)
    assert encoded.sequences[0] == opened.tokens
    chat.add_generation_prompt = False
    closed = apply(tokenizer_pb2.ApplyChatTemplateRequest(chat=chat), timeout=TIMEOUT)
    assert opened.text.startswith(closed.text)
    assert len(opened.text) > len(closed.text)


def test_what_is_not_known_is_refused_by_field(served: Served) -> None:
    unknown = tokenizer_pb2.GetTokenIdsRequest(tokens=["</s>", "no such token"])
    assert refused(served.tokenizer.GetTokenIds, unknown).fields == ["tokens[1]"]
    empty = tokenizer_pb2.ApplyChatTemplateRequest()
    assert refused(served.tokenizer.ApplyChatTemplate, empty).fields == ["chat.messages"]
    for call, request in (
        (served.tokenizer.Encode, tokenizer_pb2.EncodeRequest(model="none")),
        (served.tokenizer.Decode, tokenizer_pb2.DecodeRequest(model="none")),
    ):
        assert refused(call, request).reason == "MODEL_NOT_FOUND"
