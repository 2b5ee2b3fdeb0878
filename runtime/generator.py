"""Generation without a server: onnxruntime-genai's Generator, method for method, on an engine of this process.

    with Engine.open(Path("model-folder")) as engine:
        generator = Generator(engine, max_length=200)
        generator.append_tokens(engine.tokenizer.encode("Hello"))
        while not generator.is_done():
            generator.generate_next_token()

Many generators on one engine, from many threads, share its batches. The public verbs only: each submits one operation
and waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from runtime import operations as ops
from runtime.engine import Engine
from runtime.errors import InvalidArgument
from runtime.generation_config import GenerationConfig
from runtime.operations import FutureSink, LogitsEdit, LogitsSelector, Operation, SessionSnapshot

IDLE_TIMEOUT = 365.0 * 86400
"""Seconds. A generator lives as long as the program holds it."""


class Generator:
    """A session on `engine` with `batch_size` rows. Settings are those of GenerationConfig."""

    def __init__(self, engine: Engine, *, batch_size: int = 1, **settings: object) -> None:
        config = GenerationConfig.from_mapping(settings)
        created = self._run(
            engine,
            ops.Create(
                session_id="", sink=FutureSink(), config=config, batch_size=batch_size, idle_timeout=IDLE_TIMEOUT
            ),
        )
        self._engine = engine
        self._state: SessionSnapshot = created.snapshot
        self.config: GenerationConfig = created.config
        """The settings in force, with the seed that was drawn."""

    # --- tokens ------------------------------------------------------------------------------------------------------

    def append_tokens(self, tokens: ArrayLike | Sequence[ArrayLike]) -> None:
        """Appends token ids: [n] for a single row, or one sequence per row, of any lengths."""
        rows = self._rows_of(tokens)
        self._do(ops.Append(**self._common(), inputs=rows))

    def generate_next_token(self) -> None:
        """One step for every unfinished row."""
        self._do(ops.Generate(**self._common(), steps=1))

    def generate_tokens(self, steps: int | None = None) -> ops.Generated:
        """Up to `steps` steps, until done where it is None."""
        generated: ops.Generated = self._do(ops.Generate(**self._common(), steps=steps))
        return generated

    def is_done(self) -> bool:
        """Whether every row is finished."""
        return self._state.is_done

    def token_count(self) -> int:
        """Length of the longest row."""
        return self._state.length

    def get_next_tokens(self) -> NDArray[np.int32]:
        """Tokens [rows] of the last step; the pad token for rows that were finished."""
        return np.array(self._do(ops.GetNextTokens(**self._common())).value, np.int32)

    def get_sequence(self, index: int) -> NDArray[np.int32]:
        """All tokens [length] of a row."""
        tokens: NDArray[np.int64] = self._do(ops.GetSequence(**self._common(), row=index)).value
        return tokens.astype(np.int32)

    def rewind_to(self, length: int, row: int | None = None, seed: int | None = None) -> None:
        """Cuts all rows, or one, back to `length` tokens."""
        self._do(ops.Rewind(**self._common(), length=length, row=row, seed=seed))

    def fork(self, seed: int | None = None) -> Generator:
        """Another generator with the same state."""
        operation = ops.Fork(**self._common(), new_session_id="", seed=seed)
        created = self._run(self._engine, operation)
        other = object.__new__(Generator)
        other._engine, other._state, other.config = self._engine, created.snapshot, created.config
        return other

    # --- logits and tensors ------------------------------------------------------------------------------------------

    def get_logits(self) -> NDArray[np.float32]:
        """Logits [rows, vocab_size] for the next token, computed if stale. The caller's own copy."""
        logits: NDArray[np.float32] = self._do(ops.GetLogits(**self._common(), selector=LogitsSelector())).value.values
        return logits

    def set_logits(self, logits: NDArray[np.floating[Any]]) -> None:
        """Sets the logits [rows, vocab_size] that the next step samples from."""
        edit = LogitsEdit(values=np.asarray(logits, np.float32))
        self._do(ops.SetLogits(**self._common(), edits=[edit]))

    def set_inputs(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Sets named model inputs."""
        self._do(ops.SetInputs(**self._common(), inputs=inputs))

    def set_model_input(self, name: str, value: NDArray[Any]) -> None:
        """Sets one named model input."""
        self.set_inputs({name: value})

    def get_input(self, name: str) -> NDArray[Any]:
        """A model input as of the last run."""
        value: NDArray[Any] = self._do(ops.GetInput(**self._common(), name=name)).value
        return value

    def get_output(self, name: str) -> NDArray[Any]:
        """A model output of the last position."""
        value: NDArray[Any] = self._do(ops.GetOutput(**self._common(), name=name)).value
        return value

    # --- settings ----------------------------------------------------------------------------------------------------

    def set_active_adapter(self, adapter_name: str, recompute: bool = False) -> None:
        """Switches to an adapter of the engine, "" for the base model."""
        self._do(ops.SetAdapter(**self._common(), adapter=adapter_name, recompute=recompute))

    def set_runtime_option(self, key: str, value: str) -> None:
        """Sets an option of the engine for this generator."""
        self._do(ops.SetRuntimeOption(**self._common(), key=key, value=value))

    def close(self) -> None:
        """Frees the session."""
        self._run(self._engine, ops.Close(**self._common()))

    def __enter__(self) -> Generator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- private -----------------------------------------------------------------------------------------------------

    def _common(self) -> dict[str, Any]:
        return {"session_id": self._state.session_id, "sink": FutureSink()}

    def _do(self, operation: Operation) -> Any:
        result = self._run(self._engine, operation)
        self._state = result.snapshot
        return result

    @staticmethod
    def _run(engine: Engine, operation: Operation) -> Any:
        sink = operation.sink
        assert isinstance(sink, FutureSink)
        engine.submit(operation, at_once=True)
        return sink.future.result()

    def _rows_of(self, tokens: ArrayLike | Sequence[ArrayLike]) -> dict[int, NDArray[np.int64]]:
        count = len(self._state.rows)
        is_flat = all(np.ndim(part) == 0 for part in tokens)  # type: ignore[union-attr]
        rows = [tokens] if is_flat else list(tokens)  # type: ignore[arg-type]
        if len(rows) != count:
            raise InvalidArgument("tokens", f"{len(rows)} rows", f"one sequence for each of the {count} rows")
        return {row: np.asarray(part, np.int64) for row, part in enumerate(rows)}
