"""The names of onnxruntime-genai over the wire, and the example programs written with them."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest

import tokenloom as og
from tokenloom import errors

EXAMPLES = Path("clients/python/examples")


@pytest.fixture(scope="module")
def model(server: Any) -> og.Model:
    return og.Model(server.target)


@pytest.fixture
def generator(model: og.Model) -> Any:
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=60)
    with og.Generator(model, params) as opened:
        yield opened


def test_a_generator_is_a_session(model: og.Model, generator: og.Generator) -> None:
    tokenizer = og.Tokenizer(model)
    generator.append_tokens(tokenizer.encode("def main("))
    while not generator.is_done():
        generator.generate_next_token()
    sequence = generator.get_sequence(0)
    assert sequence[-1] == generator.get_next_tokens()[0]
    assert generator.token_count() == len(sequence) <= 60
    assert generator.generation_config["max_length"] == 60


def test_a_model_that_is_not_there_is_an_error_at_once(server: Any) -> None:
    with pytest.raises(errors.NotFound):
        og.Model(server.target, "no-such-model")


def test_unknown_search_options_are_refused_with_the_known_ones(model: og.Model) -> None:
    params: Any = og.GeneratorParams(model)
    with pytest.raises(errors.InvalidArgument, match="max_length"):
        params.set_search_options(max_lenght=10)


def test_a_tokenizer_has_single_tokens_batches_and_templates(model: og.Model) -> None:
    tokenizer = og.Tokenizer(model)
    assert tokenizer.encode_batch(["def", "class"])[0].tolist() == tokenizer.encode("def").tolist()
    assert tokenizer.decode(tokenizer.encode("naïve 🎉")) == "naïve 🎉"
    assert tokenizer.to_token_id("<|user|>") == 4
    messages = [{"role": "user", "content": "hi"}]
    assert tokenizer.apply_chat_template(messages) == tokenizer.apply_chat_template(json.dumps(messages))


@pytest.mark.parametrize("text", ["def main():", "naïve 日本語 🎉🇫🇷 नमस्ते", " leading and  double  spaces\n\n"])
def test_a_stream_gives_whole_characters_that_join_to_the_text(model: og.Model, text: str) -> None:
    tokenizer = og.Tokenizer(model)
    stream = tokenizer.create_stream()
    pieces = [stream.decode(token) for token in tokenizer.encode(text)]
    assert "".join(pieces) == text
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)
    assert stream.flush() == ""


def test_a_stream_that_ends_inside_a_character_tells_so_at_the_end(model: og.Model) -> None:
    tokenizer = og.Tokenizer(model)
    tokens = tokenizer.encode("ok 🎉")[:-1]
    stream = tokenizer.create_stream()
    text = "".join(stream.decode(token) for token in tokens)
    assert text + stream.flush() == tokenizer.decode(tokens)
    assert text == "ok "


def test_adapters_are_loaded_switched_and_unloaded(model: og.Model, generator: og.Generator) -> None:
    adapters = og.Adapters(model)
    adapters.load("adapter_b.onnx_adapter", "facade")
    try:
        assert "facade" in [adapter.name for adapter in adapters.list()]
        generator.append_tokens([7, 8, 9])
        base = generator.get_logits()
        generator.set_active_adapter(adapters, "facade", recompute=True)
        assert not (generator.get_logits() == base).all()
        generator.set_active_adapter("")
        with pytest.raises(errors.InvalidArgument):
            generator.set_active_adapter(adapters)
    finally:
        adapters.unload("facade")


def test_a_generator_that_is_dropped_is_closed_with_the_next_one(model: og.Model) -> None:
    params = og.GeneratorParams(model)
    dropped = og.Generator(model, params).id
    gc.collect()
    with og.Generator(model, params), pytest.raises(errors.NotFound):
        model.client.attach(dropped)


def test_generators_are_closed_at_exit(model: og.Model, run_program: Any) -> None:
    program = (
        "import os, tokenloom as og; model = og.Model(os.environ['TOKENLOOM_TARGET']);"
        "generator = og.Generator(model, og.GeneratorParams(model)); print(generator.id)"
    )
    finished = run_program("-c", program)
    assert finished.returncode == 0, finished.stderr
    with pytest.raises(errors.NotFound):
        model.client.attach(finished.stdout.strip())


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("basic.py", "A short recipe for pancakes:"),
        ("batch.py", "2: Seven times eight is"),
        ("logits.py", "The story of"),
    ],
)
def test_examples_that_complete_prompts_print_them(run_program: Any, server: Any, program: str, expected: str) -> None:
    finished = run_program(str(EXAMPLES / program), server.target)
    assert finished.returncode == 0, finished.stderr
    assert expected in finished.stdout


def test_the_logits_example_bans_its_words(run_program: Any, server: Any) -> None:
    said = run_program(str(EXAMPLES / "logits.py"), server.target).stdout.removeprefix("The story of")
    assert " the" not in said and " and" not in said


def test_the_streaming_example_prints_what_the_model_says(run_program: Any, server: Any, model: og.Model) -> None:
    finished = run_program(str(EXAMPLES / "streaming.py"), server.target)
    assert finished.returncode == 0, finished.stderr
    with model.client.create_session("Once there was a lighthouse", max_length=80) as session:
        assert finished.stdout.rstrip("\n") == "".join(session.text()).rstrip("\n\N{REPLACEMENT CHARACTER}")


def test_the_chat_example_answers_the_same_from_the_same_start(run_program: Any, server: Any) -> None:
    finished = run_program(str(EXAMPLES / "chat.py"), server.target, stdin="def\nclass\ndef\nquit()\n")
    assert finished.returncode == 0, finished.stderr
    first, other, again = [part.removesuffix("\nYou: ") for part in finished.stdout.split("Model: ")[1:]]
    assert first == again != other


def test_the_client_is_used_without_the_server_packages(run_program: Any) -> None:
    finished = run_program(
        "-c", "import sys, tokenloom; print(sorted({'runtime', 'onnxruntime', 'service'} & set(sys.modules)))"
    )
    assert finished.stdout.strip() == "[]", finished.stderr
