"""LoRA adapters of one model: named sets of weights for the graph's optional inputs.

The base model is a run that binds none of them (their defaults are empty), so an adapter is simply part of what is
bound. Which sessions use an adapter is the engine's to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import onnxruntime

from runtime.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound

if TYPE_CHECKING:
    from runtime.model import TensorInfo

MAX_NAME_LENGTH = 63


@dataclass(frozen=True, slots=True)
class AdapterInfo:
    """A loaded adapter. `sessions` have it active."""

    name: str
    path: str
    size_bytes: int
    sessions: int = 0


class AdapterSet:
    """The adapters that are loaded for one model."""

    def __init__(self, optional_inputs: Mapping[str, TensorInfo]) -> None:
        self._optional_inputs = optional_inputs
        self._parameters: dict[str, Mapping[str, onnxruntime.OrtValue]] = {}
        self._infos: dict[str, AdapterInfo] = {}

    def load(self, name: str, path: Path) -> AdapterInfo:
        """Reads an *.onnx_adapter file.

        Raises AlreadyExists, NotFound (no such file), InvalidArgument (name, or a file that does not fit the model,
        naming the tensor), FailedPrecondition (the model takes no adapters).
        """
        if not 1 <= len(name) <= MAX_NAME_LENGTH or not all(part.isalnum() or part in "._-" for part in name):
            raise InvalidArgument("adapter", name, f"1 to {MAX_NAME_LENGTH} letters, digits, '.', '_' or '-'")
        if name in self._parameters:
            raise AlreadyExists("adapter", name)
        if not self._optional_inputs:
            raise FailedPrecondition("ADAPTERS_UNSUPPORTED", "this model's graph has no adapter inputs")
        if not path.is_file():
            raise NotFound("adapter", path.name, message=f"adapter file {path.name!r} does not exist")
        try:
            parameters = onnxruntime.AdapterFormat.read_adapter(str(path)).get_parameters()
        except Exception as error:  # ONNX Runtime raises plain Exceptions for malformed files
            raise InvalidArgument("path", path.name, f"an *.onnx_adapter file ({error})") from error
        self._check_fit(parameters)
        size = sum(value.tensor_size_in_bytes() for value in parameters.values())
        self._parameters[name] = dict(parameters)
        self._infos[name] = AdapterInfo(name, path.name, size)
        return self._infos[name]

    def unload(self, name: str) -> None:
        """Forgets an adapter. Raises NotFound."""
        self.parameters(name)
        del self._parameters[name], self._infos[name]

    def parameters(self, name: str) -> Mapping[str, onnxruntime.OrtValue]:
        """Input name -> weights. Raises NotFound listing the loaded ones."""
        if name not in self._parameters:
            raise NotFound("adapter", name, self._parameters)
        return self._parameters[name]

    def list(self) -> list[AdapterInfo]:
        """By name."""
        return [self._infos[name] for name in sorted(self._infos)]

    def _check_fit(self, parameters: Mapping[str, onnxruntime.OrtValue]) -> None:
        for name, value in parameters.items():
            info = self._optional_inputs.get(name)
            if info is None:
                raise InvalidArgument(
                    "path", name, f"tensors of this model: {', '.join(sorted(self._optional_inputs))}"
                )
            shape = value.shape()
            fits = len(shape) == len(info.shape) and all(
                isinstance(expected, str) or expected == actual
                for expected, actual in zip(info.shape, shape, strict=True)
            )
            if not fits or value.data_type() != info.type:
                raise InvalidArgument(
                    "path", f"{name} {value.data_type()} {shape}", f"{info.type} {list(info.shape)} for that tensor"
                )
