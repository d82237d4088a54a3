"""Fan-outs: the progress of every shard."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from msgspec import Struct

from mainspring.app.fanout.coordinator import PlannedWindow
from mainspring.app.fanout.fanouts import FanoutView
from mainspring.dashboard.api.views import Rows, RowsPage
from mainspring.dashboard.responses import Problem, shown
from mainspring.dashboard.route import Call, Length, Name, Nothing, PageQuery, Params, Reason, Topic, get, length, post
from mainspring.model.fanout import CursorView, FanoutPolicy, SeekResult


class FanoutList(Rows[FanoutView], frozen=True):
    """Every work of every fan-out, by topic and work."""


class CursorQuery(PageQuery, frozen=True, kw_only=True):
    """The page of a work's shards to read."""

    topic: Topic
    work: Name
    behind: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard(CursorView):
    """The progress of one shard."""

    is_behind: bool = field()


class CursorPage(RowsPage[Shard], frozen=True):
    """Shards, by name."""


class ResetFanout(Params, frozen=True):
    """A work, or one shard of it, whose policy to remove."""

    topic: Topic
    work: Name
    shard: Name | None = None


class EditFanout(ResetFanout, frozen=True):
    """The planning policy of a work, or of one shard of it, from the next window on."""

    every: Length | None = None
    jitter: Length | None = None
    enabled: bool | None = None


class SeekFanout(ResetFanout, frozen=True):
    """A work, or one shard of it, whose cursor to move: to a window, or to the start."""

    to: datetime | None = None
    """The window to continue after; without an offset in UTC."""
    to_start: bool = False
    """As if nothing was ever completed."""
    reason: Reason = ""


class RunFanout(Params, frozen=True):
    """A work, or one shard of it, to plan now."""

    topic: Topic
    work: Name | None = None
    shard: Name | None = None


class PolicyReset(Struct, frozen=True):
    """Whether there was a policy to remove."""

    reset: bool


async def fanouts(call: Call, _params: Nothing) -> FanoutList:
    """Return every work of every fan-out."""
    return FanoutList(await call.app.fanouts.list())


async def cursors(call: Call, params: CursorQuery) -> CursorPage:
    """Return the progress of the shards of a work."""
    found = await call.app.fanouts.cursors(
        params.topic, params.work, behind=params.behind, cursor=params.cursor, limit=params.limit
    )
    return CursorPage([shown(Shard, each) for each in found], found.cursor)


async def edit(call: Call, params: EditFanout) -> FanoutPolicy:
    """Set the planning policy of a work or a shard."""
    return await call.app.fanouts.edit(
        params.topic,
        params.work,
        params.shard,
        every=length(params.every),
        jitter=length(params.jitter),
        enabled=params.enabled,
        by=call.by,
    )


async def reset(call: Call, params: ResetFanout) -> PolicyReset:
    """Remove the planning policy of a work or a shard."""
    return PolicyReset(await call.app.fanouts.reset(params.topic, params.work, params.shard, by=call.by))


async def seek(call: Call, params: SeekFanout) -> SeekResult:
    """Move the cursor of a shard, or of every shard of a work."""
    to = params.to
    if (to is None) != params.to_start:
        raise Problem(422, "invalid", "give to, a time such as 2026-11-01T02:00:00Z, or to_start, and not both")
    window = to.replace(tzinfo=UTC) if to is not None and to.tzinfo is None else to
    return await call.app.fanouts.seek(
        params.topic, params.work, params.shard, to=window, reason=params.reason, by=call.by
    )


async def run(call: Call, params: RunFanout) -> PlannedWindow:
    """Plan a work or a shard now, in this process."""
    return await call.app.fanouts.run(params.topic, params.work, params.shard, by=call.by)


ROUTES = (
    get("/api/fanouts", fanouts, "Every work of every fan-out"),
    get("/api/fanouts/cursors", cursors, "The progress of a work's shards"),
    post("/api/fanouts/edit", edit, "Set the planning policy of a work or a shard"),
    post("/api/fanouts/reset", reset, "Remove the planning policy of a work or a shard"),
    post("/api/fanouts/seek", seek, "Move the cursor of a shard, or of every shard of a work"),
    post("/api/fanouts/run", run, "Plan a work or a shard now"),
)
