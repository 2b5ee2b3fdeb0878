"""What the server can run, and its adapters."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from serving import ADAPTERS, MODELS, TIMEOUT, Served, refused, serving, tokens

from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import models_pb2

PROMPT = [5, 9, 21, 33]


@pytest.fixture
def fresh() -> Iterator[Served]:
    with serving(models={"lora": "tiny-llama-lora"}, default_model="lora") as running:
        yield running


def test_a_server_tells_its_limits() -> None:
    with serving(max_sessions=7, max_queued_operations=5, default_idle_timeout=60, max_idle_timeout=90) as served:
        info = served.models.GetServerInfo(models_pb2.GetServerInfoRequest(), timeout=TIMEOUT)
        assert (info.max_sessions, info.max_queued_operations, info.max_message_bytes) == (7, 5, 64 * 1024 * 1024)
        assert (info.default_idle_timeout.seconds, info.max_idle_timeout.seconds) == (60, 90)
        assert info.default_model == "tiny-llama"
        assert info.version
        again = served.models.GetServerInfo(models_pb2.GetServerInfoRequest(), timeout=TIMEOUT)
        assert again.instance_id == info.instance_id != ""


def test_a_server_tells_which_optional_parts_are_on() -> None:
    def features(served: Served) -> list[str]:
        return list(served.models.GetServerInfo(models_pb2.GetServerInfoRequest(), timeout=TIMEOUT).features)

    with serving() as served:
        assert features(served) == ["reflection"]
    with serving(channelz=True, metrics_port=0, reflection=False) as served:
        assert features(served) == ["channelz", "metrics"]


def test_a_model_tells_what_it_is_and_takes(served: Served) -> None:
    found = served.models.GetModel(models_pb2.GetModelRequest(), timeout=TIMEOUT)
    model = found.model
    assert (model.name, model.type, model.vocab_size, model.device) == ("tiny-llama", "llama", 512, "cpu")
    assert (model.max_length, model.slots) == (512, 16)
    assert model.has_tokenizer and model.has_chat_template
    assert list(model.generation_config.eos_token_id) == [2]
    inputs = {info.name: info for info in found.inputs}
    assert (inputs["input_ids"].type, list(inputs["input_ids"].shape)) == ("tensor(int64)", [-1, -1])
    assert "logits" in {info.name for info in found.outputs}
    named = served.models.GetModel(models_pb2.GetModelRequest(model="tiny-llama"), timeout=TIMEOUT)
    assert named == found


def test_models_can_be_loaded_listed_used_and_unloaded(fresh: Served) -> None:
    load = fresh.models.LoadModel
    loaded = load(models_pb2.LoadModelRequest(model="tiny-gpt2"), timeout=TIMEOUT).model
    assert loaded.type == "gpt2"
    load(models_pb2.LoadModelRequest(model="again", path="tiny-gpt2"), timeout=TIMEOUT)

    def listed(**fields: Any) -> tuple[list[str], str]:
        page = fresh.models.ListModels(models_pb2.ListModelsRequest(**fields), timeout=TIMEOUT)
        return [model.name for model in page.models], page.next_page_token

    first, token = listed(page_size=2)
    assert (first, listed(page_token=token)) == (["again", "lora"], (["tiny-gpt2"], ""))
    session = fresh.create([5, 6], model="tiny-gpt2")
    assert fresh.generate(session, 2).state.model == "tiny-gpt2"
    unload = fresh.models.UnloadModel
    busy = refused(unload, models_pb2.UnloadModelRequest(model="tiny-gpt2"))
    assert (busy.code, busy.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "MODEL_IN_USE")
    assert refused(unload, models_pb2.UnloadModelRequest()).fields == ["model"]
    fresh.close(session)
    unload(models_pb2.UnloadModelRequest(model="tiny-gpt2"), timeout=TIMEOUT)
    assert listed() == (["again", "lora"], "")
    gone = refused(fresh.models.GetModel, models_pb2.GetModelRequest(model="tiny-gpt2"))
    assert (gone.code, gone.reason) == (grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND")


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({"model": "lora"}, "ALREADY_EXISTS", "MODEL_EXISTS"),
        ({"model": "nothing-there"}, "NOT_FOUND", "MODEL_NOT_FOUND"),
        ({"model": "x", "path": "../../../etc"}, "PERMISSION_DENIED", "PATH_OUTSIDE"),
        ({"model": "x", "path": "/etc"}, "PERMISSION_DENIED", "PATH_OUTSIDE"),
        ({"model": "x", "path": "a\0b"}, "INVALID_ARGUMENT", "FIELD_INVALID"),
        ({"model": "x", "path": "y" * 5000}, "INVALID_ARGUMENT", "FIELD_INVALID"),
        ({"model": "X Y"}, "INVALID_ARGUMENT", "FIELD_INVALID"),
        ({"model": ""}, "INVALID_ARGUMENT", "FIELD_INVALID"),
        ({"model": "x", "path": "tiny-llama/model.onnx"}, "FAILED_PRECONDITION", "MODEL_INVALID"),
        ({"model": "x", "path": "tiny-llama-lora/adapters"}, "FAILED_PRECONDITION", "MODEL_INVALID"),
    ],
)
def test_models_that_cannot_be_loaded_say_why(fresh: Served, fields: dict[str, str], code: str, reason: str) -> None:
    refusal = refused(fresh.models.LoadModel, models_pb2.LoadModelRequest(**fields))
    assert (refusal.code.name, refusal.reason) == (code, reason)


def test_a_broken_model_file_is_refused_and_the_server_goes_on(tmp_path: Path) -> None:
    shutil.copytree(MODELS / "tiny-llama", tmp_path / "broken")
    (tmp_path / "broken" / "model.onnx").write_bytes(b"no graph")
    with serving(model_directories=(MODELS, tmp_path)) as served:
        refusal = refused(served.models.LoadModel, models_pb2.LoadModelRequest(model="broken"))
        assert refusal.code == grpc.StatusCode.FAILED_PRECONDITION
        assert served.generate(served.create(PROMPT), 1).steps == 1


def load_adapters(served: Served) -> None:
    for name in ("adapter_a", "adapter_b"):
        request = models_pb2.LoadAdapterRequest(adapter=name, path=f"{name}.onnx_adapter")
        served.models.LoadAdapter(request, timeout=TIMEOUT)


def test_adapters_change_what_is_generated_and_can_be_switched_mid_sequence(fresh: Served) -> None:
    load_adapters(fresh)
    made = {}
    for adapter in ("", "adapter_a", "adapter_b"):
        session = fresh.create(PROMPT, adapter=adapter, generation_config={"min_new_tokens": 8})
        reply = fresh.generate(session, 8)
        assert reply.state.adapter == adapter
        made[adapter] = list(reply.rows[0].token_ids)
    assert len({tuple(ids) for ids in made.values()}) == 3
    session = fresh.create(PROMPT, generation_config={"min_new_tokens": 8})
    switch = pb.SetActiveAdapterRequest(session_id=session, adapter="adapter_a", recompute=True)
    assert fresh.generator.SetActiveAdapter(switch, timeout=TIMEOUT).state.adapter == "adapter_a"
    assert list(fresh.generate(session, 8).rows[0].token_ids) == made["adapter_a"]


def test_adapters_are_listed_with_who_uses_them_and_not_unloaded_while_used(fresh: Served) -> None:
    load_adapters(fresh)
    session = fresh.create(PROMPT, adapter="adapter_a")

    def listed(**fields: Any) -> models_pb2.ListAdaptersResponse:
        return fresh.models.ListAdapters(models_pb2.ListAdaptersRequest(**fields), timeout=TIMEOUT)

    assert [(found.name, found.sessions) for found in listed().adapters] == [("adapter_a", 1), ("adapter_b", 0)]
    assert all(found.size_bytes > 0 and found.path == f"{found.name}.onnx_adapter" for found in listed().adapters)
    page = listed(page_size=1)
    assert [found.name for found in listed(page_token=page.next_page_token).adapters] == ["adapter_b"]
    unload = fresh.models.UnloadAdapter
    busy = refused(unload, models_pb2.UnloadAdapterRequest(adapter="adapter_a"))
    assert (busy.code, busy.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "ADAPTER_IN_USE")
    off = pb.SetActiveAdapterRequest(session_id=session, adapter="")
    assert fresh.generator.SetActiveAdapter(off, timeout=TIMEOUT).state.adapter == ""
    unload(models_pb2.UnloadAdapterRequest(adapter="adapter_a"), timeout=TIMEOUT)
    missing = refused(
        fresh.generator.SetActiveAdapter, pb.SetActiveAdapterRequest(session_id=session, adapter="adapter_a")
    )
    assert (missing.code, missing.reason) == (grpc.StatusCode.NOT_FOUND, "ADAPTER_NOT_FOUND")
    assert "adapter_b" in missing.message


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({"adapter": "a", "path": "../model.onnx"}, "PERMISSION_DENIED", "PATH_OUTSIDE"),
        ({"adapter": "a", "path": "nothing.onnx_adapter"}, "NOT_FOUND", "ADAPTER_NOT_FOUND"),
        ({"adapter": "a", "path": ""}, "INVALID_ARGUMENT", "FIELD_INVALID"),
        ({"adapter": "a b", "path": "adapter_a.onnx_adapter"}, "INVALID_ARGUMENT", "FIELD_INVALID"),
        ({"adapter": "a", "path": "adapter_a.onnx_adapter", "model": "none"}, "NOT_FOUND", "MODEL_NOT_FOUND"),
        ({"adapter": "a", "path": "broken.onnx_adapter"}, "INVALID_ARGUMENT", "FIELD_INVALID"),
    ],
)
def test_adapters_that_cannot_be_loaded_say_why(tmp_path: Path, fields: dict[str, str], code: str, reason: str) -> None:
    shutil.copy(ADAPTERS / "adapter_a.onnx_adapter", tmp_path)
    (tmp_path / "broken.onnx_adapter").write_bytes(b"no adapter")
    with serving(models={"lora": "tiny-llama-lora"}, adapter_directories=(tmp_path,)) as served:
        refusal = refused(served.models.LoadAdapter, models_pb2.LoadAdapterRequest(**fields))
        assert (refusal.code.name, refusal.reason) == (code, reason)


def test_an_adapter_for_a_model_that_takes_none_is_refused(served: Served) -> None:
    request = models_pb2.LoadAdapterRequest(adapter="a", path="adapter_a.onnx_adapter")
    refusal = refused(served.models.LoadAdapter, request)
    assert (refusal.code, refusal.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "ADAPTERS_UNSUPPORTED")


def test_models_and_adapters_of_the_settings_are_loaded_at_start() -> None:
    adapters = {"lora": {"one": "adapter_a.onnx_adapter"}}
    models = {"a": "tiny-gpt2", "lora": str(MODELS / "tiny-llama-lora")}
    with serving(models=models, default_model="lora", adapters=adapters) as served:
        assert served.server.registry.default_model == "lora"
        found = served.models.ListAdapters(models_pb2.ListAdaptersRequest(), timeout=TIMEOUT)
        assert [adapter.name for adapter in found.adapters] == ["one"]
        assert served.generate(served.create([3, 4], adapter="one"), 1).steps == 1


def test_tokens_are_checked_against_the_model_they_are_for() -> None:
    with serving(models={"a": "tiny-llama", "b": "tiny-gpt2"}, default_model="a") as served:
        sizes = {
            name: served.models.GetModel(models_pb2.GetModelRequest(model=name), timeout=TIMEOUT).model.vocab_size
            for name in "ab"
        }
        for name, size in sizes.items():
            served.create([size - 1], model=name)
            request = pb.CreateSessionRequest(model=name, inputs=[tokens([size])])
            assert refused(served.generator.CreateSession, request).fields == ["inputs[0].tokens.ids[0]"]
