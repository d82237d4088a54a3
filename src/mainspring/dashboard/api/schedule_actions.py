"""Operators' actions on schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from mainspring.app.schedule.timing import TimingOptions
from mainspring.dashboard.api.payloads import PayloadText, edited
from mainspring.dashboard.route import Call, Length, Name, Reason, Topic, length, post
from mainspring.model.schedule import Misfire, Overlap

Aware = Annotated[datetime, Meta(tz=True)]
Rhythm = Annotated[str, Meta(min_length=1, max_length=200)]


class PauseSchedule(Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule to pause."""

    name: Topic
    reason: Reason = ""


class NamedSchedule(Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule."""

    name: Topic


class Trigger(Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule to run now, with its own payload or another: as a value, or as JSON text."""

    name: Topic
    payload: Any | UnsetType = UNSET
    payload_text: PayloadText | None = None


class Triggered(Struct, frozen=True):
    """The published message."""

    id: UUID


class Alter(Struct, frozen=True, forbid_unknown_fields=True):
    """Fields to set at run time, and fields whose edits to drop."""

    name: Topic
    rhythm: Rhythm | None = None
    timezone: Name | None = None
    misfire: Misfire | None = None
    overlap: Overlap | None = None
    jitter: Length | None = None
    reset: Annotated[list[Name], Meta(max_length=20)] = []


class Backfill(Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule to run for every occurrence in a span of time."""

    name: Topic
    start: Aware
    end: Aware


class Counted(Struct, frozen=True):
    """A number of occurrences."""

    count: int


class Freeze(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to freeze all schedules of the app."""

    reason: Reason = ""


class Thaw(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to thaw all schedules of the app."""


class Thawed(Struct, frozen=True):
    """Whether they were frozen."""

    thawed: bool


async def pause(call: Call, asked: PauseSchedule) -> None:
    """Pause a schedule."""
    await call.app.schedules.pause(asked.name, reason=asked.reason, by=call.by)


async def resume(call: Call, asked: NamedSchedule) -> None:
    """Resume a schedule."""
    await call.app.schedules.resume(asked.name, by=call.by)


async def trigger(call: Call, asked: Trigger) -> Triggered:
    """Run a schedule now."""
    given = edited(asked.payload, asked.payload_text)
    receipt = await call.app.schedules.trigger(asked.name, by=call.by, **given)
    return Triggered(receipt.id)


async def alter(call: Call, asked: Alter) -> None:
    """Set fields of a schedule at run time."""
    options: TimingOptions = {
        "timezone": asked.timezone,
        "misfire": asked.misfire,
        "overlap": asked.overlap,
        "jitter": None if asked.jitter is None else length(asked.jitter),
    }
    await call.app.schedules.alter(asked.name, asked.rhythm, reset=asked.reset, by=call.by, **options)


async def backfill(call: Call, asked: Backfill) -> Counted:
    """Run a schedule for every occurrence in a span of time."""
    return Counted(len(await call.app.schedules.backfill(asked.name, asked.start, asked.end, by=call.by)))


async def delete(call: Call, asked: NamedSchedule) -> None:
    """Delete a schedule that was created at run time."""
    await call.app.schedules.delete(asked.name, by=call.by)


async def freeze(call: Call, asked: Freeze) -> None:
    """Freeze all schedules of the app."""
    await call.app.schedules.freeze(reason=asked.reason, by=call.by)


async def thaw(call: Call, _asked: Thaw) -> Thawed:
    """Thaw all schedules of the app."""
    return Thawed(await call.app.schedules.thaw(by=call.by))


ROUTES = (
    post("/api/schedules/pause", pause, "Pause a schedule", PauseSchedule),
    post("/api/schedules/resume", resume, "Resume a schedule", NamedSchedule),
    post("/api/schedules/trigger", trigger, "Run a schedule now", Trigger, Triggered),
    post("/api/schedules/alter", alter, "Set fields of a schedule at run time", Alter),
    post("/api/schedules/backfill", backfill, "Run a schedule for a span of time", Backfill, Counted),
    post("/api/schedules/delete", delete, "Delete a schedule that was created at run time", NamedSchedule),
    post("/api/schedules/freeze", freeze, "Freeze all schedules of the app", Freeze),
    post("/api/schedules/thaw", thaw, "Thaw all schedules of the app", Thaw, Thawed),
)
