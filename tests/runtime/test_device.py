"""Memory addressed by pointer, and devices that are there or refused."""

from __future__ import annotations

import ctypes

import numpy as np
import onnxruntime
import pytest
from driver import LLAMA, MODELS, Session, load_model, prompt, raises, running
from hypothesis import given
from hypothesis import strategies as st

from runtime import Model, ModelOptions
from runtime.device import CpuDevice, contiguous_ranges, open_device, part_shape
from runtime.errors import FailedPrecondition, InvalidArgument

HAS_CUDA = "CUDAExecutionProvider" in onnxruntime.get_available_providers()
gpu = pytest.mark.gpu
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="ONNX Runtime has no CUDAExecutionProvider here")


@st.composite
def parts(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int | slice, ...]]:
    """A shape, and an index of it: numbers and slices, of which only the last may cut its dimension."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=5)))
    used = draw(st.integers(1, len(shape)))
    index: list[int | slice] = [
        slice(None) if draw(st.booleans()) else draw(st.integers(0, extent - 1)) for extent in shape[:used]
    ]
    extent = shape[used - 1]
    start = draw(st.integers(0, extent - 1))
    index[-1] = slice(start, draw(st.integers(start + 1, extent)))
    return shape, tuple(index)


@given(parts())
def test_contiguous_ranges_are_the_elements_of_the_part_in_order(
    part: tuple[tuple[int, ...], tuple[int | slice, ...]],
) -> None:
    shape, index = part
    array = np.arange(np.prod(shape)).reshape(shape)
    elements = [element for start, count in contiguous_ranges(shape, index) for element in range(start, start + count)]
    assert elements == array[index].ravel().tolist()
    assert part_shape(shape, index) == array[index].shape


def test_a_part_of_the_cache_is_as_few_ranges_as_it_has_heads() -> None:
    ranges = list(contiguous_ranges((4, 16, 2, 512, 8), (slice(None), 3, slice(None), slice(0, 100))))
    assert len(ranges) == 4 * 2
    assert {count for _, count in ranges} == {100 * 8}


def test_a_buffer_is_zeroed_aligned_and_addressed_by_pointer() -> None:
    buffer = CpuDevice().allocate((3, 4, 5), np.float32)
    assert not buffer.read((slice(None),)).any()
    assert buffer.pointer() % 64 == 0  # a cache line
    buffer.write((1, 2, slice(3, 4)), np.array([7.0]))
    assert ctypes.c_float.from_address(buffer.pointer(1, 2, 3)).value == 7.0


def test_parts_are_read_written_and_copied() -> None:
    buffer = CpuDevice().allocate((2, 3, 4), np.int64)
    buffer.write((slice(None), 1), np.arange(8).reshape(2, 4))
    buffer.copy((slice(None), 1, slice(0, 2)), (slice(None), 2, slice(0, 2)))
    copied = buffer.read((slice(None), 2))
    assert copied.tolist() == [[0, 1, 0, 0], [4, 5, 0, 0]]
    copied[:] = -1
    assert buffer.read((slice(None), 2)).min() == 0


def test_an_unknown_device_is_refused() -> None:
    with raises(InvalidArgument, field="device"):
        open_device("tpu")


@pytest.mark.skipif(HAS_CUDA, reason="the CUDAExecutionProvider is there")
def test_cuda_without_its_provider_is_an_error_and_never_the_cpu_instead() -> None:
    with raises(FailedPrecondition, reason="DEVICE_UNAVAILABLE"):
        open_device("cuda")
    with raises(FailedPrecondition, reason="DEVICE_UNAVAILABLE"):
        Model.load(MODELS / LLAMA, options=ModelOptions(device="cuda"))


@gpu
@needs_cuda
def test_parts_of_cuda_memory_are_read_written_and_copied() -> None:
    buffer = open_device("cuda").allocate((2, 3, 4), np.float32)
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    buffer.write((slice(None), 1), values)
    buffer.copy((slice(None), 1), (slice(None), 2))
    np.testing.assert_array_equal(buffer.read((slice(None), 2)), values)


@gpu
@needs_cuda
def test_sessions_on_cuda_agree_with_the_cpu() -> None:
    with running(load_model(LLAMA, device="cuda")) as cuda, running(load_model(LLAMA)) as cpu:
        sessions = [Session(engine, prompt(9), prompt(3), min_new_tokens=10_000) for engine in (cuda, cpu)]
        np.testing.assert_allclose(*(session.logits() for session in sessions), atol=1e-3)


@gpu
@needs_cuda
def test_rows_of_a_batch_on_cuda_have_the_logits_they_have_alone() -> None:
    with running(load_model(LLAMA, device="cuda")) as engine:
        inputs = [prompt(3 + row, row) for row in range(8)]
        batch = Session(engine, *inputs, min_new_tokens=10_000)
        batch.generate(4)
        for row, tokens in enumerate(inputs):
            alone = Session(engine, tokens, min_new_tokens=10_000)
            alone.generate(4)
            np.testing.assert_array_equal(batch.logits()[row], alone.logits()[0])
            alone.close()
