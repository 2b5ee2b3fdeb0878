"""The server: models, services and port put together, started, and taken down in the right order."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import grpc.aio
from grpc_channelz.v1 import channelz
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from runtime.model import Model
from runtime.registry import ModelRegistry
from service.config import ServerConfig
from service.generator_servicer import GeneratorServicer
from service.health import HealthMonitor
from service.interceptor import CallInterceptor
from service.logging import configure
from service.metrics import Metrics, MetricsEndpoint
from service.models_servicer import ModelsServicer
from service.options import engine_options, model_options
from service.sinks import deliver_in
from service.state import Attachments, ServerState
from service.tokenizer_servicer import TokenizerServicer
from service.tracing import Tracing, open_tracing
from service.version import VERSION
from tokenloom.v1 import (
    generator_pb2,
    generator_pb2_grpc,
    models_pb2,
    models_pb2_grpc,
    tokenizer_pb2,
    tokenizer_pb2_grpc,
)

log = logging.getLogger(__name__)

PACKAGE = "tokenloom.v1"
SERVICES = tuple(
    descriptor.services_by_name[name].full_name
    for descriptor, name in (
        (generator_pb2.DESCRIPTOR, "Generator"),
        (models_pb2.DESCRIPTOR, "Models"),
        (tokenizer_pb2.DESCRIPTOR, "Tokenizer"),
    )
)
SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread that wants to run gets its turn. By default the engine, back from a model run, would
wait for the event loop for up to 5 ms."""
LAST_WRITES = 1.0
"""Seconds for replies that are made already to reach their clients once the engines have stopped."""


def _channel_options(config: ServerConfig) -> list[tuple[str, int]]:
    return [
        ("grpc.enable_channelz", int(config.channelz)),
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_send_message_length", config.max_message_bytes),
        # A second server on the port is an error, not a silent sharing of its calls.
        ("grpc.so_reuseport", 0),
        # Clients may ping every 10 s, also during a long prefill that sends nothing, without being told to go away.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        # Clients that vanished without a word are found within a minute, and their streams end.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.max_connection_idle_ms", 300_000),
    ]


class Server:
    """One server in the running event loop."""

    def __init__(self, config: ServerConfig, loaded: Sequence[Model] = (), tracing: Tracing | None = None) -> None:
        """loaded: models of the configuration that need no loading any more. tracing: other than it asks for."""
        self.config = config
        self._loaded = {model.name: model for model in loaded}
        self.port = 0
        """The port listened on, once started."""
        attachments = Attachments()
        self.registry = ModelRegistry(
            model_directories=config.model_directories,
            adapter_directories=config.adapter_directories,
            model_options=model_options(config),
            engine_options=engine_options(config),
            deliver=deliver_in(asyncio.get_running_loop()),
            on_session_end=attachments.session_ended,
        )
        instance_id = uuid.uuid4().hex
        metrics = Metrics(self.registry, instance_id)
        self._tracing = tracing or open_tracing(config, instance_id)
        self.state = ServerState(config, self.registry, attachments, metrics, instance_id)
        self.metrics_endpoint: MetricsEndpoint | None = None
        """Where metrics are answered, once started and if they are."""
        self._health = HealthMonitor(self.state, SERVICES)
        self._monitor: asyncio.Task[None] | None = None
        self._grpc = grpc.aio.server(
            interceptors=[CallInterceptor(PACKAGE, metrics, self._tracing)], options=_channel_options(config)
        )
        generator_pb2_grpc.add_GeneratorServicer_to_server(GeneratorServicer(self.state), self._grpc)  # type: ignore[no-untyped-call]
        models_pb2_grpc.add_ModelsServicer_to_server(ModelsServicer(self.state), self._grpc)  # type: ignore[no-untyped-call]
        tokenizer_pb2_grpc.add_TokenizerServicer_to_server(TokenizerServicer(self.state), self._grpc)  # type: ignore[no-untyped-call]
        health_pb2_grpc.add_HealthServicer_to_server(self._health.servicer, self._grpc)
        if config.reflection:
            names = (*SERVICES, health_pb2.DESCRIPTOR.services_by_name["Health"].full_name, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self._grpc)
        if config.channelz:
            channelz.add_channelz_servicer(self._grpc)

    async def start(self) -> None:
        """Loads the models, then listens. Raises TokenloomError for a model that cannot run, OSError for the port."""
        try:
            await asyncio.to_thread(self._load)
            self.port = self._listen()
            if self.config.metrics_port is not None:
                self.metrics_endpoint = MetricsEndpoint(self.state.metrics, self.config.host, self.config.metrics_port)
        except BaseException:
            await asyncio.to_thread(self.registry.stop, 0.0)
            raise
        await self._health.update()
        self._monitor = asyncio.create_task(self._health.run())
        await self._grpc.start()
        facts = {"host": self.config.host, "port": self.port, "version": VERSION}
        if self.metrics_endpoint is not None:
            facts["metrics_port"] = self.metrics_endpoint.port
        log.info("serving", extra=facts)

    async def drain(self) -> None:
        """Goes away gently: balancers notice first, then running operations may finish, then all ends."""
        log.info("draining", extra={"lame_duck": self.config.lame_duck, "grace": self.config.drain_grace})
        await self._health.drain()
        await asyncio.sleep(self.config.lame_duck)
        self.state.drain.start()
        await self.stop(self.config.drain_grace)

    async def stop(self, grace: float = 0.0) -> None:
        """Refuses new operations, lets running ones go on for `grace` seconds, then ends everything."""
        await asyncio.to_thread(self.registry.stop, grace)
        await self._grpc.stop(LAST_WRITES if grace else 0.0)
        if self._monitor is not None:
            self._monitor.cancel()
            await asyncio.wait([self._monitor])
        if self.metrics_endpoint is not None:
            await asyncio.to_thread(self.metrics_endpoint.close)
        await asyncio.to_thread(self._tracing.shutdown)
        log.info("stopped")

    def _load(self) -> None:
        config = self.config
        for name, path in sorted(config.models.items(), key=lambda item: item[0] != config.default_model):
            if name in self._loaded:
                self.registry.add(self._loaded.pop(name))
            elif Path(path).is_absolute():
                self.registry.open(name, Path(path))
            else:
                self.registry.load(name, path)
        for model, adapters in config.adapters.items():
            for name, path in adapters.items():
                self.registry.load_adapter(model, name, path)

    def _listen(self) -> int:
        address = f"{self.config.host}:{self.config.port}"
        try:
            return self._grpc.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: {error}") from error


async def serve(
    config: ServerConfig,
    loaded: Sequence[Model] = (),
    on_ready: Callable[[Server], Awaitable[None] | None] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT, then drains; a second signal ends at once.

    loaded: as for `Server`. on_ready: called when the port is open.
    """
    configure(config.log_level, config.log_format)
    sys.setswitchinterval(SWITCH_INTERVAL)
    server = Server(config, loaded)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await server.start()
    if on_ready is not None and (waiting := on_ready(server)) is not None:
        await waiting
    await stopping.wait()
    stopping.clear()
    draining = asyncio.create_task(server.drain())
    again = asyncio.create_task(stopping.wait())
    await asyncio.wait([draining, again], return_when=asyncio.FIRST_COMPLETED)
    if not draining.done():
        draining.cancel()
        await asyncio.wait([draining])
        await server.stop()
    else:
        again.cancel()
        draining.result()
