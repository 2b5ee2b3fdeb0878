"""Clients that go away, at every stage: what they asked for ends, the session is whole, nothing is left behind."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from serving import TIMEOUT, Refusal, Served, refused, serving, tokens, wait_until

from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import generator_pb2_grpc

PROMPT = [5, 9, 21, 33]
ENDLESS = {"min_new_tokens": 400}
LONG = [index % 500 + 3 for index in range(400)]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """Prefill in many small pieces, so that there is time to go away in its middle."""
    with serving(prefill_chunk=2, slots=4) as running:
        yield running


def deadline_exceeded(call: Any, request: Any, seconds: float) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=seconds)
    assert Refusal(caught.value).code == grpc.StatusCode.DEADLINE_EXCEEDED


def is_whole(served: Served, session_id: str) -> int:
    """Whether the session's tokens are what it would have got alone; its length."""
    sequence = served.sequence(session_id)
    assert sequence[: len(PROMPT)] == PROMPT
    fresh = served.create(PROMPT, generation_config=ENDLESS)
    made = len(sequence) - len(PROMPT)
    if made:
        served.generate(fresh, made)
    assert served.sequence(fresh) == sequence
    assert served.generate(fresh, 2).rows == served.generate(session_id, 2).rows
    served.close(fresh)
    return len(sequence)


def held(served: Served) -> tuple[str, Any]:
    """A session whose running operation waits for its client, and the stream that holds it."""
    stream = served.converse()
    session = stream.create(PROMPT, generation_config=ENDLESS)
    stream.send(credits=1, generate_tokens=pb.GenerateTokensRequest())
    assert stream.receive().HasField("step")
    return session, stream


# --- deadlines and cancels, by stage ---------------------------------------------------------------------------------


def test_a_deadline_that_passes_in_the_queue_takes_the_operation_out_of_it(served: Served) -> None:
    session, stream = held(served)
    append = pb.AppendTokensRequest(session_id=session, inputs=[tokens([1])])
    deadline_exceeded(served.generator.AppendTokens, append, 0.05)
    stream.send(interrupt=pb.InterruptRequest())
    stream.finals(2)
    assert is_whole(served, session) == 5


def test_a_cancel_in_the_queue_takes_the_operation_out_of_it(served: Served) -> None:
    session, stream = held(served)
    call = served.generator.GenerateTokens.future(pb.GenerateTokensRequest(session_id=session, steps=3))
    wait_until(lambda: served.engine.stats().sessions > 0, "the server")
    call.cancel()
    assert call.code() == grpc.StatusCode.CANCELLED
    stream.send(interrupt=pb.InterruptRequest())
    stream.finals(2)
    assert is_whole(served, session) == 5


def test_a_deadline_in_the_prefill_leaves_the_session_at_a_token_boundary(served: Served) -> None:
    session = served.create(PROMPT, generation_config=ENDLESS)
    append = pb.AppendTokensRequest(session_id=session, inputs=[tokens(LONG)])
    deadline_exceeded(served.generator.AppendTokens, append, 0.02)
    assert served.length(session) in (len(PROMPT), len(PROMPT) + len(LONG))
    served.generator.RewindTo(pb.RewindToRequest(session_id=session, length=len(PROMPT)), timeout=TIMEOUT)
    assert is_whole(served, session) == 4


def test_a_cancelled_creation_leaves_no_session(served: Served) -> None:
    before = served.engine.stats().sessions
    request = pb.CreateSessionRequest(inputs=[tokens(LONG)])
    for seconds in (0.001, 0.005, 0.02):
        with pytest.raises(grpc.RpcError):
            served.generator.CreateSession(request, timeout=seconds)
    wait_until(lambda: served.engine.stats().sessions == before, "sessions nobody knows of to end")


def test_a_cancelled_creation_with_a_request_id_can_be_asked_for_again(served: Served) -> None:
    request = pb.CreateSessionRequest(inputs=[tokens(PROMPT)], request_id="created-before-the-deadline")
    call = served.generator.CreateSession.future(request)
    session = call.result().state.session_id
    assert served.generator.CreateSession(request, timeout=TIMEOUT).state.session_id == session


