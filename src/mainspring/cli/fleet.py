"""``mainspring fleet``: the databases of a fleet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from cyclopts import App

from mainspring.app.fleet.fleet import Fleet
from mainspring.app.fleet.report import of_member, over
from mainspring.app.mainspring import Mainspring
from mainspring.cli.errors import Refused
from mainspring.cli.output import Column, Columns, print_line, print_list
from mainspring.cli.target import Json, OfApp, OfDatabases, Spec, Target, application
from mainspring.model.health import Status

app: App = App(name="fleet", help="List the databases of a fleet, and move one to another place.")


@dataclass(frozen=True, slots=True)
class DatabaseView:
    """A database of a fleet, and how much is in it."""

    database: str
    status: Status | Literal["unreachable", "rejected"]
    """``rejected``: an entry of the fleet's databases that cannot be used."""
    problem: str | None = None
    """Why it is not healthy."""
    url: str | None = None
    """Without secrets."""
    home: bool = False
    ready: int | None = None
    scheduled: int | None = None
    running: int | None = None
    lapsed: int | None = None
    dead: int | None = None
    parked: int | None = None


_COLUMNS: Columns[DatabaseView] = (
    Column("database", lambda each: each.database),
    Column("status", lambda each: each.status),
    Column("ready", lambda each: each.ready, right=True),
    Column("scheduled", lambda each: each.scheduled, right=True, spare=True),
    Column("running", lambda each: each.running, right=True, spare=True),
    Column("dead", lambda each: each.dead, right=True),
    Column("url", lambda each: each.url, elastic=True),
)
_HOME: Column[DatabaseView] = Column("note", lambda each: "home" if each.home else "")
_COUNTED = ("ready", "scheduled", "running", "lapsed", "dead")
_SHUT = ("storage", "schema")
"""Checks without which nothing else is read: what they find keeps the app from opening."""


def fleet_of(app: str | None, named: str | None, databases: tuple[str, ...] = ()) -> tuple[Fleet, Target]:
    """Return the fleet of a command that needs one, and how it was named."""
    spec, target = application(app, named, databases)
    found = target.load()
    if not isinstance(found, Fleet):
        raise Refused(f"{spec} is an app, not a fleet.{target.instead(Fleet)}")
    return found, target


@app.command(name="list")
async def list_(
    app: Spec | None = None, /, *, named: OfApp = None, database: OfDatabases = (), json: Json = False
) -> None:
    """List the databases of a fleet: their addresses, whether they are well, and how much waits in them."""
    fleet, target = fleet_of(app, named, database)
    members = fleet._chosen(await target.names(fleet))  # noqa: SLF001 - a fleet shows the apps on its databases only
    names = {each.app: each.name for each in members}
    report = await over(members, lambda app: _read(app, names[app], target))
    unreachable = {name: DatabaseView(name, "unreachable", str(error)) for name, error in report.errors.items()}
    found = {**report.results, **unreachable}
    views = [replace(found[each.name], url=each.address.shown) for each in members]
    if not database:
        rejected = fleet._databases.rejected  # noqa: SLF001 - as above
        views += [DatabaseView(name, "rejected", why) for name, why in rejected.items()]
    home = fleet._home_name  # noqa: SLF001 - as above
    views = [replace(each, home=each.database == home) for each in views]
    noted = (_HOME,) if any(each.home for each in views) else ()
    if print_list((*_COLUMNS, *noted), views, json=json, empty="The fleet has no databases."):
        for each in views:
            if each.problem is not None:
                print_line(f"{each.database}: {each.problem}", style="yellow")


async def _read(app: Mainspring, name: str, target: Target) -> DatabaseView:
    health = of_member(await app.health())
    unwell = {each.name: each for each in health.checks if each.status != "healthy"}
    problem = "; ".join(target.on(name).advised(each.summary) for each in unwell.values()) or None
    if any(each.status == "unhealthy" and each.name in _SHUT for each in unwell.values()):
        return DatabaseView(name, "unreachable" if "storage" in unwell else health.status, problem)
    async with app:
        tally = await app.stats.tally()
    counts = {kind: sum(getattr(each, kind) for each in tally.groups) for kind in _COUNTED}
    return DatabaseView(name, health.status, problem, parked=tally.parked, **counts)
