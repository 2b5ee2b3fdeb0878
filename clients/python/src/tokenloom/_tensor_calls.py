"""The operations of a session on logits and named tensors; methods, as those of `tokenloom._session_calls`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tokenloom import _convert as convert
from tokenloom import edit, types
from tokenloom._call import Call
from tokenloom._session_calls import nothing
from tokenloom._tensors import to_numpy, to_tensor
from tokenloom.v1 import generator_pb2 as pb
from tokenloom.v1 import types_pb2


@overload
def get_logits(*, dtype: Any = ...) -> Call[types.LogitsArray]: ...
@overload
def get_logits(*, top_k: int, dtype: Any = ...) -> Call[types.SelectedLogits]: ...
@overload
def get_logits(*, token_ids: types.Tokens, dtype: Any = ...) -> Call[types.SelectedLogits]: ...
def get_logits(
    *, top_k: int | None = None, token_ids: types.Tokens | None = None, dtype: Any = np.float32
) -> Call[Any]:
    """Logits for the next token, computed if stale; as last set where `set_logits` was called. Changes nothing.

    Returns float [rows, vocab_size], of dtype float32 or float16, which may be written to. With top_k (the k largest
    of each row, falling) or token_ids (these, in this order): SelectedLogits [rows, k].

    Raises FailedPrecondition (SESSION_EMPTY), InvalidArgument (top_k or a token outside the vocabulary).
    """
    request = pb.GetLogitsRequest(selector=convert.selector(top_k, token_ids, dtype))
    return Call(request, lambda reply: convert.logits(reply.logits))


def set_logits(
    logits: NDArray[Any] | edit.LogitsEdit | Sequence[edit.LogitsEdit], *, expected_length: int | None = None
) -> Call[None]:
    """Change the logits the next step samples from; the model's processors and sampling follow as on its own.

    logits: float [rows, vocab_size], or [vocab_size] for all rows; or edits from `tokenloom.edit`, made in order.
    -inf is legal. All edits are made or none.

    Raises InvalidArgument (shape, NaN, +inf, an unknown token, a row without a finite logit left), FailedPrecondition
    (SESSION_EMPTY).
    """
    if isinstance(logits, edit.LogitsEdit):
        edits: Sequence[edit.LogitsEdit] = [logits]
    elif isinstance(logits, np.ndarray):
        edits = [edit.dense(logits)]
    else:
        edits = logits
    return Call(convert.build(pb.SetLogitsRequest, expected_length=expected_length, edits=edits), nothing)


def set_inputs(inputs: Mapping[str, NDArray[Any]], *, expected_length: int | None = None) -> Call[None]:
    """Set named model inputs, for models with inputs beyond tokens. All or none are set.

    Raises InvalidArgument (shape or dtype against the model's signature), NotFound (lists the names there are),
    FailedPrecondition (INPUT_MANAGED: the engine keeps this one itself).
    """
    tensors = [_named(name, value) for name, value in inputs.items()]
    return Call(convert.build(pb.SetInputsRequest, expected_length=expected_length, inputs=tensors), nothing)


def set_model_input(name: str, value: NDArray[Any], *, expected_length: int | None = None) -> Call[None]:
    """Set one named model input. As `set_inputs`."""
    request = convert.build(pb.SetModelInputRequest, expected_length=expected_length, input=_named(name, value))
    return Call(request, nothing)


def get_input(name: str) -> Call[NDArray[Any]]:
    """A model input as it was in the session's last run, or as set for the next. Raises NotFound listing the names."""
    return Call(convert.build(pb.GetInputRequest, name=name), lambda reply: to_numpy(reply.input.tensor))


def get_output(name: str) -> Call[NDArray[Any]]:
    """A model output at the session's last position, computed if stale; the first dimension is rows.

    Raises NotFound listing the names there are, FailedPrecondition (SESSION_EMPTY).
    """
    return Call(convert.build(pb.GetOutputRequest, name=name), lambda reply: to_numpy(reply.output.tensor))


def _named(name: str, value: NDArray[Any]) -> types_pb2.NamedTensor:
    return convert.build(types_pb2.NamedTensor, name=name, tensor=to_tensor(np.asarray(value), name))
