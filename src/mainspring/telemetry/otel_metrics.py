"""Metrics for OpenTelemetry: observed on collection, if the application has configured its SDK."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from mainspring.model.measures import BOUNDS
from mainspring.telemetry.metrics import CATALOGUE, Distribution, Family, Metric

SCOPE = "mainspring"
_SDK = "opentelemetry.sdk.metrics"
_LIMITS = (*map(repr, BOUNDS), "+Inf")

Read = Callable[[], Mapping[str, Family]]
"""Returns the current families, by the names of their metrics. Called from any thread."""
Seen = tuple[float, dict[str, str]]
"""A number and its attributes."""


def configured() -> Any | None:
    """Return the SDK's meter provider, None if none is set. Imports nothing that is not imported already."""
    sdk = sys.modules.get(_SDK)
    if sdk is None:
        return None
    from opentelemetry import metrics

    provider = metrics.get_meter_provider()
    return provider if isinstance(provider, sdk.MeterProvider) else None


def observe(provider: Any, read: Read, app: str) -> None:
    """Register every metric of an app with this provider, in a scope of its own.

    OpenTelemetry has no observable histogram: each is three counters, ``….bucket`` with how many were at most
    ``le`` seconds, ``….count`` and ``….sum``.
    """
    from opentelemetry.metrics import Observation

    meter = provider.get_meter(SCOPE, attributes={"mainspring.app": app})
    readings = Readings(read)

    def callback(metric: Metric, seen: Callable[[Family], Iterable[Seen]]) -> Callable[[object], list[Observation]]:
        def observed(_options: object) -> list[Observation]:
            family = readings.asked_by(observed).get(metric.name)
            return [] if family is None else [Observation(number, attributes) for number, attributes in seen(family)]

        return observed

    for metric in CATALOGUE:
        name, unit = spelled(metric)
        match metric.kind:
            case "gauge":
                meter.create_observable_gauge(name, [callback(metric, _plain)], unit, metric.help)
            case "counter":
                meter.create_observable_counter(name, [callback(metric, _plain)], unit, metric.help)
            case "histogram":
                for part, seen in (("bucket", _bins), ("count", _totals), ("sum", _sums)):
                    of = unit if part == "sum" else "1"
                    meter.create_observable_counter(f"{name}.{part}", [callback(metric, seen)], of, metric.help)


class Readings:
    """One reading per collection, which calls every instrument once, without marking its begin or end.

    So a second call of an instrument belongs to another collection. Collections do not overlap.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._reading: Mapping[str, Family] = {}
        self._asked: set[object] | None = None

    def asked_by(self, instrument: object) -> Mapping[str, Family]:
        """Return the family that this instrument reports."""
        if self._asked is None or instrument in self._asked:
            self._reading, self._asked = self._read(), set()
        self._asked.add(instrument)
        return self._reading


def spelled(metric: Metric) -> tuple[str, str]:
    """Return the name of a metric in OpenTelemetry's spelling, and its unit."""
    name = metric.name.removeprefix("mainspring_").removesuffix("_total")
    return f"mainspring.{name.removesuffix('_seconds')}", "s" if name.endswith("_seconds") else "1"


def _plain(family: Family) -> Iterator[Seen]:
    for labels, value in family.samples:
        assert not isinstance(value, Distribution), "only a histogram is made of distributions"
        yield value, _attributes(family, labels)


def _bins(family: Family) -> Iterator[Seen]:
    for labels, value in _distributions(family):
        for limit, reached in zip(_LIMITS, accumulate(value.histogram.counts), strict=True):
            yield reached, {**_attributes(family, labels), "le": limit}


def _totals(family: Family) -> Iterator[Seen]:
    return ((value.histogram.total, _attributes(family, labels)) for labels, value in _distributions(family))


def _sums(family: Family) -> Iterator[Seen]:
    return ((value.sum, _attributes(family, labels)) for labels, value in _distributions(family))


def _distributions(family: Family) -> Iterator[tuple[tuple[str, ...], Distribution]]:
    for labels, value in family.samples:
        assert isinstance(value, Distribution), "a histogram is made of distributions"
        yield labels, value


def _attributes(family: Family, labels: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(family.metric.labels, labels, strict=True))
