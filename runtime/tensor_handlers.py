"""Named model inputs and outputs of a session: SetInputs, GetInput, GetOutput.

Inputs the engine keeps itself (tokens, mask, positions, cache) can be read and not set; a mask may be given where it
says what is so anyway. Other inputs of the graph belong to the session: rows of such a session run one at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.errors import FailedPrecondition, InvalidArgument, NotFound
from runtime.handlers import check_not_empty
from runtime.kv_cache import KVCache, RunRow
from runtime.model import Model, TensorInfo
from runtime.operations import GetInput, GetOutput, SetInputs, Value
from runtime.sequence import Sequence
from runtime.session import Handler, NeedLogits, NeedSlots, Session


def set_inputs(session: Session, operation: SetInputs, model: Model) -> Handler:
    if not operation.inputs:
        raise InvalidArgument("inputs", [], "at least one tensor")
    for name, value in operation.inputs.items():
        if name == model.config.names.attention_mask:
            check_mask(session, value, model)
        elif name in model.managed_inputs:
            raise FailedPrecondition("INPUT_MANAGED", f"input {name!r} is kept by the engine; append or rewind instead")
        elif name not in model.extra_inputs:
            raise NotFound("input", name, [*model.extra_inputs, *sorted(model.managed_inputs & set(model.inputs))])
        else:
            check_tensor(session, model.extra_inputs[name], value, model)
    given = {name: value for name, value in operation.inputs.items() if name in model.extra_inputs}
    if given:
        session.extra_inputs.update(given)
        session.exact_recompute = False
        for row in session.rows:
            row.forget_logits()
        session.extra_inputs_start = {row.row: row.computed for row in session.rows}
    return Value(session.snapshot(), None)
    yield


def check_mask(session: Session, mask: NDArray[Any], model: Model) -> None:
    """A mask is right where it has ones for each row's tokens and zeros after them."""
    length = session.length
    lengths = np.array([row.length for row in session.rows])
    expected = np.arange(length)[None, :] < lengths[:, None]
    if mask.dtype.kind not in "bi" or mask.shape != expected.shape or not np.array_equal(mask, expected):
        raise InvalidArgument(
            "attention_mask",
            f"{mask.dtype} {list(mask.shape)}",
            f"integers [{len(lengths)}, {length}] with ones for the tokens of each row (lengths {lengths.tolist()}) "
            "and zeros after them; drop padding before appending",
        )


def check_tensor(session: Session, info: TensorInfo, value: NDArray[Any], model: Model) -> None:
    """Type and fixed extents as in the signature; the batch dimension is the session's rows."""
    if value.dtype != info.dtype:
        raise InvalidArgument(info.name, str(value.dtype), f"{info.dtype} elements")
    expected = [len(session.rows) if extent == batch_dimension(model) else extent for extent in info.shape]
    fits = value.ndim == len(expected) and all(
        isinstance(extent, str) or extent == actual for extent, actual in zip(expected, value.shape, strict=True)
    )
    if not fits:
        raise InvalidArgument(info.name, list(value.shape), f"shape {expected}")


def batch_dimension(model: Model) -> int | str:
    return model.inputs[model.config.names.input_ids].shape[0]


def inputs_of_run(session: Session, row: Sequence, start: int, count: int, model: Model) -> dict[str, NDArray[Any]]:
    """What the session's own inputs are in a run of one row. Raises FailedPrecondition where one is missing.

    An input with the dimension of the tokens covers those from where it was set on.
    """
    values = {}
    for name, info in model.extra_inputs.items():
        value = session.extra_inputs.get(name)
        if value is None:
            raise FailedPrecondition(
                "INPUT_MISSING", f"the model needs input {name!r}; set it before a step", input=name
            )
        values[name] = part_of_run(value, info, row.row, start - session.extra_inputs_start[row.row], count, model)
    return values


def part_of_run(value: NDArray[Any], info: TensorInfo, row: int, first: int, count: int, model: Model) -> NDArray[Any]:
    """The part of an input for positions [first, first + count) of a row, counted from where it was set."""
    batch, positions = model.inputs[model.config.names.input_ids].shape
    spans = {batch: slice(row, row + 1), positions: slice(first, first + count)}
    part = value[tuple(spans.get(extent, slice(None)) for extent in info.shape)]
    if positions in info.shape and (first < 0 or part.shape[info.shape.index(positions)] != count):
        raise FailedPrecondition(
            "INPUT_MISSING", f"input {info.name!r} does not cover the {count} next positions", input=info.name
        )
    return part


def get_input(session: Session, operation: GetInput, model: Model, cache: KVCache) -> Handler:
    name, names = operation.name, model.config.names
    if name in session.extra_inputs:
        return Value(session.snapshot(), session.extra_inputs[name].copy())
    if name not in model.inputs:
        raise NotFound("input", name, model.inputs)
    if name in model.extra_inputs:
        raise FailedPrecondition("INPUT_MISSING", f"input {name!r} was not set", input=name)
    if name in cache.past_names:
        yield NeedSlots()
        parts = [cache.read_past(row.slot, name, row.computed) for row in session.rows if row.slot is not None]
        return Value(session.snapshot(), join_rows(name, parts, axis=1 if names.combined else 0))
    if not all(len(row.last_run) for row in session.rows):
        raise FailedPrecondition("NOTHING_RUN", "no run was made yet")
    parts = [model.run_inputs(row.last_run[None, :], [row.computed - len(row.last_run)])[name] for row in session.rows]
    return Value(session.snapshot(), join_rows(name, parts))


def get_output(session: Session, operation: GetOutput, model: Model, cache: KVCache) -> Handler:
    info = model.output_info(operation.name)
    check_not_empty(session.rows)
    yield NeedLogits(session.rows)
    if info.name == model.config.names.logits:
        logits = np.stack([row.logits for row in session.rows if row.logits is not None])
        return Value(session.snapshot(), logits)
    yield NeedSlots()
    slots = [row.slot for row in session.rows if row.slot is not None]
    if info.name in cache.present_names:
        parts = [cache.read_past(slot, info.name, row.computed) for slot, row in zip(slots, session.rows, strict=True)]
        return Value(session.snapshot(), join_rows(info.name, parts, axis=1 if model.config.names.combined else 0))
    parts = []
    positions = model.inputs[model.config.names.input_ids].shape[1:2]
    for slot, row in zip(slots, session.rows, strict=True):
        start, count = row.replay_run()
        extra = inputs_of_run(session, row, start, count, model)
        run = RunRow(slot, start, row.tokens[start:].copy())
        value = cache.run_row(run, session.adapter, extra, [info.name]).outputs[info.name]
        # A replay may take two positions; only the last is asked about.
        parts.append(value[:, -1:] if info.shape[1:2] == positions else value)
    return Value(session.snapshot(), join_rows(info.name, parts))


def join_rows(name: str, parts: list[NDArray[Any]], axis: int = 0) -> NDArray[Any]:
    """One tensor of all rows. Raises FailedPrecondition where their shapes differ: a tensor is not ragged."""
    if len({part.shape for part in parts}) > 1:
        shapes = [list(part.shape) for part in parts]
        raise FailedPrecondition("ROWS_DIFFER", f"{name!r} has another shape in each row: {shapes}")
    return np.concatenate(parts, axis=axis)
