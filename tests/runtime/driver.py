"""Sessions driven one operation at a time, over the same `Engine.submit` that everyone uses."""

from __future__ import annotations

import dataclasses
import queue
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime import Engine, EngineOptions, GenerationConfig, Model, ModelOptions
from runtime import operations as ops
from runtime.errors import TokenloomError
from runtime.operations import FinishReason, FutureSink, LogitsEdit, LogitsSelector, Operation, SessionSnapshot

MODELS = Path(__file__).parents[1] / "data" / "models"
LLAMA = "tiny-llama"
LORA = "tiny-llama-lora"
GPT2 = "tiny-gpt2"
COMBINED = "genai-tests/tiny-random-gpt2-fp32"
"""One past tensor per layer, int32 inputs."""
EMBEDDED = "genai-tests/multimodal-decoder-with-input-ids"
"""Takes embeddings beside the tokens."""
ALL_CACHES = [LLAMA, GPT2, COMBINED]
"""A shared buffer, and two that concatenate."""
ADAPTERS = MODELS / LORA / "adapters"

TIMEOUT = 30.0
"""Seconds after which an operation that should end has failed its test."""

_SETTINGS = {field.name for field in dataclasses.fields(GenerationConfig)}


def load_model(name: str, **options: Any) -> Model:
    return Model.load(MODELS / name, options=ModelOptions(**{"threads": 1, **options}))


def copy_of(name: str, folder: Path) -> Path:
    """A copy of a model's files, to be changed."""
    for path in (MODELS / name).iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    return folder


@contextmanager
def running(model: Model, **options: Any) -> Iterator[Engine]:
    """A started engine. Several on one model may follow each other: each has a cache of its own."""
    engine = Engine(model, EngineOptions(**options))
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()


class Pending:
    """An operation that was submitted: what comes of it, and what may be said to it meanwhile."""

    def __init__(self, engine: Engine, kind: type[Operation], *, at_once: bool = False, **fields: Any) -> None:
        self._engine = engine
        self._steps: queue.SimpleQueue[ops.StepResult] = queue.SimpleQueue()
        self._hooks: queue.SimpleQueue[ops.SelectedLogits] = queue.SimpleQueue()
        sink = FutureSink(self._steps.put, self._hooks.put)
        self.future = sink.future
        self.operation = kind(**{"session_id": "", "sink": sink, **fields})
        engine.submit(self.operation, at_once=at_once)

    @property
    def done(self) -> bool:
        return self.future.done()

    def result(self) -> Any:
        return self.future.result(TIMEOUT)

    def error(self) -> TokenloomError:
        """The error it ends with. Anything but an error raised on purpose fails the test."""
        error = self.future.exception(TIMEOUT)
        assert isinstance(error, TokenloomError), f"{error!r}, result {self.future}"
        return error

    def next_step(self) -> ops.StepResult:
        """Waits for one more step to be told."""
        return self._steps.get(timeout=TIMEOUT)

    def steps_told(self) -> int:
        return self._steps.qsize()

    def next_hook(self) -> ops.SelectedLogits:
        return self._hooks.get(timeout=TIMEOUT)

    def cancel(self) -> None:
        self._engine.cancel(self.operation)

    def acknowledge(self, events: int) -> None:
        self._engine.acknowledge(self.operation, events)

    def answer(self, edits: Sequence[LogitsEdit] = (), stop_rows: Sequence[int] = ()) -> None:
        self._engine.answer_hook(self.operation, edits, stop_rows)


