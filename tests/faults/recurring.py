"""The schedules of a worker process, as its code declares them."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from mainspring import Context, Done, Mainspring
from mainspring.app.schedule.timing import TimingOptions
from mainspring.runtime import janitor
from mainspring.storage.portable import timetable
from tests.faults.ledger import Effects
from tests.faults.plan import Entry, Plan

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STEP = 0.02


def declare(app: Mainspring, plan: Plan, effects: Effects) -> None:
    """Add a consumer for every group, and every schedule of the plan to the one of its group."""
    consumers = {
        group: app.consumer(group, group=group, concurrency=plan.concurrency, timeout=f"{plan.timeout}s")(
            _handler(plan, effects)
        )
        for group in sorted({entry.group for entry in plan.schedules})
    }
    for entry in plan.schedules:
        app.recurring(entry.rhythm, name=entry.name, **timing(entry))(consumers[entry.group])
    if plan.silent is not None:
        # Five minutes in a few seconds, and how often a declaration is read and written in the same proportion.
        vars(timetable).update(
            SILENT_AFTER=timedelta(seconds=plan.silent), SEEN_EVERY=timedelta(seconds=plan.silent / 12)
        )
        vars(janitor).update(_ROUND=plan.silent / 60)


def timing(entry: Entry) -> TimingOptions:
    """What the library is told of it."""
    return {
        "timezone": entry.timezone,
        "misfire": entry.misfire,
        "misfire_after": timedelta(seconds=entry.misfire_after),
        "catch_up": entry.catch_up,
        "start": _instant(entry.start),
        "end": _instant(entry.end),
        "overlap": entry.overlap,
    }


def _handler(plan: Plan, effects: Effects) -> Callable[[Context], Awaitable[Done]]:
    naps = {entry.name: entry.nap for entry in plan.schedules if entry.nap is not None}

    async def occur(ctx: Context) -> Done:
        id, epoch = ctx.message_id, ctx.fence
        assert ctx.scheduled_for is not None
        due = (ctx.scheduled_for - _EPOCH) // timedelta(microseconds=1)
        effects.begin(id, 0, epoch, ctx.attempt, schedule=ctx.schedule, due=due)
        if epoch == 1:
            # Short when somebody takes it over: who is killed with it again and again would bury it.
            while plan.hold.exists():
                await asyncio.sleep(_STEP)
            await asyncio.sleep(naps.get(ctx.schedule or "", plan.nap))
        effects.end(id, epoch, "ok")
        return Done(f"{epoch}")

    return occur


def _instant(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
