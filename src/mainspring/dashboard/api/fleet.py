"""The overview of a fleet: its databases as the survey has read them, and their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from mainspring.app.fleet.state import FleetState
from mainspring.app.fleet.survey import Reading, Survey, survey_of
from mainspring.app.observe.metrics import CAP
from mainspring.dashboard.api.overview import CheckShown
from mainspring.dashboard.responses import shown
from mainspring.dashboard.route import NO_NUL, Call, Nothing, Params, get
from mainspring.model.errors import NotOpen
from mainspring.model.health import ORDER, Check, Status, worst

_AGE = 1.0
"""How old a row may be, as far as the survey allows."""
_LASTS = 10.0
"""Seconds for which rows are read after a request: a page that is open asks again and again."""
_PATIENCE = 1.0
"""Seconds for which the first request waits for readings."""
_LONGEST_REASON = 500
_ORDERS = "^-?(database|status|ready|running|scheduled|dead|oldest|done|read)$"
Find: TypeAlias = Annotated[str, Meta(max_length=200, pattern=NO_NUL)]


class DatabasesQuery(Params, frozen=True):
    """The databases to show: those whose names contain every word of ``find``, in an order."""

    find: Find = ""
    unwell: bool = False
    """Only those that are not healthy, or have not been read."""
    sort: Annotated[str, Meta(pattern=_ORDERS)] | None = None
    """The field to sort by, with ``-`` in front for descending order [what is in trouble first]."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class NamesQuery(Params, frozen=True):
    """The names to show."""

    find: Find = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class DatabaseShown(Struct, frozen=True):
    """One database. Its counts are those of the last reading that succeeded; without any, all are null."""

    name: str
    status: Status | None
    """Null: it has not been read yet."""
    summary: str
    """Why it is not healthy."""
    error: str | None
    """Why it could not be read since."""
    read_at: datetime | None
    ready: int | None = None
    running: int | None = None
    scheduled: int | None = None
    dead: int | None = None
    oldest_ready_at: datetime | None = None
    rate: float | None = None
    """Done per second over the last minute."""


class DatabasesShown(Struct, frozen=True):
    """Rows of the overview. States are counted up to ``cap`` for each group."""

    now: datetime
    rows: list[DatabaseShown]
    found: int
    """How many match, of which the first are shown."""
    cap: int


class FleetShown(Struct, frozen=True):
    """A fleet in numbers: sums over all databases that have been read."""

    now: datetime
    status: Status
    databases: int
    unread: int
    degraded: int
    unhealthy: int
    ready: int
    running: int
    scheduled: int
    dead: int
    rate: float
    oldest_ready_at: datetime | None
    checks: list[CheckShown]
    """What is wrong with the fleet itself, as where its databases cannot be named."""


class NameShown(Struct, frozen=True):
    """A database, and its health if it was read lately."""

    name: str
    status: Status | None


class NamesShown(Struct, frozen=True):
    """Names of databases."""

    names: list[NameShown]
    found: int
    """How many match, of which the first are shown."""


async def fleet(call: Call, _params: Nothing) -> FleetShown:
    """Return the sums."""
    rows = await _rows(call)
    state = FleetState(call.fleet)
    own = [each for each in (state.discovery(), *_rejections(state)) if each.status != "healthy"]
    count: Callable[[Status | None], int] = [each.status for each in rows].count
    unhealthy = count("unhealthy")
    # One that is dead makes the others no worse: a fleet is unhealthy when all are.
    degraded: Status = "unhealthy" if rows and unhealthy == len(rows) else "degraded"
    status = worst([degraded if unhealthy or count("degraded") else "healthy", *(each.status for each in own)])
    sums = {name: sum(getattr(each, name) or 0 for each in rows) for name in ("ready", "running", "scheduled", "dead")}
    return FleetShown(
        datetime.now(UTC),
        status,
        len(rows),
        count(None),
        count("degraded"),
        unhealthy,
        **sums,
        rate=sum(each.rate or 0.0 for each in rows),
        oldest_ready_at=min((each.oldest_ready_at for each in rows if each.oldest_ready_at is not None), default=None),
        checks=[shown(CheckShown, each) for each in own],
    )


