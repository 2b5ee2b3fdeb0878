"""Where the model runs and its memory lies: the only module that knows one device from another.

Buffers are addressed by pointer so that a model run can be bound to any part of them. On the CPU a buffer is a numpy
array; on CUDA it is an OrtValue, and copies run an Identity graph over bound pointers. Code outside this module must
not assume that a buffer can be read by the host.
"""

from __future__ import annotations

import itertools
import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import DTypeLike, NDArray

from runtime.errors import FailedPrecondition, InvalidArgument

Index = tuple[int | slice, ...]


class Buffer(ABC):
    """A dense, row-major block of device memory that never moves."""

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)

    def pointer(self, *index: int) -> int:
        """Address of the element at `index` (leading dimensions; the rest are 0)."""
        offset = sum(position * math.prod(self.shape[axis + 1 :]) for axis, position in enumerate(index))
        return self._address() + offset * self.dtype.itemsize

    @abstractmethod
    def _address(self) -> int: ...

    @abstractmethod
    def read(self, index: Index) -> NDArray[Any]:
        """A copy of a part, on the host."""

    @abstractmethod
    def write(self, index: Index, values: NDArray[Any]) -> None:
        """Overwrites a part from the host."""

    @abstractmethod
    def copy(self, source: Index, target: Index) -> None:
        """Copies one part over another of the same shape, on the device."""


class Device(ABC):
    """Loads models onto one kind of device and allocates memory on it."""

    name: str
    """As in IOBinding: "cpu" or "cuda"."""
    host_inputs_are_copied: bool
    """Whether binding a host array copies it, so that it must be bound again after each change."""

    @abstractmethod
    def providers(self) -> list[Any]:
        """Execution providers, for InferenceSession."""

    @abstractmethod
    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> Buffer:
        """Zeroed memory."""

    def load(self, path: Path, threads: int) -> onnxruntime.InferenceSession:
        """A session of the graph at `path`. `threads` 0 lets ONNX Runtime choose (one per core).

        Raises FailedPrecondition if the graph cannot be loaded.
        """
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            return onnxruntime.InferenceSession(path, options, providers=self.providers())
        except Exception as error:  # ONNX Runtime raises its own classes, all of them plain Exceptions
            raise FailedPrecondition("MODEL_INVALID", f"cannot load {path.name}: {error}") from error


class CpuBuffer(Buffer):
    """Host memory. Untouched pages cost nothing: the operating system commits them on first write.

    It is mapped, not allocated by numpy, which would ask for huge pages: the first token of a slot would then commit
    two megabytes for every head and layer.
    """

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        super().__init__(shape, dtype)
        size = math.prod(shape) * self.dtype.itemsize
        pages = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.array: NDArray[Any] = np.frombuffer(pages, self.dtype, math.prod(shape)).reshape(shape)

    def _address(self) -> int:
        return int(self.array.ctypes.data)

    def read(self, index: Index) -> NDArray[Any]:
        return self.array[index].copy()

    def write(self, index: Index, values: NDArray[Any]) -> None:
        self.array[index] = values

    def copy(self, source: Index, target: Index) -> None:
        self.array[target] = self.array[source]


class CpuDevice(Device):
    name = "cpu"
    host_inputs_are_copied = False

    def providers(self) -> list[Any]:
        return ["CPUExecutionProvider"]

    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> CpuBuffer:
        return CpuBuffer(shape, dtype)


