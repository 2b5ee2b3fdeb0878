"""Stop strings on text: where the text ends, which string matched, and that nothing of it is delivered early."""

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from runtime.detokenizer import IncrementalDetokenizer
from runtime.errors import InvalidArgument
from runtime.stop_strings import StopMatch, StopStringMatcher
from runtime.tokenizer import Tokenizer

DATA = Path(__file__).parents[1] / "data"
LLAMA = Tokenizer.load(DATA / "models/tiny-llama")
STOP_TOKENIZERS = {
    f"stop-tokenizers/{name}.json": Tokenizer(
        tokenizers.Tokenizer.from_file(str(DATA / "models/stop-tokenizers" / f"{name}.json"))
    )
    for name in ("byte-level", "byte-fallback")
}


def golden(name: str) -> list[dict]:
    return json.loads((DATA / "golden/stopping" / f"{name}.json").read_text())["cases"]


def matches_after_each_token(tokenizer: Tokenizer, stop_strings: list[str], ids: list[int]) -> list[str | None]:
    detokenizer, matcher = IncrementalDetokenizer(tokenizer), StopStringMatcher(stop_strings)
    return [matcher.push(detokenizer.push([token])).matched for token in ids]


def run(stop_strings: list[str], pieces: list[str]) -> tuple[list[str], str | None]:
    """What each piece makes deliverable, with what finish gives at the end; and the match."""
    matcher = StopStringMatcher(stop_strings)
    delivered = [matcher.push(piece).text for piece in pieces]
    return [*delivered, matcher.finish()], matcher.matched


# --- against the decisions of transformers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in golden("stop_strings_byte_level") + golden("stop_strings_byte_fallback")
        if case["stop_strings"] != [""]  # transformers stops at once; here an empty stop string is refused
    ],
    ids=lambda case: case["id"],
)
def test_the_token_that_completes_a_stop_string_is_the_one_transformers_stops_at(case: dict) -> None:
    """The recorded decision is about the last token alone: false also if the string was complete before it."""
    tokenizer = STOP_TOKENIZERS[case["tokenizer"]]
    for ids, stop, text in zip(case["arrays"]["input_ids"]["values"], case["stop"], case["text"], strict=True):
        *before, last = matches_after_each_token(tokenizer, case["stop_strings"], ids)
        assert tokenizer.decode(ids) == text
        assert (last is not None and not any(before)) == stop
        assert (last is not None) == any(string in text for string in case["stop_strings"])


@pytest.mark.parametrize("case", golden("stop_strings_prefixes"), ids=lambda case: case["id"])
def test_the_first_prefix_of_real_text_that_stops_is_the_one_transformers_stops_at(case: dict) -> None:
    (ids,) = case["arrays"]["input_ids"]["values"]
    matches = matches_after_each_token(LLAMA, case["stop_strings"], ids)
    assert [match is not None for match in matches].index(True) == case["stop_after_each_prefix"].index(True)


# --- the rules -------------------------------------------------------------------------------------------------------


def test_a_stop_string_that_ends_inside_a_piece_ends_the_text_before_it() -> None:
    assert run(["Pari"], ["The capital is", " Paris", "."]) == (["The capital is", " ", "", ""], "Pari")


def test_a_stop_string_that_begins_inside_a_piece_ends_the_text_before_it() -> None:
    assert run([";"], ["for i, ", "j;", " x"]) == (["for i, ", "j", "", ""], ";")


def test_a_stop_string_of_several_pieces_is_held_back_until_it_is_complete() -> None:
    assert run(["<|im_end|>"], ["ok<", "|im", "_e", "nd|", ">", "more"]) == (
        ["ok", "", "", "", "", "", ""],
        "<|im_end|>",
    )


def test_what_looked_like_a_stop_string_is_delivered_as_soon_as_it_can_be_none() -> None:
    assert run(["<|im_end|>"], ["ok<", "|im", "_start"]) == (["ok", "", "<|im_start", ""], None)
    assert run(["aab"], ["a", "a", "a", "b"]) == (["", "", "a", "", ""], "aab")
    assert run(["ab", "bcd"], ["x", "bc", "bcd"]) == (["x", "", "bc", ""], "bcd")


def test_what_is_held_at_the_end_of_the_text_is_delivered() -> None:
    assert run(["stop"], ["sto"]) == (["", "sto"], None)


def test_a_stop_string_may_be_of_many_bytes_per_character() -> None:
    assert run(["停止🙂"], ["一停", "止", "🙂。"]) == (["一", "", "", ""], "停止🙂")


def test_no_stop_strings_let_all_text_pass() -> None:
    assert run([], ["a", "", "b"]) == (["a", "", "b", ""], None)


def test_the_match_that_is_complete_first_wins() -> None:
    assert run(["abcd", "bc"], ["abcd"]) == (["a", ""], "bc")
    assert run(["abcd", "bc"], ["a", "b", "c", "d"]) == (["", "", "a", "", ""], "bc")


def test_of_matches_complete_at_the_same_character_the_longest_wins() -> None:
    assert run(["op", "stop", "zzz"], ["a stop"]) == (["a ", ""], "stop")


def test_text_after_a_match_is_dropped() -> None:
    matcher = StopStringMatcher(["."])
    assert matcher.push("a.b") == StopMatch("a", ".")
    assert matcher.push("c") == StopMatch("", ".")
    assert matcher.finish() == ""


def test_text_after_finish_starts_anew() -> None:
    matcher = StopStringMatcher(["stop"])
    matcher.push("st")
    assert matcher.finish() == "st"
    assert matcher.push("op") == StopMatch("op")


def test_a_copy_goes_on_alone() -> None:
    matcher = StopStringMatcher(["stop"])
    matcher.push("a st")
    twin = matcher.copy()
    assert twin.push("op") == StopMatch("", "stop")
    assert matcher.push("ay") == StopMatch("stay")
    assert (matcher.matched, twin.matched) == (None, "stop")


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"^stop_strings\[1\]: '' is not allowed"):
        StopStringMatcher(["a", ""])


SHORT_TEXT = st.text("ab🙂", max_size=12)


@given(
    stop_strings=st.lists(st.text("ab🙂", min_size=1, max_size=5), max_size=4),
    pieces=st.lists(SHORT_TEXT, max_size=8),
)
def test_delivered_text_and_match_follow_from_the_text_alone(stop_strings: list[str], pieces: list[str]) -> None:
    matcher = StopStringMatcher(stop_strings)
    text = delivered = ""
    for piece in pieces:
        text += piece
        delivered += matcher.push(piece).text
        ends = [end for end in range(len(text) + 1) if text[:end].endswith(tuple(stop_strings))]
        if ends:
            match = max((string for string in stop_strings if text[: ends[0]].endswith(string)), key=len)
            assert (delivered, matcher.matched) == (text[: ends[0] - len(match)], match)
        else:
            held = max(
                (size for string in stop_strings for size in range(len(string)) if text.endswith(string[:size])),
                default=0,
            )
            assert (delivered, matcher.matched) == (text[: len(text) - held], None)
    if matcher.matched is None:
        assert delivered + matcher.finish() == text


@given(pieces=st.lists(st.text("ab", max_size=40), max_size=40))
def test_no_more_is_held_back_than_the_longest_stop_string_could_need(pieces: list[str]) -> None:
    matcher = StopStringMatcher(["abababab", "bbbb🙂"])
    given_text = delivered = 0
    for piece in pieces:
        given_text += len(piece)
        delivered += len(matcher.push(piece).text)
        if matcher.matched is not None:
            return
        assert given_text - delivered < 8
