"""Health as values: the result of each check, their worst, and the limits between healthy and not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Literal

from mainspring.model.redaction import redacted, redacted_fields
from mainspring.model.views import WORKER_SILENT_AFTER

Status = Literal["healthy", "degraded", "unhealthy"]
ORDER: tuple[Status, ...] = ("healthy", "degraded", "unhealthy")
"""From best to worst."""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    status: Status
    summary: str = ""
    data: Mapping[str, object] = field(default_factory=dict)
    seconds: float | None = None
    """How long the check took, together with those that use the same reading. None: it waits for nothing."""
    tags: tuple[str, ...] = ("ready",)
    """What it counts for. ``ready``: whether this process receives traffic."""


BuiltIn = Literal[
    "storage",
    "rights",
    "schema",
    "deliveries",
    "backlog",
    "parked",
    "overdue",
    "lapsed",
    "dead",
    "workers",
    "groups",
    "claiming",
    "inbox",
    "schedules",
    "clock",
    "worker",
    "version",
    "breaker",
    "overrunning",
    "subscriptions",
    "leases",
    "brokers",
    "forwards",
]
"""The built-in checks, and the reading ``deliveries`` that some are made from."""


def built_in(
    name: BuiltIn,
    status: Status,
    summary: str,
    data: Mapping[str, object] | None = None,
    *,
    of: object = None,
    seconds: float | None = None,
) -> Check:
    """Return the result of a built-in check; ``of`` one group or one worker, which its name ends in."""
    return Check(name if of is None else f"{name} {of}", status, summary, data or {}, seconds)


@dataclass(frozen=True, slots=True)
class Health:
    """The worst of all check results."""

    status: Status
    checks: tuple[Check, ...]
    seconds: float | None = None
    """How long all checks took."""

    @property
    def ok(self) -> bool:
        """Whether work gets done, even if slowly."""
        return self.status != "unhealthy"


def health_of(checks: Iterable[Check], seconds: float | None = None) -> Health:
    """Return the health of these results, their secrets masked; without any, it is healthy."""
    found = tuple(replace(each, summary=redacted(each.summary), data=redacted_fields(each.data)) for each in checks)
    return Health(worst(each.status for each in found), found, seconds)


def worst(statuses: Iterable[Status]) -> Status:
    """Return the worst of these; without any, healthy."""
    return max(statuses, key=ORDER.index, default="healthy")


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """Thresholds for degraded and for unhealthy."""

    backlog: tuple[int, int] = (10_000, 50_000)
    """Ready deliveries of all groups together."""
    overdue: tuple[int, int] = (10, 100)
    """Deliveries that have been ready for longer than ``overdue_after``."""
    overdue_after: timedelta = timedelta(minutes=5)
    lapsed: int = 0
    """Lapsed claims not taken over yet."""
    unserved_after: timedelta = timedelta(hours=24)
    worker_silent_after: timedelta = WORKER_SILENT_AFTER
    stuck: int = 0
    """Inbox messages in processing for longer than ``stuck_after``."""
    stuck_after: timedelta = timedelta(hours=1)
    parked: int = 0
    """Messages that no group subscribes to, published longer than ``parked_after`` ago."""
    parked_after: timedelta = timedelta(hours=1)
    silenced_after: timedelta = timedelta(minutes=5)
    """How long a run may delay its schedule's next three occurrences before it is reported."""
    schedule_overdue_after: timedelta = timedelta(minutes=5)
    """How long an occurrence of a schedule may be due before it is reported."""
    frozen_after: timedelta = timedelta(hours=24)
    """How long schedules may be frozen before it is reported."""
    new_dead: tuple[int, int | None] = (0, None)
    """Dead letters of the last hour."""
    dead: tuple[int, int | None] = (1_000, None)
    """Dead letters in all."""
    broker_down: tuple[timedelta, timedelta] = (timedelta(seconds=30), timedelta(minutes=5))
    """How long a worker here may be without its connection to a broker."""
    broker_lag: tuple[int, int | None] = (10_000, 100_000)
    """Messages that wait in a broker for an intake here."""
