"""OpenTelemetry spans with the attributes of its conventions for RPCs and generative AI. Needs the extra `otel`.

Where spans go, how they are sampled and what the service is called are the SDK's own OTEL_* variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from opentelemetry import propagate
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span as RawSpan
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, format_trace_id, set_span_in_context
from opentelemetry.util.types import AttributeValue

from runtime.engine import Engine
from runtime.errors import NotFound
from runtime.generation_config import GenerationConfig
from runtime.operations import Append, Create, FinishReason, Generate, Generated, Operation, SessionCreated
from service.version import VERSION

SERVERS_FAULT = {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
"""Codes that make a server's span an error; the others are the caller's doing."""
FINISH_REASONS = {
    FinishReason.EOS: "stop",
    FinishReason.STOP_STRING: "stop",
    FinishReason.STOPPED: "stop",
    FinishReason.LENGTH: "length",
}


def exporting_provider(instance_id: str) -> TracerProvider:
    """Sends spans over OTLP in the background, to where OTEL_EXPORTER_OTLP_ENDPOINT says."""
    ours = Resource(
        {"service.name": "tokenloom", "service.version": VERSION, "service.instance.id": instance_id}
    ).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=Resource.create(ours.attributes))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


class OtelTracing:
    """Tracing with a provider of OpenTelemetry's SDK."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("tokenloom", VERSION)

    def call(self, method: str, metadata: Mapping[str, str]) -> OtelSpan:
        name = method.removeprefix("/")
        span = self._tracer.start_span(
            name,
            context=propagate.extract(metadata),
            kind=SpanKind.SERVER,
            attributes={"rpc.system.name": "grpc", "rpc.method": name},
        )
        return OtelSpan(self._tracer, span)

    def shutdown(self) -> None:
        self._provider.shutdown()


class OtelSpan:
    """One span, in the terms of the service."""

    def __init__(self, tracer: Tracer, span: RawSpan, is_call: bool = True) -> None:
        self._tracer = tracer
        self._span = span
        self._is_call = is_call

    @property
    def trace_id(self) -> str:
        return format_trace_id(self._span.get_span_context().trace_id)

    def operation(self, name: str) -> OtelSpan:
        span = self._tracer.start_span(name, context=set_span_in_context(self._span))
        return OtelSpan(self._tracer, span, is_call=False)

    def asked(self, operation: Operation, engine: Engine) -> None:
        if not self._span.is_recording():
            return
        name, model = _operation_name(operation), engine.model.name
        self._span.set_attributes(
            {"gen_ai.operation.name": name, "gen_ai.provider.name": "tokenloom", "gen_ai.request.model": model}
        )
        if not self._is_call:
            self._span.update_name(f"{name} {model}")
        if operation.session_id:
            self._span.set_attribute("gen_ai.conversation.id", operation.session_id)
        if isinstance(operation, Create | Append | Generate) and operation.inputs:
            tokens = sum(len(tokens) for tokens in operation.inputs.values())
            self._span.set_attribute("gen_ai.usage.input_tokens", tokens)
        if isinstance(operation, Generate):
            try:
                session = engine.snapshot(operation.session_id)
            except NotFound:
                return  # and so will the operation find
            self._span.set_attributes(_settings(session.config, len(session.snapshot.rows)))

    def answered(self, result: Any) -> None:
        if not self._span.is_recording():
            return
        if isinstance(result, SessionCreated):
            snapshot = result.snapshot
            self._span.set_attribute("gen_ai.conversation.id", snapshot.session_id)
            self._span.set_attributes(_settings(result.config, len(snapshot.rows)))
        elif isinstance(result, Generated):
            self._span.set_attribute("gen_ai.response.model", result.snapshot.model)
            tokens = sum(len(row.token_ids) for row in result.rows)
            self._span.set_attribute("gen_ai.usage.output_tokens", tokens)
            reasons = [FINISH_REASONS[row.finish_reason] for row in result.rows if row.finish_reason in FINISH_REASONS]
            if reasons:
                self._span.set_attribute("gen_ai.response.finish_reasons", reasons)

    def end(self, code: str, message: str = "", reason: str = "") -> None:
        if not self._span.is_recording():
            return
        if self._is_call:
            self._span.set_attribute("rpc.response.status_code", code)
        if code != "OK":
            self._span.set_attribute("error.type", reason or code)
            if not self._is_call or code in SERVERS_FAULT:
                self._span.set_status(Status(StatusCode.ERROR, message))
        self._span.end()


def _operation_name(operation: Operation) -> str:
    """The conventions' name for generating; ours for what they have none for."""
    if isinstance(operation, Generate):
        return "text_completion"
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(operation).__name__).lower()


def _settings(config: GenerationConfig, rows: int) -> dict[str, AttributeValue]:
    settings: dict[str, AttributeValue | None] = {
        "gen_ai.request.temperature": config.temperature if config.do_sample else 0.0,
        "gen_ai.request.top_p": config.top_p,
        "gen_ai.request.top_k": config.top_k,
        "gen_ai.request.max_tokens": config.max_new_tokens,
        "gen_ai.request.stop_sequences": config.stop_strings or None,
        "gen_ai.request.choice.count": rows if rows > 1 else None,
        # Attributes are signed integers of 64 bits; seeds are not signed.
        "gen_ai.request.seed": config.seed if config.seed is not None and config.seed < 2**63 else None,
    }
    return {name: value for name, value in settings.items() if value is not None}
