"""Streamed text: recorded streams, and the rule that pieces join to the decoded whole, for every kind of decoder."""

import json
from collections.abc import Iterable, Sequence
from itertools import chain, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.detokenizer import IncrementalDetokenizer
from runtime.tokenizer import Tokenizer

DATA = Path(__file__).parents[1] / "data"
LLAMA = Tokenizer.load(DATA / "models/tiny-llama")
MALFORMED = "malformed"


def golden(path: str) -> list[dict]:
    return json.loads((DATA / "golden" / path).read_text())["cases"]


def stop_tokenizer(name: str, decoder: dict[str, Any] | None = None) -> Tokenizer:
    content = json.loads((DATA / "models/stop-tokenizers" / f"{name}.json").read_text())
    if decoder is not None:
        content["decoder"] = decoder
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(content)))


BYTE_FALLBACK = stop_tokenizer("byte-fallback")
BYTE_LEVEL = stop_tokenizer("byte-level")
SENTENCEPIECE = stop_tokenizer(
    "byte-fallback",
    {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    },
)
METASPACE = stop_tokenizer(
    "byte-fallback",
    {
        "type": "Sequence",
        "decoders": [
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            {"type": "ByteFallback"},
        ],
    },
)
TOKENIZERS = {
    "tiny-llama": LLAMA,
    "byte-level": BYTE_LEVEL,
    "byte-fallback": BYTE_FALLBACK,
    "sentencepiece": SENTENCEPIECE,
    "metaspace": METASPACE,
}


def byte_ids(tokenizer: Tokenizer, data: bytes) -> list[int]:
    """The tokens of single bytes."""
    if tokenizer is LLAMA:
        return [LLAMA.to_token_id(BYTE_LEVEL.token(byte)) for byte in data]
    return list(data)  # both stop tokenizers start with the 256 bytes


def ids_of(tokenizer: Tokenizer) -> st.SearchStrategy[list[int]]:
    """Random tokens: any, single bytes (mostly invalid UTF-8), and characters spelled in bytes and cut off."""
    anything = st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=6)
    noise = st.binary(max_size=6).map(lambda data: byte_ids(tokenizer, data))
    character = st.sampled_from("é€🙂न\ufffd▁ \n").map(lambda text: byte_ids(tokenizer, text.encode()))
    cut = st.tuples(character, st.integers(1, 4)).map(lambda pair: pair[0][: pair[1]])
    return st.lists(st.one_of(anything, noise, character, cut), max_size=12).map(lambda parts: list(chain(*parts)))


def stream(detokenizer: IncrementalDetokenizer, pushes: Iterable[Sequence[int]]) -> list[str]:
    return [detokenizer.push(ids) for ids in pushes]


def one_by_one(ids: Sequence[int]) -> list[list[int]]:
    return [[token] for token in ids]


def generated_text(tokenizer: Tokenizer, context: Sequence[int], ids: Sequence[int], skip: bool = True) -> str:
    """decode(context + ids) without what decode(context) already says."""
    whole = tokenizer.decode([*context, *ids], skip)
    pairs = zip(whole, tokenizer.decode(context, skip), strict=False)
    return whole[len(list(takewhile(lambda pair: pair[0] == pair[1], pairs))) :]


# --- recorded streams ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case", golden("streaming/genai_stream.json"), ids=lambda case: f"{case['id']}-{case.get('notes', '')}"
)
def test_a_stream_gives_the_peers_increments_and_all_that_decode_gives(case: dict) -> None:
    ids = case["ids"]
    tokenizer_stream = LLAMA.create_stream()
    increments = [tokenizer_stream.decode(token) for token in ids]
    rest = tokenizer_stream.finish()
    assert "".join(increments) + rest == LLAMA.decode(ids)
    if case["notes"].startswith(MALFORMED):  # the peer's stream loses everything around a malformed character
        assert LLAMA.decode(ids) == case["full_decode_tokenizers"]
    else:
        assert increments == case["increments"]
        assert rest == ""


