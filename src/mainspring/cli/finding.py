"""From a name on the command line to the schedule it means."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from mainspring.app.mainspring import Mainspring
from mainspring.app.schedule_view import ScheduleView
from mainspring.cli.failures import Refused
from mainspring.cli.words import plain
from mainspring.model.errors import MainspringError

Name = Annotated[str, Parameter(name="SCHEDULE", help="The schedule's name, as `schedules list` shows it.")]


async def found(opened: Mainspring, name: str) -> ScheduleView:
    """The schedule; raises with the nearest name where there is none of this one."""
    view = await opened.schedules.get(name)
    if view is None:
        raise await unknown(opened, name)
    return view


async def followed(opened: Mainspring, name: str) -> ScheduleView:
    """The schedule; raises Refused where only its own application can tell its days."""
    view = await found(opened, name)
    if remedy := remedy_for(view):
        raise Refused(f"{name}: {remedy}")
    return view


def remedy_for(view: ScheduleView) -> str | None:
    """What keeps it from being followed here and what to write, where that is all that is wrong with it."""
    # What nobody could follow has no description.
    if view.problem is None or not view.description:
        return None
    return f"{view.problem}: name its application by --app MODULE:APP"


async def unknown(opened: Mainspring, name: str) -> MainspringError:
    """There is no such schedule: what the application itself says of that."""
    try:
        await opened.schedules.next(name, 1)
    except MainspringError as error:
        return error
    return Refused(f"the schedule {name!r} was made in this moment: try again")


def values(view: ScheduleView) -> dict[str, Any]:
    """The schedule as JSON."""
    return {**plain(view), "never_ran": view.never_ran}
