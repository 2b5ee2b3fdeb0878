"""Errors nobody planned for are told by an id and logged in full, with nothing left pending; calls are logged."""

from __future__ import annotations

import logging
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2
from serving import TIMEOUT, Refusal, Served, refused, serving, tokens

from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import models_pb2

PROMPT = [5, 9, 21, 33]


def fail(*arguments: Any) -> Any:
    raise ZeroDivisionError("a secret of the server")


@pytest.fixture
def broken(served: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """A server with a bug: it cannot find sessions."""
    monkeypatch.setattr(served.server.registry, "engine_of", fail)
    return served


def test_a_bug_in_a_unary_handler_is_told_by_an_id(broken: Served, caplog: pytest.LogCaptureFixture) -> None:
    refusal = refused(broken.generator.GetSession, pb.GetSessionRequest(session_id="x"))
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert "secret" not in refusal.message
    assert refusal.info.metadata["id"] in {getattr(record, "error_id", "") for record in caplog.records}
    assert "a secret of the server" in caplog.text


def test_a_bug_in_a_stream_is_told_by_an_id_and_leaves_nothing_pending(
    broken: Served, caplog: pytest.LogCaptureFixture
) -> None:
    stream = broken.converse()
    assert stream.attach("x").error.code == code_pb2.INTERNAL
    with pytest.raises(grpc.RpcError) as caught:
        stream.rest()
    assert (Refusal(caught.value).code, Refusal(caught.value).reason) == (grpc.StatusCode.INTERNAL, "INTERNAL")
    assert not [record for record in caplog.records if record.name == "asyncio"]


def test_a_bug_in_one_operation_leaves_the_stream_open(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = served.converse()
    stream.create(PROMPT)
    with monkeypatch.context() as patch:
        patch.setattr(served.engine, "submit", fail)
        assert stream.do(get_token_count=pb.GetTokenCountRequest()).error.code == code_pb2.INTERNAL
    assert stream.do(generate_tokens=pb.GenerateTokensRequest(steps=1)).generate_tokens.state.length == 5


def test_a_bug_in_a_one_shot_generate_leaves_no_session(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as served:
        engine = served.engine
        acknowledge, engine.acknowledge = engine.acknowledge, fail
        request = pb.GenerateRequest(inputs=[tokens(PROMPT)], generation_config={"min_new_tokens": 400})
        with pytest.raises(grpc.RpcError) as caught:
            list(served.generator.Generate(request, timeout=TIMEOUT))
        assert Refusal(caught.value).code == grpc.StatusCode.INTERNAL
        engine.acknowledge = acknowledge
        served.create(PROMPT)
        assert [session.session_id.startswith("generate-") for session in engine.snapshots()] == [False]
        assert not [record for record in caplog.records if record.name == "asyncio"]


def test_a_refused_call_is_logged_with_its_id_and_a_good_one_only_in_detail(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    call = [("x-request-id", "my-call")]
    with caplog.at_level(logging.DEBUG, "service.interceptor"):
        served.models.GetModel(models_pb2.GetModelRequest(), timeout=TIMEOUT, metadata=call)
        with pytest.raises(grpc.RpcError):
            served.models.GetModel(models_pb2.GetModelRequest(model="none"), timeout=TIMEOUT, metadata=call)
    records = [record for record in caplog.records if record.name == "service.interceptor"]
    assert [(record.levelname, record.code) for record in records] == [("DEBUG", "OK"), ("INFO", "NOT_FOUND")]
    assert all(record.method == "/tokenloom.v1.Models/GetModel" and record.milliseconds > 0 for record in records)
