"""Weights in 4 bits, in blocks, as MatMulNBits takes them: value = (code - zero_point) * scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BLOCK = 32
"""Weights per scale."""
LEVELS = 15


@dataclass(frozen=True, slots=True)
class QuantizedMatrix:
    """values uint8 [out, blocks, 16] and zero_points uint8, two 4-bit codes per byte, low first; scales float32."""

    values: NDArray[np.uint8]
    scales: NDArray[np.float32]
    zero_points: NDArray[np.uint8]


def quantize(weight: NDArray[np.float32]) -> QuantizedMatrix:
    """weight float32 [out, in], in divisible by BLOCK."""
    rows, columns = weight.shape
    blocks = weight.reshape(rows, columns // BLOCK, BLOCK)
    low = np.minimum(blocks.min(axis=2), 0.0)
    high = np.maximum(blocks.max(axis=2), 0.0)
    scales = ((high - low) / LEVELS).astype(np.float32)
    scales[scales == 0] = 1.0
    zero_points = np.clip(np.round(-low / scales), 0, LEVELS).astype(np.uint8)
    codes = np.round(blocks / scales[..., None]) + zero_points[..., None]
    codes = np.clip(codes, 0, LEVELS).astype(np.uint8)
    padded = np.pad(zero_points, ((0, 0), (0, zero_points.shape[1] % 2)))
    return QuantizedMatrix(
        values=codes[..., 0::2] | (codes[..., 1::2] << 4),
        scales=scales.reshape(-1),
        zero_points=(padded[:, 0::2] | (padded[:, 1::2] << 4)).reshape(-1),
    )


def dequantize(matrix: QuantizedMatrix) -> NDArray[np.float32]:
    """The matrix [out, in] that the codes stand for."""
    rows, blocks, _ = matrix.values.shape
    codes = np.stack([matrix.values & 15, matrix.values >> 4], axis=-1).reshape(rows, blocks, BLOCK)
    pairs = matrix.zero_points.reshape(rows, -1)
    zero_points = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(rows, -1)[:, :blocks]
    values = (codes.astype(np.float32) - zero_points[..., None]) * matrix.scales.reshape(rows, blocks, 1)
    return values.reshape(rows, blocks * BLOCK)
