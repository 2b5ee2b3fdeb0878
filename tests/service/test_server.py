"""Health, reflection, starting and stopping."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from serving import MODELS, TIMEOUT, Refusal, Served, refused, serving, tokens, wait_until

from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import generator_pb2_grpc, models_pb2

PROMPT = [5, 9, 21, 33]
ENDLESS = {"min_new_tokens": 400}
SERVICES = ["tokenloom.v1.Generator", "tokenloom.v1.Models", "tokenloom.v1.Tokenizer"]
Status = health_pb2.HealthCheckResponse


def health(channel: grpc.Channel, service: str = "") -> int:
    request = health_pb2.HealthCheckRequest(service=service)
    return health_pb2_grpc.HealthStub(channel).Check(request, timeout=TIMEOUT).status


# --- health and reflection -------------------------------------------------------------------------------------------


def test_the_server_its_services_and_its_models_are_healthy(served: Served) -> None:
    for service in ("", *SERVICES, "models/tiny-llama"):
        assert health(served.channel, service) == Status.SERVING
    with pytest.raises(grpc.RpcError) as caught:
        health(served.channel, "models/nothing")
    assert Refusal(caught.value).code == grpc.StatusCode.NOT_FOUND


def test_health_follows_the_models_that_come_and_go() -> None:
    with serving() as served:
        served.models.LoadModel(models_pb2.LoadModelRequest(model="tiny-gpt2"), timeout=TIMEOUT)
        watch = health_pb2_grpc.HealthStub(served.channel).Watch(
            health_pb2.HealthCheckRequest(service="models/tiny-gpt2"), timeout=TIMEOUT
        )
        seen = [next(watch).status]
        if seen[-1] != Status.SERVING:
            seen.append(next(watch).status)
        served.models.UnloadModel(models_pb2.UnloadModelRequest(model="tiny-gpt2"), timeout=TIMEOUT)
        seen.append(next(watch).status)
        assert seen[-2:] == [Status.SERVING, Status.SERVICE_UNKNOWN]


def test_a_server_whose_engine_has_died_is_not_healthy() -> None:
    with serving() as served:
        served.engine.stop()
        wait_until(lambda: health(served.channel) == Status.NOT_SERVING, "health to notice")
        assert health(served.channel, "models/tiny-llama") == Status.NOT_SERVING
        refusal = refused(served.generator.CreateSession, pb.CreateSessionRequest())
        assert refusal.code == grpc.StatusCode.UNAVAILABLE


def test_reflection_describes_every_service(served: Served) -> None:
    database = ProtoReflectionDescriptorDatabase(served.channel)
    assert set(SERVICES) <= set(database.get_services())
    service = DescriptorPool(database).FindServiceByName("tokenloom.v1.Generator")
    names = [method.name for method in pb.DESCRIPTOR.services_by_name["Generator"].methods]
    assert [method.name for method in service.methods] == names


def test_reflection_can_be_off() -> None:
    with serving(reflection=False) as served, pytest.raises(grpc.RpcError) as caught:
        ProtoReflectionDescriptorDatabase(served.channel).get_services()
    assert Refusal(caught.value).code == grpc.StatusCode.UNIMPLEMENTED


def test_channelz_tells_of_connections_and_calls_if_it_is_on(served: Served) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channelz_pb2_grpc.ChannelzStub(served.channel).GetServers(channelz_pb2.GetServersRequest(), timeout=TIMEOUT)
    assert Refusal(caught.value).code == grpc.StatusCode.UNIMPLEMENTED
    with serving(channelz=True) as watched:
        watched.create(PROMPT)
        channelz = channelz_pb2_grpc.ChannelzStub(watched.channel)
        servers = channelz.GetServers(channelz_pb2.GetServersRequest(), timeout=TIMEOUT).server
        (server,) = (each for each in servers if each.listen_socket)
        assert server.data.calls_succeeded >= 1
        sockets = channelz.GetServerSockets(
            channelz_pb2.GetServerSocketsRequest(server_id=server.ref.server_id), timeout=TIMEOUT
        )
        assert len(sockets.socket_ref) == 1


# --- starting --------------------------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_an_error(served: Served) -> None:
    with pytest.raises(OSError, match=str(served.server.port)), serving(port=served.server.port):
        pass


def test_a_model_that_is_not_there_is_an_error() -> None:
    with pytest.raises(Exception, match="nothing"), serving(models={"nothing": ""}):
        pass


# --- stopping --------------------------------------------------------------------------------------------------------


class Process:
    """A server in a process of its own."""

    def __init__(self, **settings: Any) -> None:
        settings = {
            "models": {"tiny-llama": ""},
            "model_directories": [str(MODELS)],
            "threads": 1,
            "port": 0,
            "lame_duck": 0.0,
            "drain_grace": 10.0,
        } | settings
        program = (
            "import asyncio, json, sys\n"
            "from service.config import ServerConfig\n"
            "from service.server import serve\n"
            "ready = lambda server: print(server.port, flush=True)\n"
            "asyncio.run(serve(ServerConfig(**json.loads(sys.argv[1])), on_ready=ready))\n"
        )
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TOKENLOOM_")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, json.dumps(settings)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=Path(__file__).parents[2],
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}", [("grpc.use_local_subchannel_pool", 1)])
        self.generator = generator_pb2_grpc.GeneratorStub(self.channel)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def finish(self) -> list[dict[str, Any]]:
        """Waits for the end, which must be a good one; what was logged."""
        _, errors = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, errors
        return [json.loads(line) for line in errors.splitlines()]


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[Process]:
    running = Process(**getattr(request, "param", {}))
    yield running
    running.channel.close()
    if running.process.poll() is None:
        running.process.kill()
    running.process.communicate()


def test_an_idle_server_stops_at_once_and_logs_json(process: Process) -> None:
    started = time.monotonic()
    process.terminate()
    records = process.finish()
    assert time.monotonic() - started < 5
    messages = [record["message"] for record in records]
    assert messages == ["serving", "draining", "stopped"]
    assert records[0]["port"] == process.port
    assert all({"time", "level", "logger"} <= record.keys() for record in records)


@pytest.mark.parametrize("process", [{"lame_duck": 1.0}], indirect=True)
def test_health_says_so_before_anything_is_refused(process: Process) -> None:
    assert health(process.channel) == Status.SERVING
    watch = health_pb2_grpc.HealthStub(process.channel).Watch(health_pb2.HealthCheckRequest(), timeout=TIMEOUT)
    assert next(watch).status == Status.SERVING
    process.terminate()
    assert next(watch).status == Status.NOT_SERVING
    created = process.generator.CreateSession(pb.CreateSessionRequest(inputs=[tokens(PROMPT)]), timeout=TIMEOUT)
    assert created.state.length == 4
    process.finish()


def test_running_operations_finish_and_idle_streams_are_told(process: Process) -> None:
    generator = process.generator
    request = pb.CreateSessionRequest(inputs=[tokens(PROMPT)], generation_config=ENDLESS)
    session = generator.CreateSession(request, timeout=TIMEOUT).state.session_id
    idle_session = generator.CreateSession(request, timeout=TIMEOUT).state.session_id
    messages = threading.Semaphore(0)

    def idle() -> Iterator[pb.ConverseRequest]:
        yield pb.ConverseRequest(operation_id=1, attach=pb.AttachSessionRequest(session_id=idle_session))
        messages.acquire()

    stream = generator.Converse(idle(), timeout=TIMEOUT)
    assert next(stream).HasField("attach")
    one_shot = generator.Generate(
        pb.GenerateRequest(inputs=[tokens(PROMPT)], generation_config=ENDLESS), timeout=TIMEOUT
    )
    next(one_shot)
    running = generator.GenerateTokens.future(pb.GenerateTokensRequest(session_id=session, steps=300), timeout=TIMEOUT)
    state = generator.GetSession(pb.GetSessionRequest(session_id=session), timeout=TIMEOUT).state
    while state.length == 4:
        state = generator.GetSession(pb.GetSessionRequest(session_id=session), timeout=TIMEOUT).state
    process.terminate()
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    refusal = Refusal(caught.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    assert refusal.retry_seconds > 0
    messages.release()
    assert running.result().steps == 300
    assert [reply for reply in one_shot][-1].HasField("summary")
    process.finish()


@pytest.mark.parametrize("process", [{"drain_grace": 0.2}], indirect=True)
def test_operations_that_do_not_end_within_the_grace_are_ended(process: Process) -> None:
    generator = process.generator
    requests = iter(
        [
            pb.ConverseRequest(
                operation_id=1, create=pb.CreateSessionRequest(inputs=[tokens(PROMPT)], generation_config=ENDLESS)
            ),
            pb.ConverseRequest(operation_id=2, credits=1, generate_tokens=pb.GenerateTokensRequest()),
        ]
    )
    hold = threading.Event()

    def asking() -> Iterator[pb.ConverseRequest]:
        yield from requests
        hold.wait()

    stream = generator.Converse(asking(), timeout=TIMEOUT)
    assert [next(stream).final for _ in range(2)] == [True, False]
    process.terminate()
    started = time.monotonic()
    with pytest.raises(grpc.RpcError) as caught:
        list(stream)
    assert Refusal(caught.value).code == grpc.StatusCode.UNAVAILABLE
    hold.set()
    process.finish()
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("process", [{"lame_duck": 600.0}], indirect=True)
def test_a_second_signal_ends_at_once(process: Process) -> None:
    watch = health_pb2_grpc.HealthStub(process.channel).Watch(health_pb2.HealthCheckRequest(), timeout=TIMEOUT)
    next(watch)
    process.terminate()
    assert next(watch).status == Status.NOT_SERVING
    process.terminate()
    process.finish()


def test_a_stopped_server_has_freed_its_port(process: Process) -> None:
    process.terminate()
    process.finish()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", process.port))


# --- calls and the log -----------------------------------------------------------------------------------------------


def test_a_call_is_logged_under_the_id_its_client_gave_and_told_it(process: Process) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        process.generator.GetSession(
            pb.GetSessionRequest(session_id="nobody"), metadata=[("x-request-id", "call-7")], timeout=TIMEOUT
        )
    assert dict(caught.value.trailing_metadata())["x-request-id"] == "call-7"
    _, call = process.generator.ListSessions.with_call(pb.ListSessionsRequest(), timeout=TIMEOUT)
    assert len(dict(call.trailing_metadata())["x-request-id"]) == 16
    process.terminate()
    (record,) = [record for record in process.finish() if record.get("call") == "call-7"]
    assert (record["code"], record["reason"]) == ("NOT_FOUND", "SESSION_NOT_FOUND")
    assert record["method"] == "/tokenloom.v1.Generator/GetSession"


def test_a_failed_operation_of_a_stream_is_logged_under_the_streams_call(process: Process) -> None:
    requests = [
        pb.ConverseRequest(operation_id=1, create=pb.CreateSessionRequest(inputs=[tokens(PROMPT)])),
        pb.ConverseRequest(operation_id=2, rewind_to=pb.RewindToRequest(length=99)),
    ]
    metadata = [("x-request-id", "stream-1")]
    assert len(list(process.generator.Converse(iter(requests), metadata=metadata, timeout=TIMEOUT))) == 2
    process.terminate()
    (record,) = [record for record in process.finish() if record.get("call") == "stream-1"]
    assert (record["operation"], record["reason"]) == ("rewind_to", "REWIND_BEYOND_LENGTH")


@pytest.mark.parametrize("process", [{"log_format": "text"}], indirect=True)
def test_lines_for_people_have_the_calls_id(process: Process) -> None:
    refused(process.generator.GetSession, pb.GetSessionRequest(session_id="nobody"))
    process.terminate()
    _, errors = process.process.communicate(timeout=30)
    assert [line for line in errors.splitlines() if "nobody" in line and "(call " in line]
