"""The catalogue of metrics, and their exporters: Prometheus as text, OpenTelemetry observed on collection.

The libraries of both are imported only when used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal

from mainspring.model.errors import MissingExtra
from mainspring.model.measures import BOUNDS, Histogram

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Exposed

Kind = Literal["counter", "gauge", "histogram"]
Whose = Literal["process", "database", "fleet"]
"""Exported by every process about itself, by one process for all, or by every process of a fleet about that."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    whose: Whose = "process"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram, and the sum of its values."""

    histogram: Histogram
    sum: float


@dataclass(frozen=True, slots=True)
class Family:
    """A metric with its numbers, by the values of its labels."""

    metric: Metric
    samples: list[tuple[tuple[str, ...], float | Distribution]] = field(default_factory=list)


PUBLISHED = Metric(
    "mainspring_published_total",
    "counter",
    "Messages published by this process; in a transaction of the application, counted when enlisted.",
    ("topic",),
)
SETTLED = Metric(
    "mainspring_settled_total",
    "counter",
    "Attempts that ended here: done, failed (to be retried), dead, snoozed or cancelled.",
    ("group", "status"),
)
WAIT = Metric(
    "mainspring_wait_seconds",
    "histogram",
    "From when a delivery was due until its handler was called here.",
    ("group",),
)
RUN = Metric("mainspring_run_seconds", "histogram", "How long handlers ran here.", ("group",))
IN_HAND = Metric("mainspring_in_hand", "gauge", "Deliveries claimed by the workers here and not yet settled.")
BREAKER = Metric("mainspring_breaker_open", "gauge", "1 while a group's breaker is open here.", ("group",))
BELL = Metric("mainspring_bell", "gauge", "1 for the way new work is detected here: notify, watch or poll.", ("mode",))
LEASES_HELD = Metric("mainspring_leases_held", "gauge", "Leases held by this process.")
TURNS = Metric("mainspring_loop_turns_total", "counter", "Turns of each loop of the workers here.", ("loop",))
FAILURES = Metric(
    "mainspring_loop_failures_total", "counter", "Turns that failed, of each loop of the workers here.", ("loop",)
)
LEASE_EVENTS = Metric(
    "mainspring_lease_events_total",
    "counter",
    "Leases acquired here, refused since another holder had them, and lost.",
    ("event",),
)
POOL_SIZE = Metric("mainspring_pool_size", "gauge", "Connections to the database for all but claiming and settling.")
POOL_BUSY = Metric("mainspring_pool_busy", "gauge", "How many of them are in use.")
POOL_WAITS = Metric("mainspring_pool_waits_total", "counter", "Calls that waited because all of them were in use.")
POOL_WAITED = Metric("mainspring_pool_wait_seconds_total", "counter", "How long these calls waited.")
BROKER_EVENTS = Metric(
    "mainspring_broker_events_total",
    "counter",
    "Messages that workers here have sent to brokers and received from them, and connections opened again.",
    ("broker", "event"),
)
BROKER_UP = Metric("mainspring_broker_up", "gauge", "1 while a worker here is connected to the broker.", ("broker",))
BROKER_LAG = Metric(
    "mainspring_broker_lag",
    "gauge",
    "Messages that wait in the broker for an intake here, asked every 10 s.",
    ("broker",),
)
HEALTH = Metric(
    "mainspring_health",
    "gauge",
    "The result of each health check of this process, and of each registered one: 0 healthy, 1 degraded, 2 unhealthy.",
    ("check",),
)
UP = Metric("mainspring_database_up", "gauge", "1 if the database answered when this was collected.")

