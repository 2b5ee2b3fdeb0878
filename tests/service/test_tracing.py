"""Traces: spans of calls and operations, with the attributes of OpenTelemetry's conventions."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from pydantic import ValidationError
from serving import TIMEOUT, Served, refused, serving, tokens, wait_until

from service.config import ServerConfig
from service.otel import OtelTracing
from tokenloom.v1 import generator_pb2 as pb

PROMPT = [5, 9, 21, 33]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


class Traced:
    """A server whose spans stay in memory."""

    def __init__(self, served: Served, spans: InMemorySpanExporter) -> None:
        self.served = served
        self._spans = spans

    def span(self, name: str) -> ReadableSpan:
        """The one span of that name, once it has ended."""
        wait_until(lambda: name in self.names(), f"a span {name!r}")
        (found,) = [span for span in self._spans.get_finished_spans() if span.name == name]
        return found

    def names(self) -> list[str]:
        return [span.name for span in self._spans.get_finished_spans()]


@pytest.fixture
def traced() -> Iterator[Traced]:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    with serving(tracing=OtelTracing(provider)) as served:
        yield Traced(served, spans)


def facts(span: ReadableSpan) -> dict[str, object]:
    """Its attributes, those of generative AI without their prefix."""
    return {key.removeprefix("gen_ai."): value for key, value in (span.attributes or {}).items()}


# --- calls -----------------------------------------------------------------------------------------------------------


def test_a_call_is_a_server_span_below_its_callers(traced: Traced) -> None:
    traced.served.generator.ListSessions(
        pb.ListSessionsRequest(), metadata=[("traceparent", f"00-{TRACE}-{PARENT}-01")], timeout=TIMEOUT
    )
    span = traced.span("tokenloom.v1.Generator/ListSessions")
    assert span.kind is SpanKind.SERVER
    assert span.parent is not None
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert facts(span) == {
        "rpc.system.name": "grpc",
        "rpc.method": "tokenloom.v1.Generator/ListSessions",
        "rpc.response.status_code": "OK",
    }


def test_a_call_without_a_trace_begins_one_and_an_unsampled_trace_is_not_recorded(traced: Traced) -> None:
    list_sessions = traced.served.generator.ListSessions
    list_sessions(pb.ListSessionsRequest(), metadata=[("traceparent", f"00-{TRACE}-{PARENT}-00")], timeout=TIMEOUT)
    list_sessions(pb.ListSessionsRequest(), timeout=TIMEOUT)
    assert traced.span("tokenloom.v1.Generator/ListSessions").parent is None


def test_a_refused_call_names_its_reason_and_is_no_fault_of_the_server(traced: Traced) -> None:
    refused(traced.served.generator.GetSession, pb.GetSessionRequest(session_id="nobody"))
    span = traced.span("tokenloom.v1.Generator/GetSession")
    assert facts(span)["rpc.response.status_code"] == "NOT_FOUND"
    assert facts(span)["error.type"] == "SESSION_NOT_FOUND"
    assert span.status.status_code is StatusCode.UNSET


def test_a_failure_of_the_server_is_an_error(traced: Traced) -> None:
    traced.served.engine.drain()
    refused(traced.served.generator.CreateSession, pb.CreateSessionRequest())
    assert traced.span("tokenloom.v1.Generator/CreateSession").status.status_code is StatusCode.ERROR


# --- what generation is told by --------------------------------------------------------------------------------------


def test_a_session_and_what_it_generates_are_described(traced: Traced) -> None:
    config = {"do_sample": True, "temperature": 0.5, "top_k": 7, "top_p": 0.75, "max_new_tokens": 3, "seed": 11}
    config |= {"min_new_tokens": 3, "stop_strings": ["§"]}
    session = traced.served.create(PROMPT, PROMPT, generation_config=config)
    traced.served.generate(session, 5)
    settings = {
        "request.model": "tiny-llama",
        "provider.name": "tokenloom",
        "conversation.id": session,
        "request.temperature": 0.5,
        "request.top_k": 7,
        "request.top_p": 0.75,
        "request.max_tokens": 3,
        "request.seed": 11,
        "request.stop_sequences": ("§",),
        "request.choice.count": 2,
    }
    created = facts(traced.span("tokenloom.v1.Generator/CreateSession"))
    expected = settings | {"operation.name": "create", "usage.input_tokens": 8}
    assert {key: created[key] for key in expected} == expected
    generated = facts(traced.span("tokenloom.v1.Generator/GenerateTokens"))
    expected = settings | {
        "operation.name": "text_completion",
        "response.model": "tiny-llama",
        "usage.output_tokens": 6,
        "response.finish_reasons": ("length", "length"),
    }
    assert {key: generated[key] for key in expected} == expected


def test_a_one_shot_call_has_its_prompt_and_its_answer(traced: Traced) -> None:
    request = pb.GenerateRequest(inputs=[tokens(PROMPT)], generation_config={"max_new_tokens": 4, "min_new_tokens": 4})
    list(traced.served.generator.Generate(request, timeout=TIMEOUT))
    span = facts(traced.span("tokenloom.v1.Generator/Generate"))
    assert (span["usage.input_tokens"], span["usage.output_tokens"]) == (4, 4)
    assert span["operation.name"] == "text_completion"
    assert span["response.finish_reasons"] == ("length",)
    assert span["request.temperature"] == 0.0


def test_each_operation_of_a_stream_is_a_span_below_the_streams(traced: Traced) -> None:
    stream = traced.served.converse()
    session = stream.create(PROMPT, generation_config={"min_new_tokens": 400})
    stream.do(generate_tokens=pb.GenerateTokensRequest(steps=2, inputs=[tokens([7, 8])]))
    assert stream.do(rewind_to=pb.RewindToRequest(length=99)).error.reason == "REWIND_BEYOND_LENGTH"
    stream.half_close()
    stream.rest()
    call = traced.span("tokenloom.v1.Generator/Converse")
    generated = traced.span("text_completion tiny-llama")
    rewound = traced.span("rewind tiny-llama")
    for span in (traced.span("create tiny-llama"), generated, rewound):
        assert span.kind is SpanKind.INTERNAL
        assert span.parent is not None and span.parent.span_id == call.context.span_id
        assert facts(span)["conversation.id"] == session
    assert (facts(generated)["usage.input_tokens"], facts(generated)["usage.output_tokens"]) == (2, 2)
    assert "response.finish_reasons" not in facts(generated)
    assert facts(rewound)["error.type"] == "REWIND_BEYOND_LENGTH"
    assert rewound.status.status_code is StatusCode.ERROR


def test_an_operation_whose_stream_went_away_is_cancelled(traced: Traced) -> None:
    stream = traced.served.converse()
    stream.create(PROMPT, generation_config={"min_new_tokens": 400})
    stream.send(credits=1, generate_tokens=pb.GenerateTokensRequest())
    stream.receive()
    stream.cancel()
    assert facts(traced.span("text_completion tiny-llama"))["error.type"] == "CANCELLED"


# --- on and off ------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("variables", "is_on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4317"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317", "TOKENLOOM_TRACING": "false"}, False),
        ({"TOKENLOOM_TRACING": "true"}, True),
    ],
)
def test_tracing_is_off_unless_it_is_configured(
    variables: dict[str, str], is_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ServerConfig().tracing is is_on


@pytest.mark.parametrize(
    ("variable", "value"), [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")]
)
def test_what_the_server_cannot_send_is_an_error_at_start(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValidationError, match=f"{variable} is '{value}'"):
        ServerConfig(tracing=True)


def test_a_missing_extra_is_an_error_at_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc", None)
    with pytest.raises(ValidationError, match=r"tokenloom-server\[otel\]"):
        ServerConfig(tracing=True)
    assert not ServerConfig().tracing


def test_without_tracing_nothing_of_opentelemetry_is_imported() -> None:
    program = "import sys, service.server; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


class _Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes what an exporter sends."""

    def __init__(self) -> None:
        self.requests: list[trace_service_pb2.ExportTraceServiceRequest] = []
        self.received = threading.Event()

    def Export(
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        self.requests.append(request)
        self.received.set()
        return trace_service_pb2.ExportTraceServiceResponse()


def test_spans_arrive_at_an_otlp_collector_before_the_server_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    collector, receiver = _Collector(), grpc.server(ThreadPoolExecutor(1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, receiver)
    port = receiver.add_insecure_port("127.0.0.1:0")
    receiver.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    try:
        with serving() as served:
            served.create(PROMPT)
        assert collector.received.is_set()
    finally:
        receiver.stop(None)
    (request,) = collector.requests
    (spans,) = request.resource_spans
    assert [span.name for scope in spans.scope_spans for span in scope.spans] == [
        "tokenloom.v1.Generator/CreateSession"
    ]
    resource = {pair.key: pair.value.string_value for pair in spans.resource.attributes}
    assert (resource["service.name"], resource["deployment.environment.name"]) == ("tokenloom", "test")
    assert resource["service.instance.id"] == served.server.state.instance_id
