"""`tokenloom health`: what the standard health service says."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from service.cli import common

SERVING = "SERVING"


def health(
    target: common.Target = common.DEFAULT_TARGET,
    service: Annotated[str, typer.Option(help="A service, as tokenloom.v1.Generator; the whole server if unset.")] = "",
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = 5.0,
) -> None:
    """Ask a server whether it serves. The exit code is 0 only if it does.

    Examples:

      tokenloom health

      tokenloom health --target 10.0.0.7:50051 --timeout 1
    """
    status = check(target, service, timeout)
    common.console.print(status)
    if status != SERVING:
        raise typer.Exit(1)


def check(target: str, service: str = "", timeout: float = 1.0) -> str:
    """The name of what a server's health service says: SERVING, ... Raises the errors of the client."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    from tokenloom.errors import from_rpc_error

    with grpc.insecure_channel(target) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            reply = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
    return str(health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status))
