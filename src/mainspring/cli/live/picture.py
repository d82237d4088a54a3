"""What ``mainspring top`` shows: read from the database, each part as often as it changes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, TypeVar
from uuid import UUID

from mainspring.app.diagnosis import values
from mainspring.app.health import Status
from mainspring.app.mainspring import Mainspring
from mainspring.cli.words import first_line
from mainspring.model.measures import PacesView
from mainspring.model.views import Counts, GroupView, Roster, Tally

T = TypeVar("T")

GroupState = Literal["served", "paused", "tripped", "unserved"]
"""Tripped: a breaker is open in some worker. Unserved: no worker that is alive has its consumer."""

SILENT = timedelta(minutes=1)
"""A worker that has not reported itself for so long does not count."""
PACE = 30
"""How many spans of ten seconds a group's pace goes back."""
_CAP = 100_000
_OVER = timedelta(seconds=50)
"""How far rates look back, besides the ten seconds that are not over."""
_SELDOM = 5.0
"""Seconds between two looks at what changes seldom."""
_PACED = 24
"""Groups whose pace is read; each costs a query."""
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class GroupLine:
    """One group in numbers."""

    name: str
    state: GroupState
    ready: int
    scheduled: int
    running: int
    dead: int
    oldest: timedelta | None
    """How long the oldest has been due."""
    rate: float
    """Deliveries done in a second, over the last minute."""
    failing: float
    """Attempts that failed in a second."""
    p95: float | None
    """Seconds within which 95 of 100 attempts of the last minute have ended."""
    pace: tuple[int, ...] = ()
    """Deliveries done in each of the last spans of ten seconds that are over, the latest last."""
    lapsed: int = 0
    """How many its holders died with, that wait to be taken over."""


@dataclass(frozen=True, slots=True)
class Upcoming:
    """A schedule and when it comes next."""

    name: str
    next_at: datetime
    description: str


@dataclass(frozen=True, slots=True)
class Failing:
    """An attempt that failed."""

    at: datetime
    group: str
    message_id: UUID
    status: str
    attempt: int
    error: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that one frame shows."""

    app: str
    database: str
    now: datetime
    """By the database's clock."""
    health: Status
    reasons: tuple[str, ...]
    """Why it is not healthy."""
    workers: int
    in_hand: int
    draining: int
    """Workers that finish what they have, and claim no more."""
    parked: int
    cap: int
    """From where on it was not counted."""
    groups: tuple[GroupLine, ...]
    upcoming: tuple[Upcoming, ...]
    failures: tuple[Failing, ...]


class Watcher:
    """Reads one picture after another. What changes seldom is read seldom."""

    def __init__(self, app: Mainspring) -> None:
        self._app = app
        self._database = values(app.options, app)[0].value
        self._kept: dict[str, tuple[float, object]] = {}
        self.heard_at: float = time.monotonic()
        """When the database last answered."""

    async def picture(self) -> Picture:
        """What there is to see now."""
        app = self._app
        tally, roster = await self._heard(app.tally(_CAP)), await self._heard(app.roster())
        paces = await self._heard(app.paces(_OVER))
        health = await self._seldom("health", app.health)
        upcoming = await self._seldom("schedules", self._upcoming)
        if upcoming and upcoming[0].next_at <= tally.now:  # it has gone on by now
            del self._kept["schedules"]
            upcoming = await self._seldom("schedules", self._upcoming)
        failures = await self._seldom("failures", self._failures)
        alive = [each for each in roster.workers if roster.now - each.beat_at < SILENT]
        groups = _lines(tally, roster, paces)
        busiest = sorted(groups, key=lambda each: (each.rate + each.failing, each.ready), reverse=True)[:_PACED]
        pace = {each.name: await self._seldom(f"pace {each.name}", self._pace_of(each.name)) for each in busiest}
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
            groups=tuple(_paced(each, pace.get(each.name, ())) for each in groups),
            upcoming=upcoming,
            failures=failures,
        )

    async def _heard(self, answer: Awaitable[T]) -> T:
        told = await answer
        self.heard_at = time.monotonic()
        return told

    async def _seldom(self, name: str, read: Callable[[], Awaitable[T]]) -> T:
        now = time.monotonic()
        at, kept = self._kept.get(name, (float("-inf"), None))
        if now - at >= _SELDOM:
            self._kept[name] = now, (kept := await self._heard(read()))
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

    def _pace_of(self, group: str) -> Callable[[], Awaitable[tuple[int, ...]]]:
        async def read() -> tuple[int, ...]:
            # The last one is not over, and would look as if everything had come to a halt.
            *over, _ = (await self._app.measures("15m", group)).buckets
            return tuple(bucket.done for bucket in over[-PACE:])

        return read


def _lines(tally: Tally, roster: Roster, paces: PacesView) -> list[GroupLine]:
    counts = {each.group: each for each in tally.groups}
    alive = [each for each in roster.workers if roster.now - each.beat_at < SILENT]
    served = Counter(group for each in alive for group in each.groups)
    tripped = {group for each in alive for group in each.tripped}
    return [
        _line(each, counts.get(each.name, Counts(each.name)), _state(each, served, tripped), tally.now, paces)
        for each in sorted(roster.groups, key=lambda each: each.name)
    ]


def _line(group: GroupView, counts: Counts, state: GroupState, now: datetime, paces: PacesView) -> GroupLine:
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
        rate=paces.rate(group.name),
        failing=paces.failing(group.name),
        p95=paces.of(group.name).run.quantile(0.95),
    )


def _state(group: GroupView, served: Counter[str], tripped: set[str]) -> GroupState:
    if group.paused_at is not None:
        return "paused"
    if group.name in tripped:
        return "tripped"
    return "served" if served[group.name] else "unserved"


def _paced(line: GroupLine, pace: Sequence[int]) -> GroupLine:
    return replace(line, pace=tuple(pace))
