"""How this package opens channels and which methods it calls on them. Knows nothing of what the methods do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from tokenloom.v1 import (
    generator_pb2,
    generator_pb2_grpc,
    models_pb2,
    models_pb2_grpc,
    tokenizer_pb2,
    tokenizer_pb2_grpc,
)

DEFAULT_TARGET = "localhost:50051"
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
KEEPALIVE_MS = 30_000
HOST_HEADER = "x-session-host"

_SERVICES: list[tuple[ServiceDescriptor, Any]] = [
    (generator_pb2.DESCRIPTOR.services_by_name["Generator"], generator_pb2_grpc.GeneratorStub),
    (models_pb2.DESCRIPTOR.services_by_name["Models"], models_pb2_grpc.ModelsStub),
    (tokenizer_pb2.DESCRIPTOR.services_by_name["Tokenizer"], tokenizer_pb2_grpc.TokenizerStub),
]


def _is_safe_to_retry(method: MethodDescriptor) -> bool:
    """Reads, and operations with a request id: the server answers a second one with the first answer."""
    if method.client_streaming or method.server_streaming:
        return False
    reads = method.name.startswith(("Get", "List")) or method.containing_service.name == "Tokenizer"
    return reads or "request_id" in method.input_type.fields_by_name


def service_config() -> str:
    """The channel's retry policy, as gRPC service config JSON. UNAVAILABLE alone can mean "done, answer lost"."""
    names = [
        {"service": service.full_name, "method": method.name}
        for service, _ in _SERVICES
        for method in service.methods
        if _is_safe_to_retry(method)
    ]
    policy = {
        "maxAttempts": 5,
        "initialBackoff": "0.1s",
        "maxBackoff": "2s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE"],
    }
    return json.dumps({"methodConfig": [{"name": names, "retryPolicy": policy}]})


def channel_options(extra: Sequence[tuple[str, Any]] = ()) -> list[tuple[str, Any]]:
    """Options of every channel. The retry buffer holds a whole message, so that large ones are retried too."""
    return [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.per_rpc_retry_buffer_size", MAX_MESSAGE_BYTES),
        ("grpc.keepalive_time_ms", KEEPALIVE_MS),
        ("grpc.service_config", service_config()),
        *extra,
    ]


class Methods:
    """The methods of the service on one channel, synchronous or asyncio: unary ones by the name of their request."""

    def __init__(self, channel: grpc.Channel | grpc.aio.Channel) -> None:
        stubs = [(service, stub(channel)) for service, stub in _SERVICES]
        self.unary: dict[str, Any] = {
            method.input_type.name: getattr(stub, method.name)
            for service, stub in stubs
            for method in service.methods
            if not method.server_streaming
        }
        self.converse: Any = stubs[0][1].Converse
        self.generate: Any = stubs[0][1].Generate


class Homes:
    """Where sessions are. A proxy before several servers names the one that answered in a header, and takes calls that
    have the header there; without such a proxy there is nothing to know. Safe to use from several threads."""

    def __init__(self) -> None:
        self._hosts: dict[str, str] = {}

    def metadata(self, session_id: str) -> tuple[tuple[str, str], ...]:
        """What leads calls to the session."""
        host = self._hosts.get(session_id)
        return () if host is None else ((HOST_HEADER, host),)

    def metadata_of(self, request: Any) -> tuple[tuple[str, str], ...]:
        """What leads a request to the session it names, if it names one."""
        return self.metadata(getattr(request, "session_id", ""))

    def learn(self, request: Any, reply: Any, headers: Iterable[tuple[str, str | bytes]] | None) -> None:
        """Keep where a reply's session is, until it is closed."""
        if isinstance(request, generator_pb2.CloseSessionRequest):
            self._hosts.pop(request.session_id, None)
        elif "state" in reply.DESCRIPTOR.fields_by_name:
            # No header: the call was answered where it was sent, so a fork is where its original is.
            host = dict(headers or ()).get(HOST_HEADER) or self._hosts.get(getattr(request, "session_id", ""))
            if host:
                self._hosts[reply.state.session_id] = str(host)
