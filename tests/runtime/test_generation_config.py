"""Settings: transformers' names, what is allowed, and what holds where nothing is said."""

from __future__ import annotations

import pytest
from driver import raises

from runtime.errors import InvalidArgument
from runtime.generation_config import (
    DEFAULT_TOP_K,
    MAX_STOP_STRING_BYTES,
    MAX_STOP_STRINGS,
    GenerationConfig,
    SamplingParameters,
    resolve,
)


def resolved(**settings: object) -> SamplingParameters:
    return resolve(GenerationConfig(**settings), vocab_size=512, max_length=100)


def test_what_holds_where_nothing_is_said() -> None:
    parameters = resolved(seed=0)
    assert parameters == SamplingParameters(
        max_length=100,
        max_new_tokens=None,
        min_new_tokens=0,
        do_sample=False,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        min_p=0.0,
        repetition_penalty=1.0,
        seed=0,
        eos_token_id=(),
        pad_token_id=0,
        stop_strings=(),
    )
    assert resolved(do_sample=True).top_k == DEFAULT_TOP_K
    assert resolved(do_sample=True, top_k=0).top_k == 0


def test_a_seed_is_drawn_where_none_is_given() -> None:
    assert resolved().seed != resolved().seed


REFUSED = [
    *(("max_length", value) for value in (0, -1, 101, 1.5, True)),
    *(("max_new_tokens", value) for value in (0, -1, 2**31)),
    *(("min_new_tokens", value) for value in (-1, 2**31)),
    *(("temperature", value) for value in (0, -1.0, 101.0, float("nan"), float("inf"), "1", True)),
    *(("top_k", value) for value in (-1, 1.5, 2**31)),
    *(("top_p", value) for value in (0.0, -0.1, 1.01, float("nan"))),
    *(("min_p", value) for value in (-0.1, 1.1, float("nan"))),
    *(("repetition_penalty", value) for value in (0.0, -1.0, float("nan"), float("inf"))),
    *(("seed", value) for value in (-1, 2**64)),
    *(("pad_token_id", value) for value in (-1, 512)),
]
BAD_TOKENS = [-1, 512, 2**31 - 1, 2**32 - 1]


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_value_that_is_not_allowed_is_refused_by_name_with_what_is(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{name}: .* is not allowed; (a number|an integer) in "):
        resolved(**{name: value})


ALLOWED = [
    ("max_length", 1),
    ("max_length", 100),
    ("max_new_tokens", 1),
    ("temperature", 1e-6),
    ("temperature", 100),
    ("top_k", 2**31 - 1),
    ("top_p", 1e-9),
    ("min_p", 1.0),
    ("repetition_penalty", 0.01),
    ("seed", 2**64 - 1),
    ("pad_token_id", 511),
]


@pytest.mark.parametrize(("name", "value"), ALLOWED)
def test_the_ends_of_the_ranges_are_allowed(name: str, value: float) -> None:
    assert getattr(resolved(**{name: value}), name) == value


@pytest.mark.parametrize("token", BAD_TOKENS)
def test_end_tokens_must_be_in_the_vocabulary(token: int) -> None:
    """Case 9."""
    with raises(InvalidArgument, field="eos_token_id[1]"):
        resolved(eos_token_id=(2, token))


def test_min_new_tokens_may_not_pass_max_new_tokens() -> None:
    assert resolved(min_new_tokens=5, max_new_tokens=5).min_new_tokens == 5
    with raises(InvalidArgument, field="min_new_tokens"):
        resolved(min_new_tokens=6, max_new_tokens=5)


@pytest.mark.parametrize(
    ("stop_strings", "field"),
    [
        (("a", ""), "stop_strings[1]"),
        (("é" * (MAX_STOP_STRING_BYTES // 2) + "x",), "stop_strings[0]"),
        (("a",) * (MAX_STOP_STRINGS + 1), "stop_strings"),
        (("a", 5), "stop_strings[1]"),
    ],
    ids=["empty", "long", "many", "no string"],
)
def test_stop_strings_are_few_short_and_not_empty(stop_strings: tuple[str, ...], field: str) -> None:
    with raises(InvalidArgument, field=field):
        resolved(stop_strings=stop_strings)


def test_what_a_request_says_goes_over_what_was_said_before() -> None:
    base = GenerationConfig(max_new_tokens=5, do_sample=True, eos_token_id=(1, 2), stop_strings=("a",), min_p=0.5)
    merged = GenerationConfig(max_new_tokens=7, do_sample=False, eos_token_id=(3,), min_p=0.0).merged_over(base)
    assert merged == GenerationConfig(
        max_new_tokens=7, do_sample=False, eos_token_id=(3,), stop_strings=("a",), min_p=0.0
    )


def test_settings_in_force_give_the_same_settings_again() -> None:
    parameters = resolved(do_sample=True, temperature=0.5, seed=9, eos_token_id=(2, 3), stop_strings=("x",))
    assert resolve(parameters.as_config(), vocab_size=512, max_length=100) == parameters


def test_unknown_names_name_the_nearest_or_all() -> None:
    with pytest.raises(InvalidArgument, match="did you mean 'temperature'"):
        GenerationConfig.from_mapping({"temprature": 1.0})
    with pytest.raises(InvalidArgument, match="known: do_sample, eos_token_id"):
        GenerationConfig.from_mapping({"zzz": 1})


def test_names_and_values_may_come_as_json_has_them() -> None:
    config = GenerationConfig.from_mapping({"eos_token_id": 5, "stop_strings": ["a", "b"], "top_k": 3})
    assert (config.eos_token_id, config.stop_strings, config.top_k) == ((5,), ("a", "b"), 3)
    assert GenerationConfig.from_mapping({"eos_token_id": [5, 6], "stop_strings": "a"}).stop_strings == ("a",)