class CudaBuffer(Buffer):
    """CUDA memory. Parts are moved as their contiguous ranges, each by one run of an Identity graph."""

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike, identity: onnxruntime.InferenceSession) -> None:
        super().__init__(shape, dtype)
        self._value = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shape, self.dtype), "cuda", 0)
        self._identity = identity

    def _address(self) -> int:
        return int(self._value.data_ptr())

    def read(self, index: Index) -> NDArray[Any]:
        ranges = list(contiguous_ranges(self.shape, index))
        values = np.empty((len(ranges), ranges[0][1]), self.dtype)
        for row, (offset, count) in zip(values, ranges, strict=True):
            self._move(self._at(offset), "cuda", int(row.ctypes.data), "cpu", count)
        return values.reshape(part_shape(self.shape, index))

    def write(self, index: Index, values: NDArray[Any]) -> None:
        ranges = list(contiguous_ranges(self.shape, index))
        rows = np.ascontiguousarray(np.broadcast_to(values, part_shape(self.shape, index)), self.dtype)
        for row, (offset, count) in zip(rows.reshape(len(ranges), -1), ranges, strict=True):
            self._move(int(row.ctypes.data), "cpu", self._at(offset), "cuda", count)

    def copy(self, source: Index, target: Index) -> None:
        pairs = zip(contiguous_ranges(self.shape, source), contiguous_ranges(self.shape, target), strict=True)
        for (from_offset, count), (to_offset, _) in pairs:
            self._move(self._at(from_offset), "cuda", self._at(to_offset), "cuda", count)

    def _at(self, offset: int) -> int:
        return self._address() + offset * self.dtype.itemsize

    def _move(self, source: int, source_device: str, target: int, target_device: str, count: int) -> None:
        # Elements travel as bytes, so that one graph serves every element type.
        shape = [count * self.dtype.itemsize]
        binding = self._identity.io_binding()
        binding.bind_input("source", source_device, 0, np.uint8, shape, source)
        binding.bind_output("target", target_device, 0, np.uint8, shape, target)
        self._identity.run_with_iobinding(binding)
        binding.synchronize_outputs()


class CudaDevice(Device):
    """One CUDA device. Raises FailedPrecondition where the provider is not there: no silent fall-back to the CPU."""

    name = "cuda"
    host_inputs_are_copied = True

    def __init__(self) -> None:
        available = onnxruntime.get_available_providers()
        if "CUDAExecutionProvider" not in available:
            raise FailedPrecondition(
                "DEVICE_UNAVAILABLE",
                f"device 'cuda' needs ONNX Runtime's CUDAExecutionProvider (install the 'gpu' extra); available: "
                f"{', '.join(available)}",
            )
        self._identity = onnxruntime.InferenceSession(_identity_graph(), providers=self.providers())
        if "CUDAExecutionProvider" not in self._identity.get_providers():
            raise FailedPrecondition(
                "DEVICE_UNAVAILABLE", "the CUDAExecutionProvider is installed but could not start on this machine"
            )

    def providers(self) -> list[Any]:
        # TF32 would round products to ten bits: exact float32 by default.
        return [("CUDAExecutionProvider", {"use_tf32": 0}), "CPUExecutionProvider"]

    def allocate(self, shape: tuple[int, ...], dtype: DTypeLike) -> CudaBuffer:
        return CudaBuffer(shape, dtype, self._identity)


def open_device(name: str) -> Device:
    """The device of that name. Raises InvalidArgument for an unknown one, FailedPrecondition for an absent one."""
    if name == "cpu":
        return CpuDevice()
    if name == "cuda":
        return CudaDevice()
    raise InvalidArgument("device", name, "one of 'cpu', 'cuda'")


def part_shape(shape: tuple[int, ...], index: Index) -> tuple[int, ...]:
    """Shape of `array[index]` for an array of `shape`."""
    kept = [
        len(range(*part.indices(extent))) for part, extent in zip(index, shape, strict=False) if isinstance(part, slice)
    ]
    return (*kept, *shape[len(index) :])


def contiguous_ranges(shape: tuple[int, ...], index: Index) -> Iterator[tuple[int, int]]:
    """(offset, count) in elements of the contiguous ranges that make up `array[index]`, in row-major order.

    The last entry of `index` may cut its dimension; what follows it is taken whole.
    """
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    positions = [
        range(*part.indices(extent)) if isinstance(part, slice) else range(part, part + 1)
        for part, extent in zip(index, shape, strict=False)
    ]
    *outer, last = positions
    count = len(last) * strides[len(index) - 1]
    start = last.start * strides[len(index) - 1]
    for leading in itertools.product(*outer):
        yield sum(place * stride for place, stride in zip(leading, strides, strict=False)) + start, count


def _identity_graph() -> bytes:
    from onnx import TensorProto, helper

    source = helper.make_tensor_value_info("source", TensorProto.UINT8, ["count"])
    target = helper.make_tensor_value_info("target", TensorProto.UINT8, ["count"])
    graph = helper.make_graph([helper.make_node("Identity", ["source"], ["target"])], "copy", [source], [target])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())
