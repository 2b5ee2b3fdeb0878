"""Text to ids and back: recorded results of onnxruntime-genai and tokenizers, and the errors of wrong input."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import FailedPrecondition, InvalidArgument
from runtime.tokenizer import Tokenizer

DATA = Path(__file__).parents[1] / "data"
LLAMA = Tokenizer.load(DATA / "models/tiny-llama")
SPECIAL_TEXT = "<s>hello</s><|end|>world<pad>"
SPECIAL_IDS = [1, 78, 330, 397, 2, 6, 93, 278, 82, 74, 0]


def golden(path: str) -> list[dict]:
    return json.loads((DATA / "golden" / path).read_text())["cases"]


def load_file(tokenizer_json: Path, folder: Path) -> Tokenizer:
    shutil.copy(tokenizer_json, folder / "tokenizer.json")
    return Tokenizer.load(folder)


@pytest.fixture
def byte_fallback(tmp_path: Path) -> Tokenizer:
    return load_file(DATA / "models/stop-tokenizers/byte-fallback.json", tmp_path)


@pytest.mark.parametrize("case", golden("streaming/encode.json"), ids=lambda case: f"{case['id']}-{case['notes']}")
def test_encode_and_decode_give_what_the_peer_gives(case: dict) -> None:
    assert LLAMA.encode(case["text"]) == case["ids_genai"]
    assert LLAMA.decode(case["ids_genai"]) == case["decoded_genai"]


def test_encode_batch_gives_the_peers_ids_without_its_padding() -> None:
    (case,) = [case for case in golden("genai/batch.json") if case.get("what") == "Tokenizer.encode_batch"]
    pad = LLAMA.pad_token_id
    unpadded = [[token for token in row if token != pad] for row in case["ids"]]
    assert LLAMA.encode_batch(case["texts"]) == unpadded
    assert LLAMA.encode_batch([]) == []


@pytest.mark.parametrize("case", golden("streaming/decode_prefixes.json"), ids=lambda case: case["id"])
def test_decode_of_every_prefix_gives_what_transformers_gives(case: dict) -> None:
    prefixes = [case["ids"][: end + 1] for end in range(len(case["ids"]))]
    assert [LLAMA.decode(prefix, skip_special_tokens=False) for prefix in prefixes] == case["decoded"]
    assert LLAMA.decode_batch(prefixes) == case["decoded_skip_special"]


def test_special_tokens_in_a_text_are_recognised_and_left_out_of_decoded_text_unless_asked_for() -> None:
    assert LLAMA.encode(SPECIAL_TEXT) == SPECIAL_IDS
    assert LLAMA.decode(SPECIAL_IDS) == "helloworld"
    assert LLAMA.decode(SPECIAL_IDS, skip_special_tokens=False) == SPECIAL_TEXT


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_decode_takes_integer_arrays(dtype: type) -> None:
    assert LLAMA.decode(np.array(SPECIAL_IDS, dtype)) == "helloworld"


def test_decode_takes_any_sequence_of_integers() -> None:
    assert LLAMA.decode(tuple(np.int64(index) for index in SPECIAL_IDS)) == "helloworld"
    assert LLAMA.decode([]) == ""
    assert LLAMA.decode(np.empty(0, np.int64)) == ""


def test_special_ids_come_from_the_tokenizer_config() -> None:
    assert (LLAMA.pad_token_id, LLAMA.bos_token_id, LLAMA.eos_token_id) == (0, 1, 2)
    assert LLAMA.special_ids == frozenset(range(7))
    assert LLAMA.vocab_size == 512


def test_special_ids_come_from_the_special_tokens_map_where_the_config_names_none(tmp_path: Path) -> None:
    model = DATA / "models/tiny-gpt2"
    shutil.copy(model / "tokenizer.json", tmp_path)
    shutil.copy(model / "special_tokens_map.json", tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": null}')
    tokenizer = Tokenizer.load(tmp_path)
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1, 2)


def test_a_lone_tokenizer_file_is_enough_and_names_no_special_tokens(byte_fallback: Tokenizer) -> None:
    assert byte_fallback.bos_token_id is byte_fallback.eos_token_id is byte_fallback.pad_token_id is None
    assert byte_fallback.decode(byte_fallback.encode("a é 🙂")) == "a é 🙂"


def test_vocab_size_counts_added_tokens_beyond_the_model() -> None:
    assert Tokenizer.load(DATA / "models/genai-tests/tiny-random-gpt2-fp32").vocab_size == 50295


def test_truncation_and_padding_of_the_file_are_off(tmp_path: Path) -> None:
    content = json.loads((DATA / "models/tiny-llama/tokenizer.json").read_text())
    content["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    content["padding"] = {
        "strategy": {"Fixed": 9},
        "direction": "Left",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<pad>",
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.encode("The quick") == [58, 422, 227, 444, 344, 81]
    assert [len(ids) for ids in tokenizer.encode_batch(["a", "The quick"])] == [1, 6]


def test_add_special_tokens_adds_the_tokenizers_frame(tmp_path: Path) -> None:
    content = json.loads((DATA / "models/tiny-llama/tokenizer.json").read_text())
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.encode("a") == [71]
    assert tokenizer.encode("a", add_special_tokens=True) == [1, 71]
    assert tokenizer.encode_batch(["a"], add_special_tokens=True) == [[1, 71]]


def test_tokens_have_a_spelling_and_spellings_an_id() -> None:
    assert LLAMA.to_token_id("<|end|>") == 6
    assert LLAMA.token(6) == "<|end|>"
    with pytest.raises(InvalidArgument, match=r"^token: 'nope' is not allowed"):
        LLAMA.to_token_id("nope")


@pytest.mark.parametrize("token_id", [512, -1, 2**31 - 1, 2**32 - 1, 2**70])
def test_an_id_outside_the_vocabulary_is_refused_naming_the_field_and_the_range(token_id: int) -> None:
    with pytest.raises(InvalidArgument, match=rf"^token_ids\[1\]: {token_id} is not allowed; ids go from 0 to 511"):
        LLAMA.decode([71, token_id])
    with pytest.raises(InvalidArgument, match=rf"^token_id: {token_id} is not allowed; ids go from 0 to 511"):
        LLAMA.token(token_id)


def test_an_id_outside_the_vocabulary_inside_a_batch_fails_the_batch_and_nothing_else() -> None:
    with pytest.raises(InvalidArgument, match=r"^sequences\[1\]\[2\]: 512 is not allowed; ids go from 0 to 511"):
        LLAMA.decode_batch([[71], [71, 72, 512], [73]])
    assert LLAMA.decode_batch([[71], [73]]) == ["a", "c"]


@pytest.mark.parametrize("ids", [[1.5], ["a"], [[1, 2]], np.array([1.0]), np.array([[1]]), np.array(1), [None]])
def test_what_is_no_flat_sequence_of_integers_is_refused(ids: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^token_ids: .*flat sequence of integers"):
        LLAMA.decode(ids)


def test_lone_surrogates_are_refused_as_text() -> None:
    with pytest.raises(InvalidArgument, match=r"^text: .*position 1"):
        LLAMA.encode("a\ud83d")
    with pytest.raises(InvalidArgument, match=r"^texts\[1\]: "):
        LLAMA.encode_batch(["a", "\udc00"])
    with pytest.raises(InvalidArgument, match=r"^token: "):
        LLAMA.to_token_id("\udc00")


@given(st.text())
def test_byte_level_text_survives_encoding_and_decoding(text: str) -> None:
    assert LLAMA.decode(LLAMA.encode(text), skip_special_tokens=False) == text


def test_an_id_in_a_hole_of_the_vocabulary_has_no_text_and_no_spelling(tmp_path: Path) -> None:
    content = json.loads((DATA / "models/stop-tokenizers/byte-level.json").read_text())
    content["model"]["vocab"]["after"] = 1000
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.vocab_size == 1001
    assert tokenizer.decode([97, 500, 1000]) == "aafter"
    with pytest.raises(InvalidArgument, match=r"^token_id: 500 is not allowed"):
        tokenizer.token(500)


def test_only_the_wrong_bytes_of_a_run_of_byte_tokens_become_replacement_characters(byte_fallback: Tokenizer) -> None:
    """As SentencePiece itself does. `tokenizers` would drop the whole run: "é" would turn into two U+FFFD."""
    assert byte_fallback.decode([0xC3, 0xA9, 0xFF, 0xC3, 0xA9]) == "é�é"
    assert byte_fallback.decode([0x0A, 0xF0, 0x9F, 0x99]) == "\n���"
    assert byte_fallback.decode([284, 0xFF, 284, 0xE2, 0x96, 0x81]) == " � ▁"
    assert byte_fallback.decode([0xED, 0xA0, 0x80]) == "���"


def test_a_folder_without_a_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition) as error:
        Tokenizer.load(tmp_path)
    assert error.value.reason == "NO_TOKENIZER"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "{"),
        ("tokenizer_config.json", "{"),
        ("tokenizer_config.json", "[]"),
        ("special_tokens_map.json", "{"),
        ("tokenizer_config.json", '{"chat_template": 5}'),
        ("tokenizer_config.json", '{"chat_template": [{"name": "default"}]}'),
    ],
)
def test_a_broken_file_is_told(name: str, content: str, tmp_path: Path) -> None:
    shutil.copy(DATA / "models/tiny-llama/tokenizer.json", tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(FailedPrecondition, match=name) as error:
        Tokenizer.load(tmp_path)
    assert error.value.reason == "TOKENIZER_INVALID"
