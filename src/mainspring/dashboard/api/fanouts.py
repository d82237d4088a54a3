"""Fan-outs: how far every shard has come."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from mainspring.dashboard.answers import plain, shown
from mainspring.dashboard.reading import Length, Limit, Name, Topic, length
from mainspring.dashboard.route import Nothing, Visit, acting, viewing


class Fanout(Struct, frozen=True):
    """A work of a fan-out. Times between windows and jitter in seconds."""

    topic: str
    work: str | None
    schedule: str
    rhythm: str | None
    paused: bool
    next_window: datetime | None
    enabled: bool
    every: float | None
    jitter: float | None
    coordinator: str | None
    shards: int
    last_window: datetime | None
    completed: int
    behind: int
    oldest: datetime | None


class FanoutList(Struct, frozen=True):
    """Every work of every fan-out, by topic and work."""

    rows: list[Fanout]


class CursorQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which page of which work; ``after`` is the shard of the last row of the page before."""

    topic: Topic
    work: Name
    behind: bool = False
    after: Name | None = None
    limit: Limit = 50


class Cursor(Struct, frozen=True):
    """How far one shard has come."""

    topic: str
    work: str
    shard: str
    completed: datetime | None
    completed_at: datetime | None
    planned: datetime | None
    planned_at: datetime | None
    is_behind: bool


class CursorPage(Struct, frozen=True):
    """Shards, by name."""

    rows: list[Cursor]


class EditFanout(Struct, frozen=True, forbid_unknown_fields=True):
    """How a work, or one shard of it, is planned from the next window on."""

    topic: Topic
    work: Name
    shard: Name | None = None
    every: Length | None = None
    jitter: Length | None = None
    enabled: bool | None = None


class ResetFanout(Struct, frozen=True, forbid_unknown_fields=True):
    """A work, or one shard of it, that is to be planned as the code says."""

    topic: Topic
    work: Name
    shard: Name | None = None


class RunFanout(Struct, frozen=True, forbid_unknown_fields=True):
    """A work, or one shard of it, to be planned now."""

    topic: Topic
    work: Name | None = None
    shard: Name | None = None


class PolicySet(Struct, frozen=True):
    """What is set at run time now; null leaves it to the work, or to the code."""

    enabled: bool | None
    every: float | None
    jitter: float | None


class PolicyReset(Struct, frozen=True):
    """Whether there was something to reset."""

    reset: bool


class Planned(Struct, frozen=True):
    """How many slices were published, and how many shards were skipped, and why."""

    window: datetime
    published: int
    skipped: dict[str, int]


async def fanouts(visit: Visit, _asked: Nothing) -> FanoutList:
    """Every work of every fan-out."""
    return FanoutList([shown(Fanout, each) for each in await visit.app.fanouts.list()])


async def cursors(visit: Visit, asked: CursorQuery) -> CursorPage:
    """How far the shards of a work have come."""
    found = await visit.app.fanouts.cursors(
        asked.topic, asked.work, behind=asked.behind, after=asked.after, limit=asked.limit
    )
    return CursorPage([shown(Cursor, each) for each in found])


async def edit(visit: Visit, asked: EditFanout) -> PolicySet:
    """Set how a work or a shard is planned."""
    policy = await visit.app.fanouts.edit(
        asked.topic,
        asked.work,
        asked.shard,
        every=_optional(asked.every),
        jitter=_optional(asked.jitter),
        enabled=asked.enabled,
        by=visit.by,
    )
    return shown(PolicySet, policy)


async def reset(visit: Visit, asked: ResetFanout) -> PolicyReset:
    """Remove what was set."""
    return PolicyReset(await visit.app.fanouts.reset(asked.topic, asked.work, asked.shard, by=visit.by))


async def run(visit: Visit, asked: RunFanout) -> Planned:
    """Plan a work or a shard now, in this process."""
    planned = await visit.app.fanouts.run(asked.topic, asked.work, asked.shard, by=visit.by)
    return Planned(
        plain(planned.window), planned.published, {str(why): count for why, count in planned.skipped.items()}
    )


def _optional(given: Length | None) -> timedelta | str | None:
    return None if given is None else length(given)


ROUTES = (
    viewing("/api/fanouts", fanouts, "Every work of every fan-out", FanoutList),
    viewing("/api/fanouts/cursors", cursors, "How far the shards of a work have come", CursorPage, CursorQuery),
    acting("/api/fanouts/edit", edit, "Set how a work or a shard is planned", EditFanout, PolicySet),
    acting("/api/fanouts/reset", reset, "Plan a work or a shard as the code says", ResetFanout, PolicyReset),
    acting("/api/fanouts/run", run, "Plan a work or a shard now", RunFanout, Planned),
)