@pytest.mark.parametrize("case", golden("streaming/decode_prefixes.json"), ids=lambda case: case["id"])
@pytest.mark.parametrize("skip", [True, False])
def test_after_each_token_everything_but_an_unfinished_character_is_delivered(case: dict, skip: bool) -> None:
    detokenizer = IncrementalDetokenizer(LLAMA, skip_special_tokens=skip)
    delivered = ""
    for token, decoded in zip(case["ids"], case["decoded_skip_special" if skip else "decoded"], strict=True):
        delivered += detokenizer.push([token])
        assert delivered == decoded.rstrip("\ufffd")


@pytest.mark.parametrize(
    "case",
    [case for case in golden("streaming/text_streamer.json") if case["result"] == "ok"],  # else: two rows in one stream
    ids=lambda case: case["id"],
)
def test_a_stream_joins_to_what_the_streamer_of_transformers_prints(case: dict) -> None:
    prompt, *generated = [piece["put"] for piece in case["pieces"]]
    skip = case["decode_kwargs"]["skip_special_tokens"]
    context, pushes = (prompt, generated) if case["skip_prompt"] else ([], [prompt, *generated])
    detokenizer = IncrementalDetokenizer(LLAMA, context, skip)
    assert "".join(stream(detokenizer, pushes)) + detokenizer.finish() == case["joined"]


