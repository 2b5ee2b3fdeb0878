"""numpy arrays to tensors of the wire and back: row-major, little-endian bytes. Knows nothing of what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tokenloom.errors import invalid
from tokenloom.v1 import types_pb2

_DTYPES: dict[types_pb2.DataType, np.dtype[Any]] = {
    types_pb2.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    types_pb2.DATA_TYPE_FLOAT16: np.dtype("<f2"),
    types_pb2.DATA_TYPE_INT32: np.dtype("<i4"),
    types_pb2.DATA_TYPE_INT64: np.dtype("<i8"),
    types_pb2.DATA_TYPE_BOOL: np.dtype("bool"),
}
_DATA_TYPES = {dtype: data_type for data_type, dtype in _DTYPES.items()}


def to_tensor(array: NDArray[Any], field: str) -> types_pb2.Tensor:
    """The tensor with the array's shape, dtype and elements. Raises InvalidArgument for a dtype the wire lacks."""
    data_type = _DATA_TYPES.get(array.dtype.newbyteorder("<"))
    if data_type is None:
        allowed = ", ".join(dtype.name for dtype in _DATA_TYPES)
        raise invalid(field, f"dtype {array.dtype} is not one of {allowed}")
    return types_pb2.Tensor(dtype=data_type, shape=array.shape, data=array.astype(_DTYPES[data_type]).tobytes())


def to_numpy(tensor: types_pb2.Tensor) -> NDArray[Any]:
    """The tensor as an array of its own, which may be written to."""
    flat = np.frombuffer(bytearray(tensor.data), dtype=_DTYPES[tensor.dtype])
    return flat.reshape(tuple(tensor.shape))


def float_tensor(values: ArrayLike, field: str) -> types_pb2.Tensor:
    """A tensor of logits: float16 stays, every other real dtype becomes float32."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise invalid(field, f"expected real numbers, got dtype {array.dtype}")
    return to_tensor(array if array.dtype == np.float16 else array.astype(np.float32), field)


def token_ids(tokens: ArrayLike, field: str) -> list[int]:
    """Token ids of one row as Python ints. Raises InvalidArgument for what is not a list of ids from 0 to 2**32 - 1."""
    array = np.asarray(tokens)
    if array.ndim != 1:
        raise invalid(field, f"expected one list of token ids, got shape {array.shape}")
    if not array.size:
        return []
    if array.dtype.kind not in "iu":
        raise invalid(field, f"token ids are integers, got dtype {array.dtype}")
    bad = np.flatnonzero((array < 0) | (array > 0xFFFFFFFF))
    if bad.size:
        raise invalid(f"{field}[{bad[0]}]", f"{array[bad[0]]} is not a token id")
    ids: list[int] = array.tolist()
    return ids
