"""What became of deliveries, as values: told only once the database has answered for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
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


@dataclass(frozen=True, slots=True)
class Completed(Event):
    """It was handled."""

    output: str | None = None
    """What the handler had to say, as in ``Done("42 rows")``."""


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """An attempt failed; another will be made."""

    error: str = ""
    traceback: str | None = None
    retry_in: timedelta = timedelta()


@dataclass(frozen=True, slots=True)
class Died(Event):
    """The last attempt failed: it is with the dead letters now."""

    error: str = ""
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Snoozed(Event):
    """The handler asked for it again later; no attempt was counted."""

    delay: timedelta = timedelta()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Dropped(Event):
    """It was cancelled, by its handler, by the application, or because it had expired."""

    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Tripped:
    """A group's breaker opened: it failed too often and pauses itself."""

    group: str
    failures: int
    pause: timedelta


@dataclass(frozen=True, slots=True)
class Recovered:
    """A group's breaker closed: a probe succeeded."""

    group: str


@dataclass(frozen=True, slots=True)
class Mismatched:
    """A message of the inbox came with another hash than the first time. Told once of each message."""

    group: str
    source: str
    message_id: str
    first_seen_at: datetime


EVENTS: dict[str, type[Any]] = {
    "completed": Completed,
    "failed": Failed,
    "dead": Died,
    "snoozed": Snoozed,
    "cancelled": Dropped,
    "tripped": Tripped,
    "recovered": Recovered,
    "mismatched": Mismatched,
}
"""Every event by the name that ``app.on(…)`` takes."""
