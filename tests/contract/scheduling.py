"""What the tests of the timetable do over and over: keep schedules, look, and let their occurrences run."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack
from uuid import NAMESPACE_URL, UUID, uuid5

from mainspring.model.schedule import (
    NEVER,
    Decide,
    Due,
    Note,
    Occurrence,
    Origin,
    Schedule,
    ScheduleAdvance,
    ScheduleTick,
)
from mainspring.storage.contract import Storage
from tests.contract.acting import HOUR, NOON, TOPIC, draft

NAME = "nightly"
NOTE = Note("ann", "edit", "because")


class ScheduleOptions(TypedDict, total=False):
    app: str
    origin: Origin
    definition: Mapping[str, Any]
    overrides: Mapping[str, Any]
    edits: Mapping[str, Any]
    declared_at: datetime
    base_at: datetime
    next_at: datetime | None
    version: int
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    retired_at: datetime | None
    fired: int
    missed: int
    skipped: int


def schedule(name: str = NAME, **options: Unpack[ScheduleOptions]) -> Schedule:
    """A schedule of the shop that is due at noon."""
    given: ScheduleOptions = {
        "app": "shop",
        "origin": "code",
        "definition": {"cron": "@hourly"},
        "declared_at": NOON,
        "base_at": NOON - HOUR,
        "next_at": NOON,
        **options,
    }
    return Schedule(name=name, created_at=NOON - 24 * HOUR, **given)


async def keep(storage: Storage, *rows: Schedule) -> None:
    """Write these rows, whatever was there."""
    by_name = {row.name: row for row in rows}
    await storage.timetable.rewrite(list(by_name), lambda name, _known, _now: by_name[name])


async def edit(storage: Storage, name: str = NAME, **fields: Any) -> Schedule:
    """Change some fields of a row, with a note."""

    def how(_name: str, known: Schedule | None, _now: datetime) -> Schedule:
        assert known is not None
        return replace(known, **fields)

    (stored,) = await storage.timetable.rewrite([name], how, NOTE)
    assert stored is not None
    return stored


async def remove(storage: Storage, *names: str) -> None:
    await storage.timetable.rewrite(names, lambda _name, _known, _now: None)


async def kept(storage: Storage, name: str = NAME) -> Schedule:
    (row,) = (await storage.timetable.read([name])).schedules
    return row


def occurrence_id(name: str, at: datetime) -> UUID:
    return uuid5(NAMESPACE_URL, f"{name} {at.isoformat()}")


def occurrence(
    at: datetime,
    name: str = NAME,
    *,
    group: str | None = "mailer",
    due_at: datetime | None = None,
    manual: bool = False,
) -> Occurrence:
    """One due time of a schedule, straight to a group unless there is none."""
    message = draft(TOPIC, id=occurrence_id(name, at), group=group, at=at, schedule=name, manual=manual)
    return Occurrence(message, due_at)


def hourly(
    group: str | None = "mailer", later: timedelta | None = None, *, waits: bool = False
) -> Callable[[Due, datetime], ScheduleAdvance]:
    """Publishes the one occurrence that is due, and goes on by an hour."""

    def decide(due: Due, _now: datetime) -> ScheduleAdvance:
        at = due.schedule.next_at
        assert at is not None
        due_at = NEVER if waits else None if later is None else at + later
        return ScheduleAdvance(at, at + HOUR, (occurrence(at, due.schedule.name, group=group, due_at=due_at),))

    return decide


def stopping(due: Due, now: datetime) -> ScheduleAdvance:
    """Publishes what is due to start when the earlier run, which is asked to stop, has ended."""
    return replace(hourly(waits=due.unfinished > 0)(due, now), stop_running=True)


def leaving(_due: Due, _now: datetime) -> None:
    """Decides nothing."""


async def look(storage: Storage, decide: Decide | None = None, *, app: str = "shop", limit: int = 100) -> ScheduleTick:
    return await storage.timetable.tick(app, decide or hourly(), limit)


async def queue(storage: Storage, *hours: int, group: str | None = "mailer", name: str = NAME) -> list[UUID]:
    """Publish one occurrence per hour after noon, each of which waits for an earlier run. Releases none."""
    waiting = [occurrence(NOON + hour * HOUR, name, group=group, due_at=NEVER) for hour in hours]

    def decide(due: Due, _now: datetime) -> ScheduleAdvance:
        return ScheduleAdvance(NOON, None, tuple(waiting))

    await keep(storage, schedule(name))
    found = await look(storage, decide)
    assert (found.fired, found.released, found.waiting) == (len(waiting), 0, True)
    return [each.draft.id for each in waiting]
