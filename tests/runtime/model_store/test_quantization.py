"""Four bits a weight: what is lost is half a step at most."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from runtime.model_store.quantization import BLOCK, dequantize, quantize

EPSILON = np.finfo(np.float32)


@st.composite
def matrices(draw: st.DrawFn) -> NDArray[np.float32]:
    rows, blocks = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    scale = draw(st.sampled_from([1e-30, 1e-3, 1.0, 1e4]))
    values = draw(arrays.arrays(np.float32, (rows, blocks * BLOCK), elements=st.floats(-1, 1, width=32)))
    return values * np.float32(scale)


@given(matrices())
def test_no_weight_moves_by_more_than_half_a_step(weight: NDArray[np.float32]) -> None:
    matrix = quantize(weight)
    steps = np.repeat(matrix.scales.reshape(len(weight), -1), BLOCK, axis=1)
    tolerance = 8 * EPSILON.eps * np.abs(weight).max() + EPSILON.tiny
    assert (np.abs(dequantize(matrix) - weight) <= steps / 2 + tolerance).all()


@given(matrices())
def test_zero_stays_zero(weight: NDArray[np.float32]) -> None:
    weight[:, ::3] = 0
    assert not dequantize(quantize(weight))[:, ::3].any()


@given(matrices())
def test_the_shapes_are_those_of_the_kernel(weight: NDArray[np.float32]) -> None:
    rows, blocks = weight.shape[0], weight.shape[1] // BLOCK
    matrix = quantize(weight)
    assert (matrix.values.shape, matrix.values.dtype) == ((rows, blocks, BLOCK // 2), np.uint8)
    assert (matrix.scales.shape, matrix.scales.dtype) == ((rows * blocks,), np.float32)
    assert (matrix.zero_points.shape, matrix.zero_points.dtype) == ((rows * ((blocks + 1) // 2),), np.uint8)


@pytest.mark.parametrize("low", [-8, 0, -15])
def test_weights_on_the_grid_come_back_exactly(low: int) -> None:
    weight = (np.tile(np.arange(16), 4).reshape(2, BLOCK) + low).astype(np.float32) / 4
    np.testing.assert_array_equal(dequantize(quantize(weight)), weight)


def test_blocks_have_scales_of_their_own() -> None:
    weight = np.concatenate([np.linspace(-1, 1, BLOCK), np.linspace(-100, 100, BLOCK)]).astype(np.float32)[None]
    small, large = quantize(weight).scales
    assert large / small == pytest.approx(100)
