"""grpc.health.v1: the whole server (""), each of its services, and each model ("models/NAME").

SERVING means that the engine's thread answers, not only that this process does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from grpc_health.v1 import health, health_pb2

from service.state import ServerState

INTERVAL = 1.0
"""Seconds between looks at the engines."""


class HealthMonitor:
    """Keeps the statuses true until the server drains; then all are NOT_SERVING for good."""

    def __init__(self, server: ServerState, services: Sequence[str]) -> None:
        self.servicer = health.aio.HealthServicer()
        self._server = server
        self._services = ("", *services)
        self._models: set[str] = set()

    async def run(self) -> None:
        """Looks again and again; ends by being cancelled."""
        while True:
            await self.update()
            await asyncio.sleep(INTERVAL)

    async def update(self) -> None:
        """Sets every status from the engines' heartbeats. Models that were unloaded are unknown."""
        alive = {f"models/{engine.model.name}": engine.alive for engine in self._server.registry.engines()}
        for name in self._models - alive.keys():
            await self.servicer.set(name, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        self._models = set(alive)
        for name in self._services:
            await self.servicer.set(name, _status(all(alive.values())))
        for name, is_alive in alive.items():
            await self.servicer.set(name, _status(is_alive))

    async def drain(self) -> None:
        """NOT_SERVING from here on."""
        await self.servicer.enter_graceful_shutdown()


def _status(is_alive: bool) -> Literal[1, 2]:
    return health_pb2.HealthCheckResponse.SERVING if is_alive else health_pb2.HealthCheckResponse.NOT_SERVING
