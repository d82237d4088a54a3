"""Consumers: their groups and load, one of them with its measures and failures, and pausing them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct

from mainspring.dashboard.api.messages import cause
from mainspring.dashboard.api.overview import CAP, Load
from mainspring.dashboard.api.views import MeasuresShown, Percentiles, Rows, measures, percentiles
from mainspring.dashboard.responses import Problem, shown
from mainspring.dashboard.route import Call, Name, Nothing, Params, Reason, get, post
from mainspring.model.measures import Window
from mainspring.model.message import ReleasedClaims
from mainspring.model.search import CauseView
from mainspring.model.views import Counts, RunView

_CAUSES, _FAILURES = 5, 8
_SEARCHED = 50
"""Its failures are searched among this many of its kept runs, and as many failures of all consumers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer(Load):
    """A declared group and its load."""

    app: str
    handler: str
    patterns: tuple[str, ...]
    options: Mapping[str, str]
    declared_at: datetime
    served_at: datetime | None
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    run: Percentiles
    wait: Percentiles
    workers: list[str]
    """The live workers that serve it."""
    tripped: bool
    """Whether its breaker is open in at least one worker."""


class ConsumerList(Rows[Consumer], frozen=True):
    """The declared groups, by name."""


class ResumeGroup(Params, frozen=True):
    """A group to resume."""

    group: Name


class PauseGroup(ResumeGroup, frozen=True):
    """A group to pause."""

    reason: Reason = ""


class ReleaseGroup(ResumeGroup, frozen=True):
    """A group whose lapsed claims to release, and how many at most."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000


async def consumers(call: Call, _params: Nothing) -> ConsumerList:
    """Return the declared groups, by name."""
    return ConsumerList(await declared(call))


async def declared(call: Call, only: str | None = None) -> list[Consumer]:
    """Return the declared groups, by name, or the one of this name."""
    stats = call.app.stats
    roster, tally, pace = await stats.roster(), await stats.tally(CAP), await stats.rates("1m")
    counts = {each.group: each for each in tally.groups}
    alive = roster.alive()
    rows = []
    for group in sorted(roster.groups, key=lambda each: each.name):
        if only is not None and group.name != only:
            continue
        counted, lately = counts.get(group.name, Counts(group.name)), pace.of(group.name)
        numbers = {each.name: getattr(counted, each.name) for each in fields(counted)}
        rows.append(
            shown(
                Consumer,
                group,
                **numbers,
                rate=pace.rate(group.name),
                failing=pace.failing(group.name),
                run=percentiles(lately.run),
                wait=percentiles(lately.wait),
                workers=sorted(each.name for each in alive if group.name in each.groups and each.app == group.app),
                tripped=any(group.name in each.tripped for each in alive),
            )
        )
    return rows


async def pause(call: Call, params: PauseGroup) -> None:
    """Stop claiming a group's deliveries."""
    await call.app.groups.pause(params.group, by=call.by, reason=params.reason)


async def resume(call: Call, params: ResumeGroup) -> None:
    """Claim a group's deliveries again."""
    await call.app.groups.resume(params.group, by=call.by)


async def release(call: Call, params: ReleaseGroup) -> ReleasedClaims:
    """Release a group's lapsed claims, and return how many were released, left and busy."""
    return await call.app.groups.release(params.group, limit=params.limit, by=call.by)


class ConsumerQuery(Params, frozen=True):
    """The consumer, and the window of its measures."""

    group: Name
    window: Window = "15m"


class ConsumerDetails(Struct, frozen=True):
    """A consumer, its ended deliveries by time, and its failures. Its states are counted up to ``cap``."""

    now: datetime
    window: Window
    cap: int
    consumer: Consumer
    measures: MeasuresShown
    causes: list[CauseView]
    """The causes of its dead letters, most frequent first."""
    more_causes: bool
    failures: list[RunView]
    """Its latest failed attempts, newest first."""


async def consumer(call: Call, params: ConsumerQuery) -> ConsumerDetails:
    """Return one consumer with its measures and failures."""
    found = await declared(call, params.group)
    if not found:
        raise Problem(404, "not_found", f"no consumer {params.group!r} is declared")
    causes = await call.app.dead.causes(group=params.group, limit=_CAUSES)
    return ConsumerDetails(
        datetime.now(UTC),
        params.window,
        CAP,
        found[0],
        measures(await call.readings.measures(params.window, params.group)),
        [cause(each) for each in causes.rows],
        causes.more,
        await _failures(call, params.group),
    )


async def _failures(call: Call, group: str) -> list[RunView]:
    """Return its latest failures; if it also keeps successes, search the failures of all consumers too."""
    kept = await call.app.messages.runs(group, limit=_SEARCHED)
    failed = await call.app.messages.failures(limit=_SEARCHED)
    own = {each.id: each for each in (*kept, *failed) if each.group == group and each.status in ("failed", "dead")}
    return sorted(own.values(), key=lambda each: (each.finished_at, each.id), reverse=True)[:_FAILURES]


ROUTES = (
    get("/api/consumers", consumers, "The declared groups and their load"),
    post("/api/consumers/pause", pause, "Stop claiming a group's deliveries"),
    post("/api/consumers/resume", resume, "Claim a group's deliveries again"),
    post("/api/consumers/release", release, "Release a group's lapsed claims"),
    get("/api/consumer", consumer, "One consumer, its measures and failures"),
)
