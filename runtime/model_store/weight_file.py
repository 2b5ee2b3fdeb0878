"""Weights beside a graph: written to the external data file one by one, so that a build never holds them all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

ALIGNMENT = 4096
"""Bytes. ONNX Runtime maps weights from page boundaries instead of reading them."""
INLINE_BYTES = 1024
"""Smaller tensors stay in the graph."""


class WeightFile:
    """Collects a graph's initializers, the large ones in `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        self.initializers: list[TensorProto] = []

    def add(self, name: str, values: NDArray[Any]) -> str:
        """Stores a tensor and gives its name back."""
        values = np.ascontiguousarray(values)
        tensor = TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(values.dtype), dims=values.shape)
        if values.nbytes < INLINE_BYTES:
            tensor.raw_data = values.tobytes()
        else:
            self._file.write(b"\0" * (-self._file.tell() % ALIGNMENT))
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", self._path.name), ("offset", self._file.tell()), ("length", values.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            self._file.write(values.data)
        self.initializers.append(tensor)
        return name

    def close(self) -> None:
        self._file.close()
