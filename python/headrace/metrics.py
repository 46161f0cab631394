"""Measurements of all loaders of this process, for Prometheus and OpenTelemetry.

Headrace needs neither package: ``register`` needs prometheus_client, and ``instrument`` a meter of
OpenTelemetry. Nothing runs between two scrapes; the engine adds up its counters when it is asked.
``FIELDS`` describes each field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from headrace._engine import living
from headrace._engine.measured import FIELDS


def collect() -> dict[int, dict[str, Any]]:
    """The ``stats()`` of every open loader, by the loader's number in this process."""
    return living.stats()


class Collector:
    """Gives prometheus_client one metric for each field of ``stats()``, with the label "loader".

    A name is ``headrace_images_per_second{loader="0"}``. Counters end in ``_total``, and times in
    ``_seconds``.
    """

    def collect(self) -> Iterable[Any]:
        """prometheus_client calls this for each scrape."""
        return self._families(collect())

    def describe(self) -> Iterable[Any]:
        """prometheus_client asks for this once, so that no name is registered twice."""
        return self._families({})

    def _families(self, found: dict[int, dict[str, Any]]) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for field, (kind, says) in FIELDS.items():
            family = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
            metric = family(name(field), says, labels=["loader"])
            for number, stats in found.items():
                metric.add_metric([str(number)], float(stats[field]))
            yield metric


def name(field: str) -> str:
    """The name of a field's metric in Prometheus."""
    return "headrace_" + (field.removesuffix("_s") + "_seconds" if field.endswith("_s") else field)


def register(registry: Any = None) -> Collector:
    """Adds all loaders to a registry of prometheus_client; None: to its default one.

    Raises:
        ModuleNotFoundError: prometheus_client is not installed.
        ValueError: by prometheus_client: they are in this registry already.
    """
    from prometheus_client import REGISTRY

    made = Collector()
    (REGISTRY if registry is None else registry).register(made)
    return made


def instrument(meter: Any) -> None:
    """Makes an observable gauge of OpenTelemetry for each field, with the attribute "loader".

    Args:
        meter: an ``opentelemetry.metrics.Meter``.
    """
    from opentelemetry.metrics import Observation

    def observing(field: str) -> Callable[[Any], Iterable[Any]]:
        def observe(options: Any) -> Iterable[Any]:
            for number, stats in collect().items():
                yield Observation(float(stats[field]), {"loader": str(number)})

        return observe

    for field, (_, says) in FIELDS.items():
        meter.create_observable_gauge(
            name(field).replace("headrace_", "headrace."), [observing(field)], description=says
        )
