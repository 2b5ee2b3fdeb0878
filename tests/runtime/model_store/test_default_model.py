"""The default model: got once, kept in the user's cache, and able to answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peer import greedy, peer

from runtime import Engine, Generator, ModelOptions
from runtime.model_store import DEFAULT_MODEL, ModelStore

pytestmark = pytest.mark.model

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = 24
"""Tokens at most."""


@pytest.fixture(scope="module", params=["fp32", "uint4"])
def folder(request: pytest.FixtureRequest) -> Path:
    return ModelStore().get(precision=request.param)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    with Engine.open(folder, ModelOptions(threads=2, slots=2, max_length=256)) as engine:
        yield engine


def question(engine: Engine) -> list[int]:
    return engine.tokenizer.encode(engine.tokenizer.apply_chat_template(QUESTION))


def answer(engine: Engine) -> list[int]:
    """Question and greedy answer."""
    generator = Generator(engine, max_new_tokens=ANSWER)
    generator.append_tokens(question(engine))
    generator.generate_tokens()
    tokens = [int(token) for token in generator.get_sequence(0)]
    generator.close()
    return tokens


def test_it_knows_the_capital_of_france(engine: Engine) -> None:
    assert "Paris" in engine.tokenizer.decode(answer(engine)[len(question(engine)) :])


def test_it_answers_as_the_peer_does(engine: Engine, folder: Path) -> None:
    prompt, tokens = question(engine), answer(engine)
    assert tokens[-1] == engine.tokenizer.eos_token_id
    assert tokens[:-1] == greedy(folder, prompt, max_length=len(prompt) + ANSWER), "it leaves the end token out"


def test_the_peer_s_tokenizer_gives_the_same_tokens(engine: Engine, folder: Path) -> None:
    og = peer()
    theirs = og.Tokenizer(og.Model(str(folder)))
    text = engine.tokenizer.apply_chat_template(QUESTION)
    assert theirs.encode(text).tolist() == engine.tokenizer.encode(text)


def test_every_digit_is_a_token(engine: Engine) -> None:
    tokenizer = engine.tokenizer
    assert [tokenizer.decode([token]) for token in tokenizer.encode("1234567890")] == list("1234567890")


def test_it_is_got_once(folder: Path) -> None:
    told: list[str] = []
    precision = "uint4" if folder.name.endswith("uint4") else "fp32"
    assert ModelStore().get(DEFAULT_MODEL, precision, lambda step, *_: told.append(step)) == folder
    assert told == []
