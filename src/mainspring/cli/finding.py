"""Looking up a schedule by its name on the command line."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from mainspring.app.mainspring import Mainspring
from mainspring.app.schedule_view import ScheduleView
from mainspring.cli.failures import Refused
from mainspring.cli.words import plain
from mainspring.model.errors import MainspringError

Name = Annotated[str, Parameter(name="SCHEDULE", help="The schedule's name, as in `schedules list`.")]


async def found(opened: Mainspring, name: str) -> ScheduleView:
    """Return the schedule; raise with the nearest name if there is none."""
    view = await opened.schedules.get(name)
    if view is None:
        raise await unknown(opened, name)
    return view


async def followed(opened: Mainspring, name: str) -> ScheduleView:
    """Return the schedule; raise Refused if only its own application can compute its days."""
    view = await found(opened, name)
    if remedy := remedy_for(view):
        raise Refused(f"{name}: {remedy}")
    return view


def remedy_for(view: ScheduleView) -> str | None:
    """Return why its times cannot be computed here and what to type, if nothing else is wrong with it."""
    # A schedule that no process can compute has no description.
    if view.problem is None or not view.description:
        return None
    return f"{view.problem}: give its application: --app MODULE:APP"


async def unknown(opened: Mainspring, name: str) -> MainspringError:
    """Return the application's own error for a schedule that does not exist."""
    try:
        await opened.schedules.next(name, 1)
    except MainspringError as error:
        return error
    return Refused(f"the schedule {name!r} was created just now: retry")


def values(view: ScheduleView) -> dict[str, Any]:
    """Return the schedule as JSON."""
    return {**plain(view), "never_ran": view.never_ran}
