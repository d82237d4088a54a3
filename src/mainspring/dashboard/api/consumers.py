"""Consumers: their groups and load, and pausing them."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from mainspring.dashboard.answers import plain, shown
from mainspring.dashboard.api.measuring import paces, percentiles
from mainspring.dashboard.api.overview import CAP, SILENT_AFTER
from mainspring.dashboard.api.shapes import Percentiles
from mainspring.dashboard.reading import Name, Reason
from mainspring.dashboard.route import Nothing, Visit, acting, viewing
from mainspring.model.views import Counts


class Consumer(Struct, frozen=True):
    """A declared group and its load."""

    group: str
    app: str
    handler: str
    patterns: list[str]
    options: dict[str, str]
    declared_at: datetime
    served_at: datetime | None
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    scheduled: int
    ready: int
    running: int
    lapsed: int
    dead: int
    oldest_ready_at: datetime | None
    handled: int
    failed: int
    rate: float
    failing: float
    run: Percentiles
    wait: Percentiles
    workers: list[str]
    """The live workers that serve it."""
    tripped: bool
    """Whether its breaker is open in at least one worker."""


class ConsumerList(Struct, frozen=True):
    """The declared groups, by name."""

    rows: list[Consumer]


class PauseGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """A group to pause."""

    group: Name
    reason: Reason = ""


class ResumeGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """A group to resume."""

    group: Name


async def consumers(visit: Visit, _asked: Nothing) -> ConsumerList:
    """Return the declared groups, by name."""
    return ConsumerList(await declared(visit))


async def declared(visit: Visit, only: str | None = None) -> list[Consumer]:
    """Return the declared groups, by name, or the one of this name."""
    roster, tally, pace = await visit.app.roster(), await visit.app.tally(CAP), await paces(visit.app)
    counts = {each.group: each for each in tally.groups}
    alive = [each for each in roster.workers if roster.now - each.beat_at <= SILENT_AFTER]
    rows = []
    for group in sorted(roster.groups, key=lambda each: each.name):
        if only is not None and group.name != only:
            continue
        counted, lately = counts.get(group.name, Counts(group.name)), pace.of(group.name)
        numbers = {name: plain(getattr(counted, name)) for name in Counts.__slots__ if name != "group"}
        rows.append(
            shown(
                Consumer,
                group,
                **numbers,
                group=group.name,
                patterns=list(group.patterns),
                pause_reason=visit.redaction.optional(group.pause_reason),
                rate=pace.rate(group.name),
                failing=pace.failing(group.name),
                run=percentiles(lately.run),
                wait=percentiles(lately.wait),
                workers=sorted(each.name for each in alive if group.name in each.groups),
                tripped=any(group.name in each.tripped for each in alive),
            )
        )
    return rows


async def pause(visit: Visit, asked: PauseGroup) -> None:
    """Stop claiming a group's deliveries."""
    await visit.app.groups.pause(asked.group, by=visit.by, reason=asked.reason)


async def resume(visit: Visit, asked: ResumeGroup) -> None:
    """Claim a group's deliveries again."""
    await visit.app.groups.resume(asked.group, by=visit.by)


ROUTES = (
    viewing("/api/consumers", consumers, "The declared groups and their load", ConsumerList),
    acting("/api/consumers/pause", pause, "Stop claiming a group's deliveries", PauseGroup),
    acting("/api/consumers/resume", resume, "Claim a group's deliveries again", ResumeGroup),
)