async def databases(call: Call, params: DatabasesQuery) -> DatabasesShown:
    """Return the databases."""
    rows = await _rows(call)
    words = params.find.lower().split()
    found = [each for each in rows if all(word in each.name.lower() for word in words)]
    if params.unwell:
        found = [each for each in found if each.status != "healthy"]
    ordered = _ordered(found, params.sort)[: params.limit]
    _survey(call).show([each.name for each in ordered])
    return DatabasesShown(datetime.now(UTC), ordered, len(found), CAP)


async def names(call: Call, params: NamesQuery) -> NamesShown:
    """Return the names of databases. Reads none of them."""
    if not FleetState(call.fleet).is_open:
        raise NotOpen("the names of the databases")
    words = params.find.lower().split()
    found = [name for name in call.fleet if all(word in name.lower() for word in words)]
    known = _survey(call).read()
    rows = [NameShown(name, None if (seen := known.get(name)) is None else seen.health.status) for name in found]
    return NamesShown(rows[: params.limit], len(found))


def _survey(call: Call) -> Survey:
    return survey_of(call.fleet)


async def _rows(call: Call) -> list[DatabaseShown]:
    survey = _survey(call)
    survey.ask(_AGE, "the overview of the fleet", lasts=_LASTS)
    read = survey.read()
    if read and not any(read.values()):
        await survey.caught_up(_PATIENCE)
        read = survey.read()
    return [_row(name, reading) for name, reading in read.items()]


def _row(name: str, reading: Reading | None) -> DatabaseShown:
    if reading is None:
        return DatabaseShown(name, None, "", None, None)
    counts: Mapping[str, Any] = {}
    if (tally := reading.tally) is not None and (rates := reading.rates) is not None:
        oldest = [each.oldest_ready_at for each in tally.groups if each.oldest_ready_at is not None]
        counts = {
            "ready": sum(each.ready for each in tally.groups),
            "running": sum(each.running + each.lapsed for each in tally.groups),
            "scheduled": sum(each.scheduled for each in tally.groups),
            "dead": sum(each.dead for each in tally.groups),
            "oldest_ready_at": min(oldest, default=None),
            "rate": sum(rates.rate(each.group) for each in tally.groups),
        }
    why = "; ".join(each.summary for each in reading.health.checks if each.status != "healthy")
    return DatabaseShown(name, reading.health.status, why[:_LONGEST_REASON], reading.error, reading.read_at, **counts)


_KEYS: Mapping[str, Callable[[DatabaseShown], Any]] = {
    "database": lambda each: each.name,
    "status": lambda each: None if each.status is None else ORDER.index(each.status),
    "ready": lambda each: each.ready,
    "running": lambda each: each.running,
    "scheduled": lambda each: each.scheduled,
    "dead": lambda each: each.dead,
    "oldest": lambda each: None if each.oldest_ready_at is None else -each.oldest_ready_at.timestamp(),
    "done": lambda each: each.rate,
    "read": lambda each: each.read_at,
}


def _ordered(rows: list[DatabaseShown], sort: str | None) -> list[DatabaseShown]:
    """Return them sorted; rows without a value are last. Unasked: the worst first, and those in trouble by name."""
    if sort is None:
        return sorted(rows, key=lambda each: (-1 if each.status is None else -ORDER.index(each.status), each.name))
    key = _KEYS[sort.removeprefix("-")]
    valued = sorted((each for each in rows if key(each) is not None), key=key, reverse=sort.startswith("-"))
    return [*valued, *(each for each in rows if key(each) is None)]


def _rejections(state: FleetState) -> list[Check]:
    return [Check(f"database {name}", "degraded", why) for name, why in sorted(state.rejected.items())]


ROUTES = (
    get("/api/fleet", fleet, "Sums over all databases of the fleet"),
    get("/api/databases", databases, "The databases of the fleet, as they were read last"),
    get("/api/databases/names", names, "The names of the databases"),
)
