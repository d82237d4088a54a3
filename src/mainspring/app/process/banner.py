"""What a worker prints once it is ready: databases, groups, brokers, schedules, and what it skips, with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from mainspring.app.fleet.databases import Chosen, is_chosen
from mainspring.app.mainspring import Mainspring
from mainspring.app.schedule.view import ScheduleView
from mainspring.model.errors import MainspringError
from mainspring.model.views import GroupView

if TYPE_CHECKING:
    from mainspring.app.consume.consumer import Registration
    from mainspring.app.fleet.fleet import Fleet

_MOST = 20
"""How many groups or schedules are named, and how many that are skipped; the rest are counted."""
_WIDTH = 11
_LONGEST = 200
"""The number of characters shown of an operator's reason."""


def counted(fleet: Fleet, databases: Chosen) -> str:
    """Return how many databases a worker of these serves: ``3 databases``, ``2 of 3 databases``."""
    served = sum(is_chosen(name, databases) for name in fleet)
    known = f"{len(fleet):,} database{'' if len(fleet) == 1 else 's'}"
    return known if databases is None else f"{served:,} of {known}"


async def banner(
    app: Mainspring | Fleet,
    groups: Collection[str] | None = None,
    concurrency: int | None = None,
    databases: Chosen = None,
) -> list[str]:
    """Return the lines for a worker of these groups [all]. Without its database, only what the code says.

    Of a fleet, what the code says, and the databases.
    """
    code = app._code  # noqa: SLF001 - same package
    options, consumers = code.options, list(code.consumers)
    named = {groups} if isinstance(groups, str) else set(groups or ())
    paused, schedules = await _read(app) if isinstance(app, Mainspring) else ({}, [])
    served = [each for each in consumers if not named or each.group in named]
    topics = {each.group: ", ".join(each.topics) or each.receives for each in served}
    skipped = [
        *(f"group {each.group}: not named by --group" for each in consumers if each not in served),
        *(
            f"group {name}: paused{_by(paused[name].paused_by, paused[name].pause_reason)}"
            for name in topics
            if name in paused
        ),
        *(f"schedule {each.name}: {why}" for each in schedules if (why := _stopped(each)) is not None),
    ]
    most = concurrency or options.worker_concurrency
    if isinstance(app, Mainspring):
        # Same package: no other module needs the address, which may hold a password.
        where = _lines("database", [f"{app._own.place.address.shown}, tables of {options.tables}"])  # noqa: SLF001
        span = "over all groups"
        timed = _listed({each.name: _rhythm(each) for each in schedules if _stopped(each) is None})
    else:
        where = _lines("databases", [_named([name for name in app if is_chosen(name, databases)])])
        span = "over all groups of a database"
        timed = _named(list(code.registry.scheduled()))
    return [
        *where,
        *_lines("groups", [_listed(topics)]),
        *_lines("brokers", _capped([line for each in served if (line := _broker(each)) is not None])),
        *_lines("at once", [] if most is None else [f"{most:,} {span}"]),
        *_lines("schedules", [timed] if timed else []),
        *_lines("skipped", _capped(skipped)),
    ]


async def _read(app: Mainspring) -> tuple[dict[str, GroupView], list[ScheduleView]]:
    """Return the paused groups by name, and the app's schedules."""
    try:
        roster, schedules = await app.stats.roster(), await app.schedules.list(app=app.options.name)
    except MainspringError:  # it is logged where the worker needs it
        return {}, []
    return {each.name: each for each in roster.groups if each.paused_at is not None}, schedules


def _stopped(schedule: ScheduleView) -> str | None:
    """Return why this schedule does not fire; None if it does."""
    match schedule.state:
        case "active":
            return None
        case "paused":
            return f"paused{_by(schedule.paused_by, schedule.pause_reason)}"
        case "frozen":
            return f"frozen{_by(schedule.frozen_by, schedule.freeze_reason)}"
        case "broken":
            return f"broken: {_safe(schedule.problem)}"
        case "retired":
            return "its code is gone"
        case "finished":
            return "it has no occurrence left"


def _by(actor: str | None, reason: str | None) -> str:
    """Return who stopped it and why, as far as that is known."""
    return ("" if not actor else f" by {_safe(actor)}") + ("" if not reason else f": {_safe(reason)}")


def _rhythm(schedule: ScheduleView) -> str:
    # An interval has no zone.
    return schedule.rhythm if schedule.rhythm.startswith("every") else f"{schedule.rhythm}, {schedule.timezone}"


def _broker(registration: Registration) -> str | None:
    """Return where a route sends to, or an intake reads from; None for a consumer."""
    options = registration.declaration("").options
    if "to" in options:
        return f"{registration.group} sends to {options['to']}"
    return f"{options['source']} is read from {options['from']}" if "from" in options else None


def _capped(lines: list[str]) -> list[str]:
    return lines[:_MOST] + ([f"and {more} more"] if (more := len(lines) - _MOST) > 0 else [])


def _listed(named: dict[str, str]) -> str:
    return _named([f"{name} ({what})" for name, what in named.items()])


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f", and {more} more" if more > 0 else "")


def _lines(title: str, lines: Sequence[str]) -> Iterator[str]:
    for place, line in enumerate(lines):
        yield f"  {title if place == 0 else '':<{_WIDTH}}{line}"


def _safe(text: str | None) -> str:
    """Return an operator's text on one line, without control characters."""
    shown = " ".join((text or "").split())[:_LONGEST]
    return "".join(each if each.isprintable() else "?" for each in shown)