class Session:
    """A session. Every method submits one operation and waits for it; errors are raised.

    What needs no run is carried out at once where it can be, as for everyone who waits; `start` always queues.
    """

    def __init__(self, engine: Engine, *rows: Sequence[int], **fields: Any) -> None:
        """rows: what to append first. fields: those of Create, and settings by their names."""
        settings = {name: fields.pop(name) for name in list(fields) if name in _SETTINGS}
        fields.setdefault("batch_size", max(1, len(rows)))
        create = {"config": GenerationConfig(**settings), "inputs": tokens_of(rows), **fields}
        self._opened(engine, Pending(engine, ops.Create, **create).result())

    def _opened(self, engine: Engine, created: ops.SessionCreated) -> None:
        self.engine = engine
        self.id = created.snapshot.session_id
        self.config = created.config
        self.state: SessionSnapshot = created.snapshot

    def start(self, kind: type[Operation], **fields: Any) -> Pending:
        """Submits an operation without waiting for it."""
        return Pending(self.engine, kind, session_id=self.id, **fields)

    def do(self, kind: type[Operation], **fields: Any) -> Any:
        result = self.start(kind, at_once=True, **fields).result()
        if result is not None:
            self.state = result.snapshot
        return result

    # --- tokens ------------------------------------------------------------------------------------------------------

    def append(self, *rows: Sequence[int] | Mapping[int, Sequence[int]], **fields: Any) -> Session:
        """Tokens for row 0, 1, ..., or one mapping of rows to tokens."""
        self.do(ops.Append, inputs=tokens_of(rows), **fields)
        return self

    def generate(self, steps: int | None = 1, **fields: Any) -> ops.Generated:
        return self.do(ops.Generate, steps=steps, **fields)

    def tokens(self, steps: int | None = 1, row: int = 0, **fields: Any) -> list[int]:
        """Generates; what one row got."""
        outputs = {output.row: output.token_ids for output in self.generate(steps, **fields).rows}
        return outputs.get(row, [])

    def sequence(self, row: int = 0, start: int = 0) -> list[int]:
        return self.do(ops.GetSequence, row=row, start=start).value.tolist()

    def sequences(self) -> list[list[int]]:
        return [self.sequence(row) for row in range(len(self.state.rows))]

    def rewind(self, length: int, **fields: Any) -> Session:
        self.do(ops.Rewind, length=length, **fields)
        return self

    def fork(self, **fields: Any) -> Session:
        settings = {name: fields.pop(name) for name in list(fields) if name in _SETTINGS - {"seed"}}
        created = self.start(
            ops.Fork, **{"new_session_id": "", "config": GenerationConfig(**settings), **fields}
        ).result()
        other = object.__new__(Session)
        other._opened(self.engine, created)
        return other

    # --- logits ------------------------------------------------------------------------------------------------------

    def logits(self, **selector: Any) -> np.ndarray:
        """[rows, vocab_size], or what the selector asks for."""
        return self.do(ops.GetLogits, selector=LogitsSelector(**selector)).value.values

    def edit(self, *edits: LogitsEdit) -> Session:
        self.do(ops.SetLogits, edits=edits)
        return self

    def force(self, token: int) -> Session:
        """Makes one token the only one that can come next, in every row."""
        allowed = np.zeros(self.engine.model.vocab_size, np.bool_)
        allowed[token] = True
        return self.edit(LogitsEdit(allowed=allowed))

    # --- the rest ----------------------------------------------------------------------------------------------------

    def set_adapter(self, adapter: str, recompute: bool = False) -> Session:
        self.do(ops.SetAdapter, adapter=adapter, recompute=recompute)
        return self

    def close(self) -> None:
        self.do(ops.Close)

    @property
    def length(self) -> int:
        return self.refresh().length

    def refresh(self) -> SessionSnapshot:
        """The state, through the queue: after everything that was asked before."""
        return self.do(ops.GetState).snapshot

    def finish_reasons(self) -> list[FinishReason]:
        return [row.finish_reason for row in self.refresh().rows]


def tokens_of(rows: Sequence[Any]) -> dict[int, np.ndarray]:
    by_row = rows[0] if len(rows) == 1 and isinstance(rows[0], Mapping) else dict(enumerate(rows))
    return {row: np.asarray(tokens, np.int64) for row, tokens in by_row.items()}


def prompt(length: int, seed: int = 0, vocab_size: int = 512) -> list[int]:
    """Seeded tokens, none of them special."""
    return np.random.default_rng([seed, length]).integers(10, vocab_size, length).tolist()


@contextmanager
def raises(kind: type[TokenloomError], **fields: object) -> Iterator[None]:
    """The block must raise this error, with these attributes (reason, field)."""
    with pytest.raises(kind) as caught:
        yield
    assert {name: getattr(caught.value, name) for name in fields} == fields
