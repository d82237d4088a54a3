"""Types that several screens share: deliveries, runs, percentiles."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from msgspec import Struct

from mainspring.dashboard.answers import shown
from mainspring.dashboard.security.redaction import Redaction
from mainspring.model.views import DeliveryView, RunStatus, RunView, Source, State


class Delivery(Struct, frozen=True):
    """One group's copy of a message."""

    seq: int
    message_id: UUID
    group: str
    topic: str
    key: str | None
    state: State
    priority: int
    attempt: int
    deaths: int
    due_at: datetime
    scheduled_for: datetime
    published_at: datetime
    held_by: str | None
    cancel_asked: bool
    buried_at: datetime | None
    error: str | None
    progress: str | None
    progress_at: datetime | None


class Run(Struct, frozen=True):
    """One attempt at one delivery."""

    id: int
    message_id: UUID
    group: str
    topic: str
    attempt: int
    status: RunStatus
    started_at: datetime
    finished_at: datetime
    node: str | None
    kind: str | None
    error: str | None
    traceback: str | None
    output: str | None
    source: Source
    schedule: str | None
    scheduled_for: datetime | None


class Percentiles(Struct, frozen=True):
    """The 50th, 95th and 99th percentiles in seconds; null without any values."""

    p50: float | None
    p95: float | None
    p99: float | None


NO_PERCENTILES = Percentiles(None, None, None)


def delivery(view: DeliveryView, redaction: Redaction) -> Delivery:
    """Convert a delivery for JSON."""
    error, progress = redaction.optional(view.error), redaction.optional(view.progress)
    return shown(Delivery, view, error=error, progress=progress)


def run(view: RunView, redaction: Redaction) -> Run:
    """Convert a run for JSON."""
    said = {name: redaction.optional(getattr(view, name)) for name in ("error", "traceback", "output")}
    return shown(Run, view, **said)