DELIVERIES = Metric(
    "mainspring_deliveries", "gauge", "Deliveries by state, counted up to 100000 each.", ("group", "state"), "database"
)
OLDEST = Metric(
    "mainspring_oldest_ready_age_seconds",
    "gauge",
    "How long the oldest waiting delivery has been due.",
    ("group",),
    "database",
)
PARKED = Metric("mainspring_parked", "gauge", "Messages that no group subscribes to yet.", (), "database")
PAUSED = Metric("mainspring_group_paused", "gauge", "1 while a group is paused.", ("group",), "database")
WORKERS = Metric(
    "mainspring_workers", "gauge", "Workers that reported within a minute, and others.", ("state",), "database"
)
LATENESS = Metric(
    "mainspring_schedule_lateness_seconds",
    "gauge",
    "How long the next occurrence of a schedule has been due.",
    ("schedule",),
    "database",
)
FIRED = Metric(
    "mainspring_schedule_fired_total",
    "counter",
    "Occurrences of a schedule that were published.",
    ("schedule",),
    "database",
)
MISSED = Metric(
    "mainspring_schedule_missed_total",
    "counter",
    "Occurrences of a schedule that were missed and not made up for.",
    ("schedule",),
    "database",
)
SKIPPED = Metric(
    "mainspring_schedule_skipped_total",
    "counter",
    "Occurrences of a schedule that were skipped because an earlier run was unfinished.",
    ("schedule",),
    "database",
)
LEASES = Metric(
    "mainspring_leases", "gauge", "Leases of the application by state, counted up to 10000.", ("state",), "database"
)
DATABASE_HEALTH = Metric(
    "mainspring_database_health",
    "gauge",
    "The result of each health check of the database: 0 healthy, 1 degraded, 2 unhealthy.",
    ("check",),
    "database",
)

FLEET_DATABASES = Metric(
    "mainspring_fleet_databases",
    "gauge",
    "Databases of the fleet: known, open in this process, and in trouble, as far as this process has tried them.",
    ("state",),
    "fleet",
)
FLEET_DISCOVERY = Metric(
    "mainspring_fleet_discovery_age_seconds",
    "gauge",
    "How long ago the databases of the fleet were last named here.",
    (),
    "fleet",
)
FLEET_WAITING = Metric(
    "mainspring_fleet_turns_waiting",
    "gauge",
    "Databases with work that wait here for one of the places for a worker.",
    (),
    "fleet",
)
READING_AGE = Metric(
    "mainspring_fleet_reading_age_seconds",
    "gauge",
    "How long ago the metrics of a database of the fleet were read here.",
    (),
    "fleet",
)

CATALOGUE: Final = tuple(each for each in list(globals().values()) if isinstance(each, Metric))
"""Every metric above, in this order."""


def by_database(families: Mapping[str, Iterable[Family]]) -> list[Family]:
    """Return these of each database as one of each metric, with the name of the database as the first label.

    The empty name is for what is no database's: an empty label is as none for Prometheus.
    """
    merged: dict[str, Family] = {}
    for name, found in families.items():
        for each in found:
            metric = each.metric
            if metric.name not in merged:
                merged[metric.name] = Family(replace(metric, labels=("database", *metric.labels)))
            merged[metric.name].samples.extend(((name, *labels), value) for labels, value in each.samples)
    return list(merged.values())


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SCOPE = "mainspring"
_SDK = "opentelemetry.sdk.metrics"
_LIMITS = (*map(repr, BOUNDS), "+Inf")

Read = Callable[[], Mapping[str, Family]]
"""Returns the current families, by the names of their metrics. Called from any thread."""
Point = tuple[float, dict[str, str]]
"""A number and its attributes."""


def check_extra() -> None:
    """Raise MissingExtra if the extra ``prometheus`` is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise MissingExtra("prometheus-client", "prometheus", "app.metrics()") from None


def exposition(families: Iterable[Family]) -> str:
    """Format the numbers as text; it needs the extra ``prometheus``."""
    from prometheus_client import CollectorRegistry, generate_latest

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
        for labels, value in _distributions(family):
            reached = accumulate(value.histogram.counts)
            histogram.add_metric(labels, buckets=list(zip(_LIMITS, reached, strict=True)), sum_value=value.sum)
        return histogram
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    numbers = kind(metric.name, metric.help, labels=metric.labels)
    for labels, number in _numbers(family):
        numbers.add_metric(labels, number)
    return numbers


def meter_provider() -> Any | None:
    """Return OpenTelemetry's meter provider, None if none is set. Imports nothing that is not imported already."""
    sdk = sys.modules.get(_SDK)
    if sdk is None:
        return None
    from opentelemetry import metrics

    provider = metrics.get_meter_provider()
    return provider if isinstance(provider, sdk.MeterProvider) else None


