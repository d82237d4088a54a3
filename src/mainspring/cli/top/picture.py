"""The contents of ``mainspring top``: read from the database, each part as often as it changes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, TypeVar
from uuid import UUID

from mainspring.app.mainspring import Mainspring
from mainspring.app.observe.doctor import values
from mainspring.cli.output import first_line
from mainspring.model.health import Status
from mainspring.model.measures import RatesView
from mainspring.model.views import Counts, GroupView, Roster, Tally

T = TypeVar("T")

GroupState = Literal["served", "paused", "tripped", "unserved"]
"""Tripped: the breaker is open in some worker. Unserved: no live worker has its consumer."""

PACE = 30
"""How many spans of ten seconds a group's throughput shows."""
_CAP = 100_000
_OVER = timedelta(seconds=50)
"""The window of rates, besides the current ten seconds."""
_CACHED_FOR = 5.0
"""Seconds between two reads of what changes seldom."""
_PACED = 24
"""The number of groups whose throughput is read; each costs a query."""
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class GroupLine:
    """The counts and rates of one group."""

    name: str
    state: GroupState
    ready: int
    scheduled: int
    running: int
    dead: int
    oldest: timedelta | None
    """How long the oldest delivery has been due."""
    rate: float
    """Deliveries done per second, over the last minute."""
    failing: float
    """Failed attempts per second."""
    p95: float | None
    """The 95th percentile of the duration of attempts in the last minute, in seconds."""
    pace: tuple[int, ...] = ()
    """Deliveries done in each of the last complete spans of ten seconds, the latest last."""
    lapsed: int = 0
    """Deliveries whose claims lapsed and that wait to be taken over."""


@dataclass(frozen=True, slots=True)
class Upcoming:
    """A schedule and its next time."""

    name: str
    next_at: datetime
    description: str


@dataclass(frozen=True, slots=True)
class Failing:
    """A failed attempt."""

    at: datetime
    group: str
    message_id: UUID
    status: str
    attempt: int
    error: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The contents of one frame."""

    app: str
    database: str
    now: datetime
    """In the database's time."""
    health: Status
    reasons: tuple[str, ...]
    """Why the status is not healthy."""
    workers: int
    in_hand: int
    draining: int
    """Workers that are draining."""
    parked: int
    cap: int
    """Counts from here on are lower bounds."""
    groups: tuple[GroupLine, ...]
    upcoming: tuple[Upcoming, ...]
    failures: tuple[Failing, ...]


class Watcher:
    """Reads one picture after another; what changes seldom is read seldom."""

    def __init__(self, app: Mainspring) -> None:
        self._app = app
        self._database = values(app.options, app)[0].value
        self._kept: dict[str, tuple[float, object]] = {}
        self.replied_at: float = time.monotonic()
        """When the database last replied."""

    async def picture(self) -> Picture:
        """Read the current picture."""
        app = self._app
        tally, roster = await self._timed(app.stats.tally(_CAP)), await self._timed(app.stats.roster())
        rates = await self._timed(app.stats.rates(_OVER))
        health = await self._cached("health", app.health)
        upcoming = await self._cached("schedules", self._upcoming)
        if upcoming and upcoming[0].next_at <= tally.now:  # it has been fired since
            del self._kept["schedules"]
            upcoming = await self._cached("schedules", self._upcoming)
        failures = await self._cached("failures", self._failures)
        alive = roster.alive()
        groups = _lines(tally, roster, rates)
        busiest = sorted(groups, key=lambda each: (each.rate + each.failing, each.ready), reverse=True)[:_PACED]
        pace = {each.name: await self._cached(f"pace {each.name}", partial(self._pace, each.name)) for each in busiest}
        return Picture(
            app=app.options.name,
            database=self._database,
            now=tally.now,
            health=health.status,
            reasons=tuple(f"{each.name}: {each.summary}" for each in health.checks if each.status != "healthy"),
            workers=len(alive),
            in_hand=sum(each.in_hand for each in alive),
            draining=sum(each.draining_at is not None for each in alive),
            parked=tally.parked,
            cap=_CAP,
            groups=tuple(replace(each, pace=pace.get(each.name, ())) for each in groups),
            upcoming=upcoming,
            failures=failures,
        )

    async def _timed(self, answer: Awaitable[T]) -> T:
        reply = await answer
        self.replied_at = time.monotonic()
        return reply

    async def _cached(self, name: str, read: Callable[[], Awaitable[T]]) -> T:
        now = time.monotonic()
        at, kept = self._kept.get(name, (float("-inf"), None))
        if now - at >= _CACHED_FOR:
            self._kept[name] = now, (kept := await self._timed(read()))
        return kept  # type: ignore[return-value]  # what was read under a name is what its reader gave

    async def _upcoming(self) -> tuple[Upcoming, ...]:
        active = [each for each in await self._app.schedules.list() if each.state == "active"]
        due = [Upcoming(each.name, each.next_at, each.description) for each in active if each.next_at is not None]
        return tuple(sorted(due, key=lambda each: each.next_at)[:_SHOWN])

    async def _failures(self) -> tuple[Failing, ...]:
        return tuple(
            Failing(each.finished_at, each.group, each.message_id, each.status, each.attempt, first_line(each.error))
            for each in await self._app.messages.failures(limit=_SHOWN)
        )

    async def _pace(self, group: str) -> tuple[int, ...]:
        # The last span is incomplete, and would look like a halt.
        *over, _ = (await self._app.stats.measures("15m", group)).buckets
        return tuple(bucket.done for bucket in over[-PACE:])


def _lines(tally: Tally, roster: Roster, rates: RatesView) -> list[GroupLine]:
    counts = {each.group: each for each in tally.groups}
    alive = roster.alive()
    served = roster.served()
    tripped = {group for each in alive for group in each.tripped}
    return [
        _line(each, counts.get(each.name, Counts(each.name)), _state(each, served, tripped), tally.now, rates)
        for each in sorted(roster.groups, key=lambda each: each.name)
    ]


def _line(group: GroupView, counts: Counts, state: GroupState, now: datetime, rates: RatesView) -> GroupLine:
    oldest = counts.oldest_ready_at
    return GroupLine(
        name=group.name,
        state=state,
        ready=counts.ready,
        scheduled=counts.scheduled,
        running=counts.running,
        lapsed=counts.lapsed,
        dead=counts.dead,
        oldest=None if oldest is None else max(now - oldest, timedelta()),
        rate=rates.rate(group.name),
        failing=rates.failing(group.name),
        p95=rates.of(group.name).run.quantile(0.95),
    )


def _state(group: GroupView, served: set[str], tripped: set[str]) -> GroupState:
    if group.paused_at is not None:
        return "paused"
    if group.name in tripped:
        return "tripped"
    return "served" if group.name in served else "unserved"
