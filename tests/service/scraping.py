"""A server's metrics, as Prometheus reads them."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families
from serving import TIMEOUT, Served


class Scrape:
    """The samples of one scrape."""

    def __init__(self, served: Served) -> None:
        assert served.server.metrics_endpoint is not None
        url = f"http://127.0.0.1:{served.server.metrics_endpoint.port}/metrics"
        with urllib.request.urlopen(url, timeout=TIMEOUT) as reply:
            text = reply.read().decode()
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._samples = [sample for family in self.families.values() for sample in family.samples]

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of the samples of that name (the prefix left out) that have these labels; 0 where none has."""
        return sum(
            sample.value
            for sample in self._samples
            if sample.name == f"tokenloom_{name}" and labels.items() <= sample.labels.items()
        )