@pytest.mark.parametrize("how", ["deadline", "cancel"])
def test_going_away_while_tokens_are_made_stops_within_a_step(served: Served, how: str) -> None:
    session = served.create(PROMPT, generation_config=ENDLESS)
    call = served.generator.GenerateTokens.future(
        pb.GenerateTokensRequest(session_id=session), timeout=0.05 if how == "deadline" else TIMEOUT
    )
    wait_until(lambda: served.engine.snapshot(session).snapshot.length > 6, "a few steps")
    if how == "cancel":
        call.cancel()
    assert call.exception(timeout=TIMEOUT) is not None if how == "deadline" else call.cancelled()
    wait_until(lambda: served.engine.stats().running == 0, "the generate to end")
    assert is_whole(served, session) < 404


def test_going_away_in_a_hook_ends_the_operation(served: Served) -> None:
    stream = served.converse()
    session = stream.create(PROMPT, generation_config=ENDLESS)
    stream.send(generate_tokens=pb.GenerateTokensRequest(logits_hook=pb.LogitsHook()))
    stream.receive()
    stream.cancel()
    assert is_whole(served, session) == 4


def test_going_away_without_credits_ends_the_operation(served: Served) -> None:
    session, stream = held(served)
    stream.cancel()
    assert is_whole(served, session) == 5


def test_a_stream_that_is_cancelled_ends_what_it_asked_for_and_keeps_the_session(served: Served) -> None:
    stream = served.converse()
    session = stream.create(PROMPT, generation_config=ENDLESS)
    stream.send(generate_tokens=pb.GenerateTokensRequest())
    stream.send(append_tokens=pb.AppendTokensRequest(inputs=[tokens([1, 1, 1])]))
    stream.receive()
    stream.cancel()
    assert is_whole(served, session) < 404
    other = served.converse()
    wait_until(lambda: session not in served.server.state.attachments, "the stream to be gone")
    assert other.attach(session).HasField("attach")


def test_a_connection_that_is_lost_ends_what_was_asked_on_it(served: Served) -> None:
    with grpc.insecure_channel(served.target, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        requests = iter(
            [
                pb.ConverseRequest(
                    operation_id=1,
                    create=pb.CreateSessionRequest(
                        session_id="lost", inputs=[tokens(PROMPT)], generation_config=ENDLESS
                    ),
                ),
                pb.ConverseRequest(operation_id=2, generate_tokens=pb.GenerateTokensRequest()),
            ]
        )
        call = generator_pb2_grpc.GeneratorStub(channel).Converse(requests)
        next(call)
        next(call)
    wait_until(lambda: "lost" not in served.server.state.attachments, "the stream to be gone")
    assert is_whole(served, "lost") < 404


# --- slow readers ----------------------------------------------------------------------------------------------------


def test_a_reader_that_stops_holds_back_its_own_session_alone() -> None:
    """A one-shot generate of many rows whose client does not read: flow control fills up, then steps wait."""
    with serving(slots=16, max_length=512) as served:
        channel = grpc.insecure_channel(
            served.target, [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.lookahead_bytes", 1)]
        )
        request = pb.GenerateRequest(inputs=[tokens(PROMPT)] * 15, generation_config=ENDLESS)
        call = generator_pb2_grpc.GeneratorStub(channel).Generate(request)
        next(call)
        session = served.create(PROMPT)
        assert served.generate(session, 5).steps == 5
        call.cancel()
        wait_until(lambda: served.engine.stats().sessions == 1, "the one-shot session to end")
        assert served.engine.stats().slots_used <= 1
        channel.close()


# --- idle sessions ---------------------------------------------------------------------------------------------------


def create_expiring(served: Served, seconds: float = 0.1) -> str:
    timeout = Duration()
    timeout.FromNanoseconds(int(seconds * 1e9))
    return served.create(PROMPT, idle_timeout=timeout)


def test_an_expired_session_is_told_apart_from_one_that_never_was(served: Served) -> None:
    session = create_expiring(served)
    wait_until(lambda: not served.engine.has_session(session), "the session to expire")
    for call, request in (
        (served.generator.GetSession, pb.GetSessionRequest(session_id=session)),
        (served.generator.GenerateTokens, pb.GenerateTokensRequest(session_id=session, steps=1)),
        (served.generator.CloseSession, pb.CloseSessionRequest(session_id=session)),
    ):
        refusal = refused(call, request)
        assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "SESSION_EXPIRED")
    stream = served.converse()
    assert stream.attach(session).error.reason == "SESSION_EXPIRED"


def test_a_stream_whose_session_expires_gets_a_clear_status(served: Served) -> None:
    session = create_expiring(served)
    stream = served.converse()
    stream.attach(session)
    with pytest.raises(grpc.RpcError) as caught:
        stream.receive()
    refusal = Refusal(caught.value)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.NOT_FOUND, "SESSION_EXPIRED")


