"""Metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from mainspring.model.errors import MissingExtra
from mainspring.model.measures import BOUNDS
from mainspring.telemetry.metrics import Distribution, Family

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Exposed

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LIMITS = (*map(repr, BOUNDS), "+Inf")


def exposition(families: Iterable[Family]) -> str:
    """Format the numbers as text; raises MissingExtra if the extra ``prometheus`` is not installed."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
    except ImportError:
        raise MissingExtra("prometheus-client", "prometheus", "app.metrics()") from None
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(families))
    return generate_latest(registry).decode()


class _Collector:
    """The collector that a registry reads."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Exposed]:
        """Return every metric, with its numbers."""
        return map(_exposed, self._families)


def _exposed(family: Family) -> Exposed:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    metric = family.metric
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, value in family.samples:
            assert isinstance(value, Distribution), "a histogram is made of distributions"
            reached = accumulate(value.histogram.counts)
            histogram.add_metric(labels, buckets=list(zip(_LIMITS, reached, strict=True)), sum_value=value.sum)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    numbers = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in family.samples:
        assert not isinstance(value, Distribution), "only a histogram is made of distributions"
        numbers.add_metric(labels, value)
    return numbers
