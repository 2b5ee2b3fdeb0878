"""Whatever a client sends, it gets an answer: never UNKNOWN, never INTERNAL, never a dead engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc import code_pb2
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from serving import ADAPTERS, Refusal, Served, serving

from tokenloom.v1 import generator_pb2, models_pb2, tokenizer_pb2

PROMPT = [5, 9, 21, 33]
BUGS = {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL}
SESSIONS = ["fuzz-a", "fuzz-b"]

small = st.integers(0, 6)
integers = {
    FieldDescriptor.CPPTYPE_UINT32: st.one_of(small, st.sampled_from([511, 512, 2**31 - 1, 2**31, 2**32 - 1])),
    FieldDescriptor.CPPTYPE_UINT64: st.one_of(small, st.integers(0, 2**64 - 1)),
    FieldDescriptor.CPPTYPE_INT32: st.one_of(small, st.sampled_from([-1, 2**31 - 1, -(2**31)])),
    FieldDescriptor.CPPTYPE_INT64: st.one_of(small, st.sampled_from([-1, 2**63 - 1, -(2**63)])),
}
words = "tiny-llama tiny-llama-lora adapter_a.onnx_adapter terminate_session enable_profiling user ../x a/b 0 1"
names = st.sampled_from([*words.split(), "", "\0", "x" * 200])
texts = st.one_of(names, st.text(max_size=20))
data = st.one_of(
    st.binary(max_size=64),
    st.builds(
        lambda shape, dtype, fill: np.full(shape, fill, dtype).tobytes(),
        st.sampled_from([(1, 4), (512,), (1, 512), (2, 512)]),
        st.sampled_from([np.int64, np.float32, np.float16]),
        st.sampled_from([0, 1, -1]),
    ),
)


LIKELY: dict[str, st.SearchStrategy[Any]] = {
    "session_id": st.sampled_from([*SESSIONS, *SESSIONS, *SESSIONS, "", "nobody"]),
    "model": st.sampled_from(["", "", "tiny-llama", "tiny-llama", "nothing"]),
    "adapter": st.sampled_from(["", "", "", "nothing"]),
    "name": st.sampled_from(["logits", "input_ids", "attention_mask", "past_key_values.0.key", "nothing"]),
    "request_id": st.sampled_from(["", "", "r1", "r2", "r3", "x" * 129]),
    "page_token": st.sampled_from(["", "", "?"]),
    "ids": st.one_of(small, small, small, st.sampled_from([511, 512, 2**32 - 1])),
    "steps": st.integers(0, 4),
    "row": st.integers(0, 2),
    "length": st.integers(0, 6),
    "expected_length": st.sampled_from([4, 4, 5]),
    "page_size": st.sampled_from([0, 1, 5, 1001]),
}
"""Fields for which anything at all would hardly ever be right."""
RARE = {"attention_mask", "expected_length", "row", "page_token", "logits_hook", "add_special_tokens", "idle_timeout"}


def values_of(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    """Values of one field, most of them near what is allowed."""
    if field.name in LIKELY:
        return LIKELY[field.name]
    if field.message_type is not None:
        return messages(field.message_type, depth + 1)
    if field.enum_type is not None:
        return st.one_of(st.sampled_from([value.number for value in field.enum_type.values]), st.integers(0, 99))
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.CPPTYPE_FLOAT | FieldDescriptor.CPPTYPE_DOUBLE:
            return st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(width=32))
        case FieldDescriptor.CPPTYPE_STRING:
            return data if field.type == FieldDescriptor.TYPE_BYTES else texts
        case kind:
            return integers[kind]


@st.composite
def messages(draw: Any, descriptor: Descriptor, depth: int = 0) -> Message:
    """A message of a type: some of its fields set, one of each oneof at most."""
    message = GetMessageClass(descriptor)()
    if descriptor.full_name == "google.protobuf.Duration":
        message.seconds, message.nanos = draw(st.integers(-1, 100)), draw(st.sampled_from([0, 1, -1, 2**31 - 1]))
        return message
    for field in descriptor.fields:
        rare = field.name in RARE or descriptor.name == "GenerationConfig"
        chance = 1.0 if field.name == "session_id" else 0.15 if rare else 0.6
        if draw(st.floats(0, 1)) > chance:
            continue
        value = values_of(field, depth)
        if field.is_repeated:
            items = draw(st.lists(value, max_size=3))
            getattr(message, field.name).extend(items)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(draw(value))
        else:
            setattr(message, field.name, draw(value))
    return message


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    settings = {"max_length": 32, "slots": 4, "max_sessions": 8, "default_idle_timeout": 5.0}
    with serving(adapter_directories=(ADAPTERS,), **settings) as running:
        yield running


def prepare(served: Served) -> None:
    """The sessions that requests may meet, if they are gone; others make room."""
    for session in served.engine.snapshots():
        if session.session_id not in SESSIONS:
            with suppress(grpc.RpcError):  # those of one-shot calls end by themselves
                served.close(session.session_id)
    for session, rows in zip(SESSIONS, ([PROMPT], [PROMPT, [7]]), strict=True):
        if not served.engine.has_session(session):
            served.create(*rows, session_id=session)


def is_well(served: Served) -> None:
    """The engine lives, and neighbours get what they always get."""
    session = served.create(PROMPT)
    assert served.generate(session, 2).steps == 2
    served.close(session)
    assert served.engine.alive


METHODS = [
    (service.full_name, method)
    for file in (generator_pb2, models_pb2, tokenizer_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if not method.client_streaming and method.name != "UnloadModel"
]
fuzzed = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.parametrize(("service", "method"), METHODS, ids=[method.name for _, method in METHODS])
def test_no_request_is_an_internal_error(served: Served, service: str, method: Any) -> None:
    reply = GetMessageClass(method.output_type)
    make = served.channel.unary_stream if method.server_streaming else served.channel.unary_unary
    call = make(f"/{service}/{method.name}", lambda request: request.SerializeToString(), reply.FromString)

    @fuzzed
    @given(messages(method.input_type))
    def send(request: Message) -> None:
        prepare(served)
        try:
            answer = call(request, timeout=20)
            if method.server_streaming:
                list(answer)
            event("OK")
        except grpc.RpcError as error:
            refusal = Refusal(error)
            event(refusal.code.name)
            assert refusal.code not in BUGS | {grpc.StatusCode.DEADLINE_EXCEEDED}, refusal.message
            assert refusal.reason
            if refusal.code is grpc.StatusCode.INVALID_ARGUMENT:
                assert refusal.fields

    send()
    is_well(served)


operations = messages(generator_pb2.ConverseRequest.DESCRIPTOR)


@settings(fuzzed, max_examples=50)
@given(st.lists(operations, max_size=8), st.booleans())
def test_no_conversation_is_an_internal_error(served: Served, requests: list[Any], increasing: bool) -> None:
    prepare(served)
    first = generator_pb2.ConverseRequest(operation_id=1, attach={"session_id": SESSIONS[0]})
    for index, request in enumerate(requests):
        if increasing:
            request.operation_id = index + 2
        operation = request.WhichOneof("operation")
        if operation is not None and "session_id" in getattr(request, operation).DESCRIPTOR.fields_by_name:
            getattr(request, operation).session_id = ""
    call = served.generator.Converse(iter([first, *requests]), timeout=20)
    try:
        for reply in call:
            assert reply.error.code not in (code_pb2.UNKNOWN, code_pb2.INTERNAL), reply.error.message
    except grpc.RpcError as error:
        assert Refusal(error).code not in BUGS | {grpc.StatusCode.DEADLINE_EXCEEDED}, error
    assert served.engine.alive


@settings(fuzzed, max_examples=30)
@given(st.binary(max_size=40), st.sampled_from(METHODS))
def test_no_bytes_are_an_internal_error(served: Served, raw: bytes, target: tuple[str, Any]) -> None:
    service, method = target
    make = served.channel.unary_stream if method.server_streaming else served.channel.unary_unary
    try:
        answer = make(f"/{service}/{method.name}")(raw, timeout=20)
        if method.server_streaming:
            list(answer)
    except grpc.RpcError as error:
        assert Refusal(error).code not in BUGS
