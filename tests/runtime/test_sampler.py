"""Choosing tokens: exact distributions, reproducible draws, and no token out of logits that hold none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from driver import Session, prompt, raises, running
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from runtime import Engine, Model
from runtime.errors import FailedPrecondition
from runtime.generation_config import GenerationConfig, SamplingParameters, resolve
from runtime.sampler import BLOCK, SamplingRow, distribution, largest, row_seed, sample, uniform

VOCABULARY = 40
DRAWS = 20_000
CHI_SQUARE_999 = {5: 20.5, 10: 29.6, 20: 45.3, 40: 73.4}
"""99.9 % quantiles of chi-square for at most so many degrees of freedom."""


def parameters(**settings: object) -> SamplingParameters:
    config = GenerationConfig(**{"do_sample": True, "top_k": 0, "seed": 0, **settings})
    return resolve(config, vocab_size=VOCABULARY, max_length=100_000)


def logits_of(seed: int = 0, size: int = VOCABULARY) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, size).astype(np.float32)


def expected_distribution(logits: np.ndarray, settings: SamplingParameters) -> np.ndarray:
    """Token by token, straight from the definitions: temperature, then top_k, top_p and min_p of what is left."""
    weights = np.exp(logits.astype(np.float64) / settings.temperature)
    order = sorted(range(len(weights)), key=lambda token: (-weights[token], token))
    kept = order if settings.top_k == 0 else [t for t in order if weights[t] >= weights[order[settings.top_k - 1]]]
    total = sum(weights[token] for token in kept)
    nucleus, mass = [], 0.0
    for token in kept:
        if mass >= settings.top_p and nucleus:
            break
        nucleus.append(token)
        mass += weights[token] / total
    nucleus = [token for token in nucleus if weights[token] >= settings.min_p * weights[nucleus[0]]]
    result = np.zeros(len(weights))
    result[nucleus] = weights[nucleus] / weights[nucleus].sum()
    return result


SETTINGS = [
    {},
    {"temperature": 0.5},
    {"temperature": 2.5},
    {"top_k": 7},
    {"top_p": 0.8},
    {"min_p": 0.05},
    {"temperature": 1.5, "top_k": 20, "top_p": 0.9, "min_p": 0.02},
    {"top_k": VOCABULARY},
]
EXACT_ALONE = [{"temperature": 0.5}, {"top_k": VOCABULARY}]
"""Nothing of drawing is in these that is not in the others."""


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_distribution_is_the_defined_one(settings: dict[str, object]) -> None:
    for seed in range(20):
        logits = logits_of(seed)
        token_ids, probabilities = distribution(logits, parameters(**settings))
        actual = np.zeros(VOCABULARY)
        actual[token_ids] = probabilities
        np.testing.assert_allclose(actual, expected_distribution(logits, parameters(**settings)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("settings", [one for one in SETTINGS if one not in EXACT_ALONE], ids=str)
def test_draws_follow_the_distribution(settings: dict[str, object]) -> None:
    """Chi-square over 20,000 positions of one seed. The seed is fixed: the test gives the same result every time."""
    chosen = parameters(**settings)
    logits = logits_of()
    tokens = np.zeros(DRAWS, np.int64)
    draws = [sample(SamplingRow(logits, chosen, 42, tokens[:position], 0)) for position in range(DRAWS)]
    expected = expected_distribution(logits, chosen) * DRAWS
    counts = np.bincount(draws, minlength=VOCABULARY)
    assert not counts[expected == 0].any()
    rare = (expected > 0) & (expected < 5)  # too few for the test's approximation: taken together
    cells = [(count, mean) for count, mean in zip(counts[expected >= 5], expected[expected >= 5], strict=True)]
    if rare.any():
        cells.append((counts[rare].sum(), max(expected[rare].sum(), 1.0)))
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells)
    limit = next(value for degrees, value in CHI_SQUARE_999.items() if degrees >= len(cells) - 1)
    assert statistic < limit


def test_uniform_numbers_differ_with_seed_and_position_and_are_the_same_every_time() -> None:
    numbers = [uniform(seed, position) for seed in (0, 1, 2**32, 2**64 - 1) for position in range(500)]
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < 1 for number in numbers)
    assert numbers == [uniform(seed, position) for seed in (0, 1, 2**32, 2**64 - 1) for position in range(500)]
    assert abs(np.mean(numbers) - 0.5) < 0.03


def test_row_seeds_are_2_to_the_32_apart_and_wrap() -> None:
    assert [row_seed(7, row) for row in range(3)] == [7, 7 + 2**32, 7 + 2**33]
    assert row_seed(2**64 - 1, 1) == 2**32 - 1


# --- greedy, penalties, suppression ----------------------------------------------------------------------------------


def test_greedy_takes_the_first_of_equal_largest_logits() -> None:
    logits = np.array([0, 3, 1, 3], np.float32)
    assert sample(SamplingRow(logits, parameters(do_sample=False), 0, np.zeros(1, np.int64), 0)) == 1


def test_repetition_penalty_divides_positive_and_multiplies_negative_logits_of_what_is_there() -> None:
    logits = np.full(VOCABULARY, -9, np.float32)
    logits[[1, 2, 3]] = [4, 3, -1]
    row = SamplingRow(logits, parameters(do_sample=False, repetition_penalty=1.5), 0, np.array([1, 1, 5]), 0)
    assert sample(row) == 2  # 4 / 1.5 < 3, whether the token is there once or twice
    assert sample(replace(row, tokens=np.array([1, 2]))) == 1
    assert logits[1] == 4


def test_a_negative_logit_falls_by_the_penalty() -> None:
    logits = np.full(VOCABULARY, -9, np.float32)
    logits[[1, 2]] = [-1, -1.2]
    row = SamplingRow(logits, parameters(do_sample=False, repetition_penalty=1.5), 0, np.array([1]), 0)
    assert sample(row) == 2


@pytest.mark.parametrize("do_sample", [False, True])
def test_no_end_token_before_min_new_tokens(do_sample: bool) -> None:
    logits = np.full(VOCABULARY, -20, np.float32)
    logits[[2, 3]] = [20, 15]
    chosen = parameters(do_sample=do_sample, min_new_tokens=3, eos_token_id=(2,))
    picks = [sample(SamplingRow(logits, chosen, 0, np.zeros(1, np.int64), made)) for made in range(5)]
    assert picks == [3, 3, 3, 2, 2]


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("do_sample", [False, True])
def test_logits_with_nan_or_infinity_are_an_error_not_a_token(value: float, do_sample: bool) -> None:
    logits = logits_of()
    logits[5] = value
    with raises(FailedPrecondition, reason="LOGITS_NOT_FINITE"):
        sample(SamplingRow(logits, parameters(do_sample=do_sample), 0, np.zeros(1, np.int64), 0))


def test_logits_that_are_all_minus_infinity_are_an_error() -> None:
    with raises(FailedPrecondition, reason="LOGITS_NOT_FINITE"):
        sample(SamplingRow(np.full(VOCABULARY, -np.inf, np.float32), parameters(), 0, np.zeros(1, np.int64), 0))


def test_impossible_tokens_are_never_drawn() -> None:
    logits = np.full(VOCABULARY, -np.inf, np.float32)
    logits[[4, 9]] = [0, 1]
    for settings in SETTINGS:
        chosen = parameters(**settings)
        zeros = np.zeros(300, np.int64)
        drawn = {sample(SamplingRow(logits, chosen, 1, zeros[:position], 0)) for position in range(300)}
        assert drawn <= {4, 9}


# --- the largest -----------------------------------------------------------------------------------------------------


@given(
    scores=hnp.arrays(
        np.float32, st.integers(1, 5 * BLOCK), elements=st.sampled_from([-np.inf, -2.0, -1.0, 0.0, 0.5, 1.0, 3.0])
    ),
    k=st.integers(1, 5 * BLOCK),
)
def test_the_largest_are_those_of_a_full_sort_with_ties(scores: np.ndarray, k: int) -> None:
    order = np.argsort(-scores, kind="stable")
    k = min(k, len(scores))
    assert largest(scores, k).tolist() == [index for index in order if scores[index] >= scores[order[k - 1]]]


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 2000), k=st.integers(1, 300))
def test_the_largest_of_distinct_values_are_the_first_of_a_full_sort(seed: int, size: int, k: int) -> None:
    scores = np.random.default_rng(seed).normal(size=size)
    assert largest(scores, min(k, size)).tolist() == np.argsort(-scores, kind="stable")[:k].tolist()


# --- seeds in sessions -----------------------------------------------------------------------------------------------

SAMPLED = {"do_sample": True, "temperature": 0.8, "top_k": 0, "seed": 42, "min_new_tokens": 10_000}


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_a_seed_gives_the_same_tokens_alone_and_in_a_batch(engine: Engine, rows: int) -> None:
    inputs = [prompt(5 + row, row) for row in range(rows)]
    batch = Session(engine, *inputs, **SAMPLED)
    batch.generate(12)
    for row, tokens in enumerate(inputs):
        alone = Session(engine, tokens, **{**SAMPLED, "seed": row_seed(42, row)})
        assert alone.tokens(12) == batch.sequence(row, start=len(tokens))


def test_a_seed_gives_the_same_tokens_after_a_rewind_and_in_another_engine(llama: Model) -> None:
    tokens = prompt(6)
    with running(llama) as first:
        session = Session(first, tokens, **SAMPLED)
        once = session.tokens(12)
        session.rewind(9)
        assert session.tokens(9) == once[3:]
        assert session.rewind(6).tokens(12) == once
    with running(llama) as second:
        assert Session(second, tokens, **SAMPLED).tokens(12) == once


def test_another_seed_at_the_rewind_gives_other_tokens(engine: Engine) -> None:
    session = Session(engine, prompt(6), **SAMPLED)
    once = session.tokens(12)
    assert session.rewind(6, seed=43).tokens(12) != once
    assert session.rewind(6, seed=42).tokens(12) == once


def test_rows_with_the_same_prompt_get_different_tokens(engine: Engine) -> None:
    session = Session(engine, prompt(6), prompt(6), **SAMPLED)
    session.generate(12)
    assert session.sequence(0) != session.sequence(1)


def test_without_a_seed_one_is_drawn_and_told(engine: Engine) -> None:
    settings = {**SAMPLED, "seed": None}
    session, other = Session(engine, prompt(6), **settings), Session(engine, prompt(6), **settings)
    assert session.config.seed != other.config.seed
    again = Session(engine, prompt(6), **{**SAMPLED, "seed": session.config.seed})
    assert again.tokens(8) == session.tokens(8)