def observe(provider: Any, read: Read, scope: Mapping[str, str]) -> None:
    """Register every metric of an app or a fleet with this provider, in a scope of its own with these attributes.

    OpenTelemetry has no observable histogram: each is three counters, ``….bucket`` with how many were at most
    ``le`` seconds, ``….count`` and ``….sum``.
    """
    from opentelemetry.metrics import Observation

    meter = provider.get_meter(_SCOPE, attributes=dict(scope))
    readings = Readings(read)

    def callback(metric: Metric, points: Callable[[Family], Iterable[Point]]) -> Callable[[object], list[Observation]]:
        def observed(_options: object) -> list[Observation]:
            family = readings.read_by(observed).get(metric.name)
            return [] if family is None else [Observation(number, attributes) for number, attributes in points(family)]

        return observed

    for metric in CATALOGUE:
        name, unit = otel_name(metric)
        match metric.kind:
            case "gauge":
                meter.create_observable_gauge(name, [callback(metric, _plain)], unit, metric.help)
            case "counter":
                meter.create_observable_counter(name, [callback(metric, _plain)], unit, metric.help)
            case "histogram":
                for part, points in (("bucket", _bins), ("count", _totals), ("sum", _sums)):
                    of = unit if part == "sum" else "1"
                    meter.create_observable_counter(f"{name}.{part}", [callback(metric, points)], of, metric.help)


class Readings:
    """One reading per collection, which calls every instrument once, without marking its begin or end.

    So a second call of an instrument belongs to another collection. Collections do not overlap.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._reading: Mapping[str, Family] = {}
        self._called: set[object] | None = None

    def read_by(self, instrument: object) -> Mapping[str, Family]:
        """Return the reading of the collection in which this instrument is called."""
        if self._called is None or instrument in self._called:
            self._reading, self._called = self._read(), set()
        self._called.add(instrument)
        return self._reading


def otel_name(metric: Metric) -> tuple[str, str]:
    """Return the name of a metric in OpenTelemetry's spelling, and its unit."""
    name = metric.name.removeprefix("mainspring_").removesuffix("_total")
    return f"mainspring.{name.removesuffix('_seconds')}", "s" if name.endswith("_seconds") else "1"


def _plain(family: Family) -> Iterator[Point]:
    return ((number, _attributes(family, labels)) for labels, number in _numbers(family))


def _bins(family: Family) -> Iterator[Point]:
    for labels, value in _distributions(family):
        for limit, reached in zip(_LIMITS, accumulate(value.histogram.counts), strict=True):
            yield reached, {**_attributes(family, labels), "le": limit}


def _totals(family: Family) -> Iterator[Point]:
    return ((value.histogram.total, _attributes(family, labels)) for labels, value in _distributions(family))


def _sums(family: Family) -> Iterator[Point]:
    return ((value.sum, _attributes(family, labels)) for labels, value in _distributions(family))


def _numbers(family: Family) -> Iterator[tuple[tuple[str, ...], float]]:
    for labels, value in family.samples:
        assert not isinstance(value, Distribution), "only a histogram is made of distributions"
        yield labels, value


def _distributions(family: Family) -> Iterator[tuple[tuple[str, ...], Distribution]]:
    for labels, value in family.samples:
        assert isinstance(value, Distribution), "a histogram is made of distributions"
        yield labels, value


def _attributes(family: Family, labels: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(family.metric.labels, labels, strict=True))
