"""Model folders: what is read from them, and folders that cannot be served, refused with what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from driver import COMBINED, EMBEDDED, GPT2, LLAMA, MODELS, Session, copy_of, raises, running

from runtime import Model, ModelOptions
from runtime.errors import FailedPrecondition, InvalidArgument
from runtime.model_config import read_model_config


def changed(name: str, folder: Path, file: str, change: Any) -> Path:
    """A copy of a model whose configuration was changed."""
    copy_of(name, folder)
    config = json.loads((folder / file).read_text())
    change(config)
    (folder / file).write_text(json.dumps(config))
    return folder


def test_an_onnxruntime_genai_folder() -> None:
    config = read_model_config(MODELS / LLAMA)
    assert (config.type, config.vocab_size, config.context_length) == ("llama", 512, 512)
    assert (config.num_hidden_layers, config.head_size, config.shared_buffer) == (2, 16, True)
    assert (config.generation.eos_token_id, config.generation.pad_token_id) == ((2,), 0)


def test_a_folder_with_one_past_tensor_per_layer() -> None:
    config = read_model_config(MODELS / COMBINED)
    assert config.names.combined
    assert (config.names.past, config.names.present) == (("past_%d",), ("present_%d",))
    assert not config.shared_buffer


def test_an_optimum_folder() -> None:
    config = read_model_config(MODELS / GPT2)
    assert (config.type, config.vocab_size, config.context_length, config.shared_buffer) == ("gpt2", 512, 256, False)
    assert config.graph.name == "model.onnx"


def test_inputs_beyond_the_usual_belong_to_sessions() -> None:
    model = Model.load(MODELS / EMBEDDED)
    assert list(model.extra_inputs) == ["inputs_embeds"]
    assert not Model.load(MODELS / LLAMA).extra_inputs


def test_end_tokens_may_be_a_list_and_the_pad_token_may_be_missing(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["model"]["eos_token_id"] = [7, 8]
        del config["model"]["pad_token_id"]

    generation = read_model_config(changed(LLAMA, tmp_path, "genai_config.json", change)).generation
    assert (generation.eos_token_id, generation.pad_token_id) == ((7, 8), 7)


def test_search_options_of_the_folder_are_the_sessions_defaults(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["search"] |= {"do_sample": True, "temperature": 0.5, "top_k": 3, "top_p": 0.9, "max_length": 40}

    with running(Model.load(changed(LLAMA, tmp_path, "genai_config.json", change))) as engine:
        config = Session(engine).config
    assert (config.do_sample, config.temperature, config.top_k, config.top_p) == (True, 0.5, 3, 0.9)
    assert config.max_length == 40


def test_every_setting_that_is_executed_is_read_from_the_folder(tmp_path: Path) -> None:
    settings = {
        "max_new_tokens": 7,
        "min_new_tokens": 2,
        "min_p": 0.25,
        "repetition_penalty": 1.5,
        "stop_strings": ["."],
    }

    def change(config: dict[str, Any]) -> None:
        config |= settings

    generation = read_model_config(changed(GPT2, tmp_path, "generation_config.json", change)).generation
    assert {name: getattr(generation, name) for name in settings} == settings | {"stop_strings": (".",)}


def test_a_setting_of_the_folder_that_is_not_executed_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def change(config: dict[str, Any]) -> None:
        config["search"] |= {"num_beams": 4, "no_repeat_ngram_size": 0, "bad_words_ids": []}

    read_model_config(changed(LLAMA, tmp_path, "genai_config.json", change))
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("num_beams = 4 ")


def test_a_shorter_length_than_the_models_can_be_asked_for_and_a_longer_one_cannot() -> None:
    assert Model.load(MODELS / LLAMA, options=ModelOptions(max_length=64)).max_length == 64
    for length in (0, 513):
        with raises(InvalidArgument, field="max_length"):
            Model.load(MODELS / LLAMA, options=ModelOptions(max_length=length))


@pytest.mark.parametrize("slots", [0, -1, 4097])
def test_slots_have_a_range(slots: int) -> None:
    with raises(InvalidArgument, field="slots"):
        Model.load(MODELS / LLAMA, options=ModelOptions(slots=slots))


# --- refused ---------------------------------------------------------------------------------------------------------


def test_a_folder_with_nothing_to_read(tmp_path: Path) -> None:
    with raises(FailedPrecondition, reason="MODEL_INVALID"):
        read_model_config(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", ""])
def test_a_configuration_that_is_no_json_object(tmp_path: Path, text: str) -> None:
    for name in ("config.json", "genai_config.json"):
        (tmp_path / name).write_text(text)
        with raises(FailedPrecondition, reason="MODEL_INVALID"):
            read_model_config(tmp_path)


@pytest.mark.parametrize("key", ["type", "decoder", "vocab_size", "context_length"])
def test_a_genai_configuration_that_lacks_a_key_names_it(tmp_path: Path, key: str) -> None:
    folder = changed(LLAMA, tmp_path, "genai_config.json", lambda config: config["model"].pop(key))
    with pytest.raises(FailedPrecondition, match=key):
        read_model_config(folder)


def remove(*keys: str) -> Any:
    return lambda config: [config.pop(key, None) for key in keys]


@pytest.mark.parametrize("keys", [("vocab_size",), ("n_layer",), ("n_positions",)], ids=str)
def test_an_optimum_configuration_that_lacks_a_key(tmp_path: Path, keys: tuple[str, ...]) -> None:
    with raises(FailedPrecondition, reason="MODEL_INVALID"):
        read_model_config(changed(GPT2, tmp_path, "config.json", remove(*keys)))


def test_an_optimum_folder_without_a_graph(tmp_path: Path) -> None:
    folder = copy_of(GPT2, tmp_path)
    (folder / "model.onnx").unlink()
    with pytest.raises(FailedPrecondition, match="no decoder graph"):
        read_model_config(folder)


def test_a_graph_that_is_no_graph(tmp_path: Path) -> None:
    folder = copy_of(GPT2, tmp_path)
    (folder / "model.onnx").write_bytes(b"not a graph")
    with raises(FailedPrecondition, reason="MODEL_INVALID"):
        Model.load(folder)


def test_a_graph_without_the_weights_beside_it(tmp_path: Path) -> None:
    folder = copy_of(LLAMA, tmp_path)
    (folder / "model.onnx.data").unlink()
    with raises(FailedPrecondition, reason="MODEL_INVALID"):
        Model.load(folder)


def test_names_that_the_graph_does_not_have_are_told_with_those_it_has(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["model"]["decoder"]["inputs"]["past_key_names"] = "cache.%d.key"

    with pytest.raises(FailedPrecondition, match=r"cache\.0\.key.*past_key_values\.0\.key"):
        Model.load(changed(LLAMA, tmp_path, "genai_config.json", change))


def test_more_layers_than_the_graph_has_are_told(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["model"]["decoder"]["num_hidden_layers"] = 3

    with pytest.raises(FailedPrecondition, match=r"past_key_values\.2\.key"):
        Model.load(changed(LLAMA, tmp_path, "genai_config.json", change))


def test_a_sliding_window_is_refused_and_never_silently_wrong(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["model"]["decoder"]["sliding_window"] = {"window_size": 128}

    with raises(FailedPrecondition, reason="MODEL_UNSUPPORTED"):
        Model.load(changed(LLAMA, tmp_path, "genai_config.json", change))


def test_the_context_ends_where_a_genai_graph_changes_its_rotary_factors(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["model"].update(type="phi3", context_length=131072)

    assert read_model_config(changed(LLAMA, tmp_path, "genai_config.json", change)).context_length == 4096


def test_the_context_ends_where_an_optimum_graph_changes_its_rotary_factors(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["rope_scaling"] = {"type": "longrope", "original_max_position_embeddings": 128}

    assert read_model_config(changed(GPT2, tmp_path, "config.json", change)).context_length == 128


def test_long_rope_that_does_not_say_where_it_changes_is_refused(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["rope_scaling"] = {"rope_type": "longrope"}

    with raises(FailedPrecondition, reason="MODEL_UNSUPPORTED"):
        read_model_config(changed(GPT2, tmp_path, "config.json", change))