# --- characters over several tokens ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("character", ["é", "न", "ि", "語", "🙂", "🇫🇷", "👍🏽", "👩‍👧"])
def test_a_character_over_several_tokens_comes_when_it_is_complete(name: str, character: str) -> None:
    tokenizer = TOKENIZERS[name]
    detokenizer = IncrementalDetokenizer(tokenizer)
    letter = byte_ids(tokenizer, b"x")
    pieces = stream(detokenizer, one_by_one(letter + byte_ids(tokenizer, character.encode())))
    expected = ["x"]
    for code_point in character:
        expected += [""] * (len(code_point.encode()) - 1) + [code_point]
    assert pieces == expected
    assert detokenizer.finish() == ""


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_stream_that_ends_inside_a_character_ends_as_decode_does(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = byte_ids(tokenizer, "ok 🙂".encode()[:-1])
    detokenizer = IncrementalDetokenizer(tokenizer)
    assert "".join(stream(detokenizer, one_by_one(ids))) == "ok "
    assert "ok " + detokenizer.finish() == tokenizer.decode(ids)
    assert detokenizer.finish() == ""


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_character_begun_in_the_context_belongs_to_the_generated_text(name: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = byte_ids(tokenizer, "a🙂b".encode())
    for cut in (2, 3, 4):
        detokenizer = IncrementalDetokenizer(tokenizer, ids[:cut])
        assert "".join(stream(detokenizer, one_by_one(ids[cut:]))) == "🙂b"


def test_a_leading_space_is_stripped_from_the_text_and_not_from_generated_text() -> None:
    word = SENTENCEPIECE.to_token_id("▁stop")
    space = SENTENCEPIECE.to_token_id("▁")
    assert stream(IncrementalDetokenizer(SENTENCEPIECE), [[word], [word]]) == ["stop", " stop"]
    assert stream(IncrementalDetokenizer(SENTENCEPIECE, [word] * 50), [[word]]) == [" stop"]
    assert stream(IncrementalDetokenizer(SENTENCEPIECE), [[space]] * 30) == [""] + [" "] * 29


def test_the_context_may_be_an_array() -> None:
    word = SENTENCEPIECE.to_token_id("▁stop")
    assert IncrementalDetokenizer(SENTENCEPIECE, np.full(50, word)).push(np.array([word])) == " stop"


def test_special_tokens_in_the_context_do_not_hide_the_word_before_them() -> None:
    content = json.loads((DATA / "models/stop-tokenizers/byte-fallback.json").read_text())
    backend = tokenizers.Tokenizer.from_str(json.dumps(content))
    backend.decoder = tokenizers.decoders.Metaspace(prepend_scheme="always")
    backend.add_special_tokens(["<end>"])
    tokenizer = Tokenizer(backend)
    word, end = tokenizer.to_token_id("▁stop"), tokenizer.to_token_id("<end>")
    context = [word] + [end] * 100
    assert IncrementalDetokenizer(tokenizer, context).push([word]) == " stop"
    assert IncrementalDetokenizer(tokenizer, context, skip_special_tokens=False).push([end, word]) == "<end> stop"


def test_special_tokens_in_the_context_do_not_hide_the_start_of_a_character() -> None:
    first, second, third, last = byte_ids(LLAMA, "🙂".encode())
    special = [LLAMA.to_token_id("<|end|>")] * 100
    assert IncrementalDetokenizer(LLAMA, [first, *special, second, *special[:6], third]).push([last]) == "🙂"


def test_ids_the_tokenizer_does_not_know_add_no_text() -> None:
    """Models may be wider than their tokenizer."""
    assert stream(IncrementalDetokenizer(LLAMA, [512]), [[71], [512], [600, 72]]) == ["a", "", "b"]


# --- for all tokens --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("skip", [True, False])
@given(data=st.data())
def test_pieces_join_to_the_decoded_whole(name: str, skip: bool, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[name]
    context = data.draw(ids_of(tokenizer), "context")
    pushes = data.draw(st.lists(ids_of(tokenizer).map(lambda ids: ids[:3]), max_size=30), "pushes")
    detokenizer = IncrementalDetokenizer(tokenizer, context, skip)
    delivered = "".join(stream(detokenizer, pushes))
    whole = generated_text(tokenizer, context, list(chain(*pushes)), skip)
    assert whole.startswith(delivered)
    assert delivered + detokenizer.finish() == whole


@pytest.mark.parametrize("name", TOKENIZERS)
@given(data=st.data())
def test_no_more_than_an_unfinished_character_is_held_back(name: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[name]
    ids = data.draw(ids_of(tokenizer), "ids")
    detokenizer = IncrementalDetokenizer(tokenizer)
    delivered = ""
    for end, token in enumerate(ids):
        delivered += detokenizer.push([token])
        held = tokenizer.decode(ids[: end + 1]).removeprefix(delivered)
        assert held in ("", "\ufffd", "\ufffd\ufffd", "\ufffd\ufffd\ufffd")


@pytest.mark.parametrize("name", TOKENIZERS)
@given(data=st.data())
def test_a_copy_goes_on_alone(name: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[name]
    before, mine, other = (data.draw(ids_of(tokenizer), label) for label in ("before", "mine", "other"))
    detokenizer = IncrementalDetokenizer(tokenizer)
    start = "".join(stream(detokenizer, one_by_one(before)))
    twin = detokenizer.copy()
    for each, ids in ((twin, other), (detokenizer, mine)):
        rest = "".join(stream(each, one_by_one(ids))) + each.finish()
        assert start + rest == tokenizer.decode(before + ids)


@given(context=ids_of(LLAMA), ids=ids_of(LLAMA))
@example(context=[], ids=[])
def test_a_context_of_whole_characters_is_cut_off_by_its_length(context: list[int], ids: list[int]) -> None:
    context = LLAMA.encode(LLAMA.decode(context))
    detokenizer = IncrementalDetokenizer(LLAMA, context)
    text = "".join(stream(detokenizer, one_by_one(ids))) + detokenizer.finish()
    assert text == LLAMA.decode(context + ids)[len(LLAMA.decode(context)) :]


# --- cost ------------------------------------------------------------------------------------------------------------


class CountingTokenizer(Tokenizer):
    """Counts the tokens it decodes."""

    decoded = 0

    def decode(self, token_ids: Any, skip_special_tokens: bool = True) -> str:
        self.decoded += len(token_ids)
        return super().decode(token_ids, skip_special_tokens)


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(list(b"word "), id="ascii"),
        pytest.param(list("🙂".encode()), id="characters of four tokens"),
        pytest.param([0xFF], id="bytes that never become a character"),
        pytest.param(list(b"\xf0\x9f\x99"), id="characters that are never finished"),
        pytest.param(list("\ufffd".encode()), id="genuine replacement characters"),
    ],
)
@pytest.mark.parametrize("kind", ["byte-level", "byte-fallback"])
def test_each_push_decodes_a_few_tokens_however_long_the_text_is(kind: str, ids: list[int]) -> None:
    path = DATA / "models/stop-tokenizers" / f"{kind}.json"
    tokenizer = CountingTokenizer(tokenizers.Tokenizer.from_file(str(path)))
    generated = ids * 400
    detokenizer = IncrementalDetokenizer(tokenizer, ids * 1000)
    stream(detokenizer, one_by_one(generated))
    assert tokenizer.decoded / len(generated) < 24
