"""The overview screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec import Struct

from mainspring.dashboard.api.views import MeasuresShown, measures
from mainspring.dashboard.responses import shown
from mainspring.dashboard.route import Call, Params, get
from mainspring.model.health import Status
from mainspring.model.measures import Window
from mainspring.model.views import Counts, Roster, RunView, Tally

CAP = 10_000
"""The maximum count per state: it is read more than once a second."""
_FAILURES = 8


class OverviewQuery(Params, frozen=True):
    """The window of the measures."""

    window: Window = "15m"


class CheckShown(Struct, frozen=True):
    """One health check."""

    name: str
    status: Status
    summary: str


class HealthShown(Struct, frozen=True):
    """The health of the system."""

    status: Status
    checks: list[CheckShown]


class Totals(Struct, frozen=True):
    """The sums over all groups."""

    scheduled: int
    ready: int
    running: int
    lapsed: int
    dead: int
    parked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Counts):
    """The counts and rates of one group."""

    rate: float
    """Done per second over the last minute."""
    failing: float
    """Failed per second over the last minute, whether retried or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShown(Load):
    """The counts and rates of one group, and whether it is paused."""

    paused: bool


class WorkersShown(Struct, frozen=True):
    """The numbers of workers by state."""

    alive: int
    silent: int
    in_hand: int


class NextShown(Struct, frozen=True):
    """A schedule that is due soon."""

    name: str
    next_at: datetime
    rhythm: str
    description: str
    timezone: str


class Overview(Struct, frozen=True):
    """The overview. States are counted up to ``cap`` for each group."""

    now: datetime
    window: str
    health: HealthShown
    totals: Totals
    cap: int
    oldest_ready_at: datetime | None
    groups: list[GroupShown]
    measures: MeasuresShown
    workers: WorkersShown
    next: list[NextShown]
    failures: list[RunView]


async def overview(call: Call, params: OverviewQuery) -> Overview:
    """Return the overview."""
    app = call.app
    tally, roster = await app.stats.tally(CAP), await app.stats.roster()
    health = await call.readings.shown()
    failures = await app.messages.failures(limit=_FAILURES)
    oldest = [each.oldest_ready_at for each in tally.groups if each.oldest_ready_at is not None]
    return Overview(
        tally.now,
        params.window,
        HealthShown(health.status, [shown(CheckShown, each) for each in health.checks]),
        _totals(tally),
        CAP,
        min(oldest, default=None),
        await _groups(call, tally.groups, roster),
        measures(await call.readings.measures(params.window)),
        _workers(roster),
        [shown(NextShown, each) for each in await call.readings.coming()],
        failures,
    )


def _totals(tally: Tally) -> Totals:
    names = ("scheduled", "ready", "running", "lapsed", "dead")
    summed = {name: sum(getattr(each, name) for each in tally.groups) for name in names}
    return Totals(**summed, parked=tally.parked)


async def _groups(call: Call, counts: Sequence[Counts], roster: Roster) -> list[GroupShown]:
    paused = {each.name for each in roster.groups if each.paused_at is not None}
    pace = await call.app.stats.rates("1m")
    return [
        shown(
            GroupShown,
            each,
            paused=each.group in paused,
            rate=pace.rate(each.group),
            failing=pace.failing(each.group),
        )
        for each in counts
    ]


def _workers(roster: Roster) -> WorkersShown:
    alive = roster.alive()
    return WorkersShown(len(alive), len(roster.workers) - len(alive), sum(each.in_hand for each in alive))


ROUTES = (get("/api/overview", overview, "Counts, rates and health"),)
