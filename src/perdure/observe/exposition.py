"""Shows metrics in the text formats of Prometheus and OpenMetrics, by their client library (extra `metrics`)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from perdure.core.errors import MissingExtra
from perdure.observe import metric_table as m
from perdure.observe.metrics import Distribution, ProcessMetrics
from perdure.observe.store_gauges import StoreGauges
from perdure.stores.protocol import Store

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def expect_prometheus() -> None:
    """Checks that the client library of Prometheus is installed.

    Raises:
        MissingExtra: it is not.
    """
    try:
        _ = import_module("prometheus_client")
    except ImportError as missing:
        raise MissingExtra("metrics", missing.name or "prometheus_client", "metrics") from missing


Counts = dict[m.Metric, dict[tuple[str, ...], float]]
Distributions = dict[m.Metric, dict[tuple[str, ...], Distribution]]


class MetricsExposition:
    """The metrics of a process, and of its database, in a registry of their own.

    Raises:
        MissingExtra: the client library of Prometheus is not installed.
    """

    def __init__(self, metrics: ProcessMetrics, store: Store) -> None:
        expect_prometheus()
        from prometheus_client import CollectorRegistry, ProcessCollector

        self._metrics, self._gauges = metrics, StoreGauges(store)
        self.registry: CollectorRegistry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        _ = ProcessCollector(registry=self.registry)

    async def refresh(self) -> None:
        """Reads the gauges of the database, unless that was done a moment ago."""
        await self._gauges.refresh()

    async def text(self, accept: str) -> tuple[bytes, str]:
        """Returns the metrics in a form that the client accepts, and its media type."""
        from prometheus_client.exposition import choose_encoder

        await self.refresh()
        encoder, media_type = choose_encoder(accept)
        return await asyncio.to_thread(encoder, self.registry), media_type

    def collect(self) -> Iterator[Any]:
        """Yields the metrics as families of the client library. It may run in any thread."""
        yield from self._families(*self._numbers())

    def describe(self) -> Iterator[Any]:
        """Yields the families without numbers, by which a scrape may ask for some of them."""
        yield from self._families({}, {})

    def _families(self, counts: Counts, distributions: Distributions) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily

        families = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
        for metric in m.METRICS:
            if metric.type == "histogram":
                family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
                for labels, found in distributions.get(metric, {}).items():
                    family.add_metric(labels, _buckets(metric, found), found.sum)
            else:
                family = families[metric.type](metric.name, metric.help, labels=metric.labels)
                for labels, value in counts.get(metric, {}).items():
                    family.add_metric(labels, value)
            yield family
        yield InfoMetricFamily("perdure_build", "The version of Perdure.", value={"version": _version()})

    def _numbers(self) -> tuple[Counts, Distributions]:
        """Returns copies of all numbers; those of steps are kept together, by step."""
        counts = {metric: dict(known) for metric, known in (*self._metrics.counts.items(), *self._gauges.gauges.items())}
        distributions = {metric: dict(known) for metric, known in self._metrics.distributions.items()}
        for (workflow, step), numbers in list(self._metrics.steps.items()):
            counts[m.TOKENS_CONSUMED][workflow, step] = numbers.begun
            counts[m.TOKENS_EMITTED][workflow, step] = numbers.succeeded
            counts[m.COUNTER_VALUE][workflow,] = counts[m.COUNTER_VALUE].get((workflow,), 0) + numbers.in_flight
            for outcome, found in list(numbers.attempts.items()):
                distributions[m.ATTEMPT_SECONDS][workflow, step, outcome] = found
        return counts, distributions


def _buckets(metric: m.Metric, found: Distribution) -> list[tuple[str, float]]:
    bounds = [*map(str, metric.buckets), "+Inf"]
    return list(zip(bounds, accumulate(found.counts), strict=True))


def _version() -> str:
    try:
        return version("perdure")
    except PackageNotFoundError:
        return "unknown"
