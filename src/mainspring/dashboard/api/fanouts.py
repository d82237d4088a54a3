"""Fan-outs: the progress of every shard."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from mainspring.dashboard.answers import plain, shown
from mainspring.dashboard.reading import Length, Limit, Name, Topic, length
from mainspring.dashboard.route import Nothing, Visit, acting, viewing


class Fanout(Struct, frozen=True):
    """A work of a fan-out. Intervals and jitter in seconds."""

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
    """The page of a work's cursors to read; ``after`` is the last shard of the previous page."""

    topic: Topic
    work: Name
    behind: bool = False
    after: Name | None = None
    limit: Limit = 50


class Cursor(Struct, frozen=True):
    """The progress of one shard."""

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
    """The planning policy of a work, or of one shard of it, from the next window on."""

    topic: Topic
    work: Name
    shard: Name | None = None
    every: Length | None = None
    jitter: Length | None = None
    enabled: bool | None = None


class ResetFanout(Struct, frozen=True, forbid_unknown_fields=True):
    """A work, or one shard of it, whose policy to remove."""

    topic: Topic
    work: Name
    shard: Name | None = None


class RunFanout(Struct, frozen=True, forbid_unknown_fields=True):
    """A work, or one shard of it, to plan now."""

    topic: Topic
    work: Name | None = None
    shard: Name | None = None


class PolicySet(Struct, frozen=True):
    """The policy set at run time; null: that of the work, or of the code, applies."""

    enabled: bool | None
    every: float | None
    jitter: float | None


class PolicyReset(Struct, frozen=True):
    """Whether there was a policy to remove."""

    reset: bool


class Planned(Struct, frozen=True):
    """How many slices were published, and how many shards were skipped, by reason."""

    window: datetime
    published: int
    skipped: dict[str, int]


async def fanouts(visit: Visit, _asked: Nothing) -> FanoutList:
    """Return every work of every fan-out."""
    return FanoutList([shown(Fanout, each) for each in await visit.app.fanouts.list()])


async def cursors(visit: Visit, asked: CursorQuery) -> CursorPage:
    """Return the progress of the shards of a work."""
    found = await visit.app.fanouts.cursors(
        asked.topic, asked.work, behind=asked.behind, after=asked.after, limit=asked.limit
    )
    return CursorPage([shown(Cursor, each) for each in found])


async def edit(visit: Visit, asked: EditFanout) -> PolicySet:
    """Set the planning policy of a work or a shard."""
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
    """Remove the planning policy of a work or a shard."""
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
    viewing("/api/fanouts/cursors", cursors, "The progress of a work's shards", CursorPage, CursorQuery),
    acting("/api/fanouts/edit", edit, "Set the planning policy of a work or a shard", EditFanout, PolicySet),
    acting("/api/fanouts/reset", reset, "Remove the planning policy of a work or a shard", ResetFanout, PolicyReset),
    acting("/api/fanouts/run", run, "Plan a work or a shard now", RunFanout, Planned),
)