def test_a_session_does_not_expire_while_it_works(served: Served) -> None:
    session = served.create(PROMPT, idle_timeout=Duration(nanos=50_000_000), generation_config=ENDLESS)
    started = time.monotonic()
    total = 0
    while time.monotonic() - started < 0.3:
        total += served.generate(session, 20).steps
        served.generator.RewindTo(pb.RewindToRequest(session_id=session, length=4), timeout=TIMEOUT)
    assert total > 0


def test_cancelling_and_expiring_at_the_same_moment_frees_a_session_once(served: Served) -> None:
    for _ in range(20):
        session = create_expiring(served, 0.03)
        call = served.generator.GenerateTokens.future(pb.GenerateTokensRequest(session_id=session, steps=1000))
        threading.Event().wait(0.03)
        call.cancel()
    wait_until(lambda: served.engine.stats().running == 0, "everything to end")
    before = served.create(PROMPT)
    assert served.generate(before, 3).steps == 3
    wait_until(lambda: served.engine.stats().slots_used <= served.engine.stats().sessions, "slots to be given back")


# --- again and again -------------------------------------------------------------------------------------------------


def test_dropping_the_stream_after_a_token_a_thousand_times_leaks_nothing() -> None:
    with serving() as served:
        session = served.create(PROMPT, generation_config=ENDLESS)
        for _ in range(1000):
            request = pb.GenerateRequest(inputs=[tokens(PROMPT)], generation_config=ENDLESS)
            call = served.generator.Generate(request, timeout=TIMEOUT)
            next(call)
            call.cancel()
        wait_until(lambda: served.engine.stats().sessions == 1, "one-shot sessions to end")
        wait_until(lambda: served.engine.stats().slots_used <= 1, "slots to be free")
        assert is_whole(served, session) == 4


def test_random_cancels_under_load_leave_a_server_that_works(served: Served) -> None:
    dice = random.Random(7)
    sessions = [served.create(PROMPT, generation_config=ENDLESS) for _ in range(8)]
    calls: list[Any] = []
    for _ in range(400):
        session = dice.choice(sessions)
        match dice.randrange(4):
            case 0:
                request = pb.GenerateTokensRequest(session_id=session, steps=dice.randrange(1, 30))
                calls.append(served.generator.GenerateTokens.future(request, timeout=TIMEOUT))
            case 1:
                rewind = pb.RewindToRequest(session_id=session, length=4)
                calls.append(served.generator.RewindTo.future(rewind, timeout=TIMEOUT))
            case 2:
                one_shot = pb.GenerateRequest(inputs=[tokens(PROMPT)], generation_config=ENDLESS)
                calls.append(served.generator.Generate(one_shot, timeout=TIMEOUT))
            case 3:
                append = pb.AppendTokensRequest(session_id=session, inputs=[tokens(LONG[:40])])
                calls.append(served.generator.AppendTokens.future(append, timeout=TIMEOUT))
        if calls and dice.random() < 0.7:
            calls.pop(dice.randrange(len(calls))).cancel()
    for call in calls:
        call.cancel()
    wait_until(lambda: served.engine.stats().running == 0, "the running count to go back to 0")
    for session in sessions:
        served.generator.RewindTo(pb.RewindToRequest(session_id=session, length=4), timeout=TIMEOUT)
        assert is_whole(served, session) == 4


def test_memory_stays_flat_over_thousands_of_cancelled_streams() -> None:
    with serving() as served:

        def cancel_many(count: int) -> None:
            request = pb.GenerateRequest(inputs=[tokens([5])], generation_config=ENDLESS)
            for _ in range(count):
                call = served.generator.Generate(request, timeout=TIMEOUT)
                call.cancel()
            wait_until(lambda: served.engine.stats().sessions == 0, "everything to end")

        cancel_many(1000)
        before = resident_bytes()
        cancel_many(2000)
        assert resident_bytes() - before < 30e6


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
