"""Prometheus metrics: of calls, counted here as they happen, and of engines, read from their counts at each scrape.

Names follow vLLM's where it measures the same thing, with this service's prefix. docs/operations.md lists them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from wsgiref.simple_server import WSGIServer

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    start_http_server,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from runtime import statistics
from runtime.registry import ModelRegistry
from runtime.statistics import EngineStats
from service.version import VERSION

PREFIX = "tokenloom"
MODEL = "model_name"

GAUGES: dict[str, tuple[str, Callable[[EngineStats], float]]] = {
    "num_sessions": ("Sessions that are open.", lambda stats: stats.sessions),
    "num_sessions_running": ("Sessions with an operation under way.", lambda stats: stats.running),
    "num_sessions_waiting": ("Sessions whose operation waits for slots.", lambda stats: stats.waiting),
    "num_sessions_parked": ("Sessions whose keys and values are out of their slots.", lambda stats: stats.parked),
    "kv_cache_slots": ("Slots of the cache: rows that it can hold at once.", lambda stats: stats.slots),
    "kv_cache_slots_used": ("Slots that rows have.", lambda stats: stats.slots_used),
    "kv_cache_usage_perc": ("Used slots over all slots, 0 to 1.", lambda stats: stats.slots_used / stats.slots),
    "kv_cache_host_bytes": ("Host memory of parked keys and values.", lambda stats: stats.host_cache_bytes),
}
COUNTERS: dict[str, tuple[str, Callable[[EngineStats], float]]] = {
    "prompt_tokens": ("Tokens that were appended.", lambda stats: stats.appended_tokens),
    "generation_tokens": ("Tokens that were generated.", lambda stats: stats.generated_tokens),
    "prefill_tokens": (
        "Positions computed in prefill runs, those computed again after parking included.",
        lambda stats: stats.prefill_tokens,
    ),
    "sessions_created": ("Sessions that were created or forked.", lambda stats: stats.sessions_created),
    "session_parkings": ("Times that a session's slots were taken.", lambda stats: stats.parkings),
    "prefix_cache_hits": ("Rows whose beginning was copied.", lambda stats: stats.prefix_hits),
    "prefix_cache_misses": ("Rows that were computed from their first position.", lambda stats: stats.prefix_misses),
    "prefix_cache_reused_tokens": ("Positions copied instead of computed.", lambda stats: stats.reused_tokens),
    "engine_iterations": ("Iterations of the engine.", lambda stats: stats.iterations),
    "engine_busy_seconds": ("Time of the engine's iterations.", lambda stats: stats.busy_seconds),
    "engine_model_seconds": ("Time of model runs in them.", lambda stats: stats.model_seconds),
}
HISTOGRAMS: dict[str, tuple[str, Callable[[EngineStats], statistics.Histogram]]] = {
    "request_queue_time_seconds": (
        "From an operation's submission to its first run or token.",
        lambda stats: stats.queue_time,
    ),
    "time_to_first_token_seconds": (
        "From a generate operation's submission to its first token.",
        lambda stats: stats.time_to_first_token,
    ),
    "inter_token_latency_seconds": (
        "From a session's step to the next of the same operation.",
        lambda stats: stats.inter_token_latency,
    ),
    "prefill_run_seconds": ("Time of a prefill run of the model.", lambda stats: stats.prefill_time),
    "decode_run_seconds": ("Time of a decode run of the model.", lambda stats: stats.decode_time),
    "decode_batch_size": ("Rows of a decode run of the model.", lambda stats: stats.batch_size),
}


class Metrics:
    """All metrics of one server."""

    def __init__(self, models: ModelRegistry, instance_id: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # half of all series would be the times at which the others began
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Calls that ended, by full method and status code.", "method", "code")
        self.in_progress = Gauge(
            f"{PREFIX}_requests_in_progress", "Calls that are being served.", ["method"], registry=self.registry
        )
        self.latency = Histogram(
            f"{PREFIX}_request_duration_seconds",
            "Time of calls, streams to their end.",
            ["method"],
            buckets=statistics.WAITS,
            registry=self.registry,
        )
        self.errors = self._counter(
            "errors", "Errors by reason: of calls, and of operations in streams that go on.", "reason"
        )
        info = Gauge(f"{PREFIX}_info", "1.", ["version", "instance_id"], registry=self.registry)
        info.labels(VERSION, instance_id).set(1)
        self.registry.register(_EngineCollector(models))
        ProcessCollector(registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", text, labels, registry=self.registry)


class _EngineCollector(Collector):
    """Asks every engine, in the thread of the scrape."""

    def __init__(self, models: ModelRegistry) -> None:
        self._models = models

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        stats = [(engine.model.name, engine.stats()) for engine in self._models.engines()]
        for name, (text, value) in GAUGES.items():
            gauge = GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=[MODEL])
            for model, each in stats:
                gauge.add_metric([model], value(each))
            yield gauge
        for name, (text, value) in COUNTERS.items():
            counter = CounterMetricFamily(f"{PREFIX}_{name}", text, labels=[MODEL])
            for model, each in stats:
                counter.add_metric([model], value(each))
            yield counter
        for name, (text, read) in HISTOGRAMS.items():
            histogram = HistogramMetricFamily(f"{PREFIX}_{name}", text, labels=[MODEL])
            for model, each in stats:
                _add(histogram, [model], read(each))
            yield histogram
        yield from _by_kind(stats)


def _by_kind(stats: list[tuple[str, EngineStats]]) -> Iterator[Metric]:
    """Those with a label beside the model."""
    ended = CounterMetricFamily(f"{PREFIX}_sessions_ended", "Sessions that ended, by reason.", labels=[MODEL, "reason"])
    operations = HistogramMetricFamily(
        f"{PREFIX}_operation_duration_seconds",
        "From an operation's submission to its result or error, in calls and in streams.",
        labels=[MODEL, "operation"],
    )
    for model, each in stats:
        for reason, count in each.sessions_ended.items():
            ended.add_metric([model, reason], count)
        for operation, histogram in each.operation_time.items():
            _add(operations, [model, operation], histogram)
    yield ended
    yield operations


def _add(family: HistogramMetricFamily, labels: list[str], histogram: statistics.Histogram) -> None:
    buckets, count = [], 0
    for bound, more in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        count += more
        buckets.append(("+Inf" if bound == float("inf") else str(float(bound)), float(count)))
    family.add_metric(labels, buckets, histogram.total)


class MetricsEndpoint:
    """Answers scrapes over HTTP on a port of its own, in a thread of its own."""

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        """Listens. Raises OSError where it cannot. port: 0 for any free one."""
        self._server: WSGIServer
        self._thread: threading.Thread
        try:
            self._server, self._thread = start_http_server(port, host.strip("[]"), metrics.registry)
        except OSError as error:
            raise OSError(f"cannot listen on {host}:{port} for metrics: {error}") from error
        self.port = self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
