"""Runs what the scheduler planned. A run that fails fails once: its rows are run again one by one."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.errors import EngineError, FailedPrecondition, TokenloomError
from runtime.kv_cache import KVCache, RunRow
from runtime.model import Model
from runtime.operations import FloatArray
from runtime.scheduler import Plan, RowNeed
from runtime.sequence import Sequence as Row
from runtime.session import Session
from runtime.statistics import EngineStats
from runtime.tensor_handlers import inputs_of_run

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RowRun:
    """A row and the run it needs."""

    session: Session
    row: Row
    start: int
    count: int

    @property
    def run_row(self) -> RunRow:
        assert self.row.slot is not None
        return RunRow(self.row.slot, self.start, self.row.tokens[self.start : self.start + self.count].copy())


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a row's run: logits, valid until the next iteration, or the error. `seconds`: of its whole batch."""

    run: RowRun
    logits: FloatArray | None
    error: TokenloomError | None
    seconds: float
    batch: int = 1


class Executor:
    """Turns plans into runs of the cache."""

    def __init__(self, model: Model, cache: KVCache, stats: EngineStats) -> None:
        self._model = model
        self._cache = cache
        self._stats = stats

    def execute(self, plan: Plan, runs: Sequence[RowRun]) -> list[Outcome]:
        """runs: those the plan's keys index."""
        outcomes = []
        for batch in plan.decodes:
            outcomes += self._decode([runs[need.key] for need in batch], batch[0].adapter)
        for need in plan.prefills:
            outcomes.append(self._alone(runs[need.key], need))
        return outcomes

    def _decode(self, batch: list[RowRun], adapter: str) -> list[Outcome]:
        started = time.perf_counter()
        try:
            logits = self._cache.decode([run.run_row for run in batch], adapter)
        except Exception:  # whatever ONNX Runtime raises for a failed run; the traceback is in the log
            logger.exception("a decode run of %d rows failed", len(batch))
            if len(batch) > 1:
                return [outcome for run in batch for outcome in self._decode([run], adapter)]
            return [Outcome(batch[0], None, _run_failed(), time.perf_counter() - started)]
        seconds = time.perf_counter() - started
        self._stats.decode_time.observe(seconds)
        self._stats.batch_size.observe(len(batch))
        return [Outcome(run, row, None, seconds, len(batch)) for run, row in zip(batch, logits, strict=True)]

    def _alone(self, run: RowRun, need: RowNeed) -> Outcome:
        started = time.perf_counter()
        try:
            extra = inputs_of_run(run.session, run.row, run.start, run.count, self._model)
            logits = self._cache.run_row(run.run_row, need.adapter, extra).logits
        except FailedPrecondition as error:
            return Outcome(run, None, error, 0.0)
        except Exception:  # as above
            logger.exception("a prefill run of %d tokens failed", run.count)
            return Outcome(run, None, _run_failed(), time.perf_counter() - started)
        seconds = time.perf_counter() - started
        self._stats.prefill_time.observe(seconds)
        return Outcome(run, logits, None, seconds)


def _run_failed() -> EngineError:
    return EngineError("the model run failed; the session is at a token boundary")
