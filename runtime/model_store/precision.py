"""How a built model keeps its weights."""

from __future__ import annotations

from enum import Enum


class Precision(Enum):
    """How weights are kept."""

    FP32 = "fp32"
    """All float32."""
    UINT4 = "uint4"
    """Matrices of the blocks in 4 bits with a scale and zero point per 32; embedding and lm_head float32."""
    UINT4_LM_HEAD = "uint4-lm-head"
    """The lm_head in 4 bits too."""
