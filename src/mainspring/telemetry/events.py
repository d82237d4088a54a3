"""Events about deliveries, emitted only after the database has confirmed them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to one delivery of one group."""

    group: str
    topic: str
    message_id: UUID
    key: str | None
    attempt: int
    took: timedelta
    """How long the attempt ran."""
    schedule: str | None = None
    """The schedule whose occurrence it is; None for other messages."""


@dataclass(frozen=True, slots=True)
class Completed(Event):
    """It was handled."""

    output: str | None = None
    """The handler's output, as in ``Done("42 rows")``."""


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """An attempt failed; it will be retried."""

    error: str = ""
    traceback: str | None = None
    retry_in: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class Dead(Event):
    """The last attempt failed: it is a dead letter now."""

    error: str = ""
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Snoozed(Event):
    """The handler snoozed it; no attempt was counted."""

    delay: timedelta = timedelta()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Cancelled(Event):
    """It was cancelled, by its handler, by the application, or because it had expired."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Tripped:
    """A group's breaker opened: too many attempts failed, and the group is paused."""

    group: str
    failures: int
    pause: timedelta


@dataclass(frozen=True, slots=True)
class Recovered:
    """A group's breaker closed: a probe succeeded."""

    group: str


@dataclass(frozen=True, slots=True)
class Mismatched:
    """An inbox message arrived with another hash than the first time. Emitted once per message."""

    group: str
    source: str
    message_id: str
    first_seen_at: datetime


EVENTS: Final = (Completed, Failed, Dead, Snoozed, Cancelled, Tripped, Recovered, Mismatched)
"""Every class that ``app.on(…)`` takes."""
