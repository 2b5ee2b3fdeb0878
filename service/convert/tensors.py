"""Tensors: dtype, shape and little-endian bytes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.errors import InvalidArgument, Unimplemented
from tokenloom.v1 import types_pb2

MAX_DIMENSIONS = 16

_DTYPES: dict[types_pb2.DataType, np.dtype[Any]] = {
    types_pb2.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    types_pb2.DATA_TYPE_FLOAT16: np.dtype("<f2"),
    types_pb2.DATA_TYPE_INT32: np.dtype("<i4"),
    types_pb2.DATA_TYPE_INT64: np.dtype("<i8"),
    types_pb2.DATA_TYPE_BOOL: np.dtype(np.bool_),
}
_DATA_TYPES = {dtype: data_type for data_type, dtype in _DTYPES.items()}


def to_array(tensor: types_pb2.Tensor, field: str) -> NDArray[Any]:
    """The tensor's values, read-only, in the tensor's memory. `field` is the path of the tensor in the request."""
    dtype = _DTYPES.get(tensor.dtype)
    if dtype is None:
        raise InvalidArgument(f"{field}.dtype", tensor.dtype, "FLOAT32, FLOAT16, INT32, INT64 or BOOL")
    shape, data = tuple(tensor.shape), tensor.data
    if len(shape) > MAX_DIMENSIONS:
        raise InvalidArgument(f"{field}.shape", list(shape), f"at most {MAX_DIMENSIONS} dimensions")
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected or 0 in shape:
        raise InvalidArgument(
            f"{field}.data", f"{len(data)} bytes", f"{expected} bytes, more than 0, for {dtype.name} {list(shape)}"
        )
    if dtype == np.bool_ and np.frombuffer(data, np.uint8).max() > 1:
        raise InvalidArgument(f"{field}.data", "a byte over 1", "0 or 1 per element of BOOL")
    return np.frombuffer(data, dtype).reshape(shape)


def from_array(array: NDArray[Any]) -> types_pb2.Tensor:
    """An array of any memory order. Raises Unimplemented for element types the protocol does not have."""
    data_type = _DATA_TYPES.get(array.dtype.newbyteorder("<"))
    if data_type is None:
        raise Unimplemented(
            f"tensors of {array.dtype.name} cannot be sent; float32, float16, int32, int64 and bool can"
        )
    return types_pb2.Tensor(
        dtype=data_type, shape=array.shape, data=array.astype(_DTYPES[data_type], copy=False).tobytes()
    )
