"""How a command has its process observed: by metrics, by traces, by both, or not at all.

Prometheus' client library and OpenTelemetry are loaded only where they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from perdure.observe.exposition import MetricsExposition
    from perdure.observe.metrics import ProcessMetrics
    from perdure.runtime.observer import Observer
    from perdure.runtime.server import ServerMember
    from perdure.stores.protocol import Store

    Member = Callable[[Store], ServerMember]


class ProcessObservation(NamedTuple):
    """What observes a process: the observer to tell, its metrics, and what makes their listeners; nothing for what is switched off."""

    observer: Observer | None = None
    metrics: ProcessMetrics | None = None
    listeners: tuple[Member, ...] = ()

    def exposition(self, store: Store) -> MetricsExposition | None:
        """Returns the metrics as the API of this process shows them, if there are any."""
        if self.metrics is None:
            return None
        from perdure.observe.exposition import MetricsExposition

        return MetricsExposition(self.metrics, store)


UNOBSERVED = ProcessObservation()


def has_prometheus() -> bool:
    """Whether the client library of Prometheus is installed."""
    return find_spec("prometheus_client") is not None


def observation_of(given: Mapping[str, Any], *, shows_metrics: bool = False) -> ProcessObservation:
    """Returns the observation that the options `metrics_listen` and `otel` describe. A process that `shows_metrics` in its API keeps them in any case.

    Raises:
        BadValue: the address is invalid.
        MissingExtra: the library for what is asked for is not installed.
    """
    address = given.get("metrics_listen")
    observers: list[Observer] = []
    metrics: ProcessMetrics | None = None
    listeners: tuple[Member, ...] = ()
    if address or shows_metrics:
        from perdure.observe.exposition import expect_prometheus
        from perdure.observe.metrics import ProcessMetrics

        expect_prometheus()
        metrics = ProcessMetrics()
        observers.append(metrics)
        if address:
            listeners = (_listener(metrics, address),)
    if given.get("otel"):
        from perdure.observe.trace_setup import set_up_traces

        observers.append(set_up_traces())
    return ProcessObservation(_together(observers), metrics, listeners)


def _listener(metrics: ProcessMetrics, address: str) -> Member:
    from perdure.observe.exposition import MetricsExposition
    from perdure.observe.metrics_listener import MetricsListener, metrics_address

    place = metrics_address(address)
    return lambda store: MetricsListener(MetricsExposition(metrics, store), place)


def _together(observers: list[Observer]) -> Observer | None:
    from perdure.observe.several_observers import SeveralObservers

    return SeveralObservers(observers) if len(observers) > 1 else next(iter(observers), None)
