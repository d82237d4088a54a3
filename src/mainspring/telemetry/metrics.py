"""The catalogue of metrics: names, help texts and labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from mainspring.model.measures import Histogram

Kind = Literal["counter", "gauge", "histogram"]
Whose = Literal["process", "database"]
"""Exported by every process about itself, or by one process for all."""


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
UP = Metric("mainspring_database_up", "gauge", "1 if the database responded when this was collected.")

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

CATALOGUE: tuple[Metric, ...] = (
    PUBLISHED,
    SETTLED,
    WAIT,
    RUN,
    IN_HAND,
    BREAKER,
    BELL,
    LEASES_HELD,
    TURNS,
    FAILURES,
    UP,
    DELIVERIES,
    OLDEST,
    PARKED,
    PAUSED,
    WORKERS,
    LATENESS,
    FIRED,
    MISSED,
    SKIPPED,
    LEASES,
)
