"""The tokenizer built from a GGUF file's fields."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_gguf import SPECIAL, TOKENS, draw_weights, write_gguf

from runtime import Tokenizer
from runtime.model_store import ModelStore


@pytest.fixture(scope="module")
def tokenizer(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(ModelStore(tmp_path_factory.mktemp("models")).build(tiny_gguf, "tiny", "fp32"))


def build(folder: Path, **changes: object) -> Tokenizer:
    gguf = write_gguf(folder / "changed.gguf", draw_weights(), **changes)
    return Tokenizer.load(ModelStore(folder / "models").build(gguf, "changed", "fp32"))


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40).filter(lambda text: "<|" not in text))
def test_any_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_merges_apply_in_their_order(tokenizer: Tokenizer) -> None:
    assert [TOKENS[token] for token in tokenizer.encode("hello the world")] == ["hello", "Ġthe", "Ġworld"]


def test_digits_are_single_tokens_whatever_the_merges(tokenizer: Tokenizer) -> None:
    assert "12" in TOKENS
    assert [TOKENS[token] for token in tokenizer.encode("1212")] == ["1", "2", "1", "2"]


def test_special_tokens_are_whole_and_hidden(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<|im_start|>hello<|im_end|>")
    assert ids == [1, TOKENS.index("hello"), 2]
    assert tokenizer.decode(ids) == "hello"
    assert tokenizer.special_ids == frozenset(range(len(SPECIAL)))


def test_special_tokens_have_the_roles_of_the_file(tokenizer: Tokenizer) -> None:
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)


def test_the_chat_template_is_the_file_s(tokenizer: Tokenizer) -> None:
    text = tokenizer.apply_chat_template([{"role": "user", "content": "hello"}])
    assert text == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"


def test_a_file_without_a_chat_template_gives_a_tokenizer_without_one(tmp_path: Path) -> None:
    assert not build(tmp_path, tokenizer__chat_template=None).has_chat_template


@pytest.mark.parametrize("wanted", [True, False])
def test_a_beginning_of_sequence_is_framed_where_the_file_asks_for_it(tmp_path: Path, wanted: bool) -> None:
    tokenizer = build(tmp_path, tokenizer__ggml__add_bos_token=wanted)
    word = TOKENS.index("hello")
    assert tokenizer.encode("hello", add_special_tokens=True) == ([1, word] if wanted else [word])
    assert tokenizer.encode("hello") == [word]


def test_llama_3_looks_whole_words_up_before_it_merges(tmp_path: Path) -> None:
    """Its vocabulary has words that no merges lead to."""
    tokens = [*TOKENS, "world"]
    weights = draw_weights()
    weights["token_embd.weight"] = weights["token_embd.weight"][[*range(len(TOKENS)), 0]]
    gguf = write_gguf(
        tmp_path / "llama3.gguf",
        weights,
        tokenizer__ggml__pre="llama-bpe",
        tokenizer__ggml__tokens=tokens,
        tokenizer__ggml__token_type=[3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)),
    )
    tokenizer = Tokenizer.load(ModelStore(tmp_path / "models").build(gguf, "llama3", "fp32"))
    assert [tokens[token] for token in tokenizer.encode("world12")] == ["world", "12"]
