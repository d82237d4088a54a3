"""What a worker prints once it is ready: database, groups, brokers, schedules, and what it skips, with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from mainspring.app.schedule.view import ScheduleView
from mainspring.model.errors import MainspringError
from mainspring.model.views import GroupView

if TYPE_CHECKING:
    from mainspring.app.code import Code
    from mainspring.app.consume.consumer import Registration
    from mainspring.app.mainspring import Mainspring

_MOST = 20
"""How many groups or schedules are named, and how many that are skipped; the rest are counted."""
_WIDTH = 11
_LONGEST = 200
"""The number of characters shown of an operator's reason."""


async def banner(app: Mainspring, groups: Collection[str] | None = None, concurrency: int | None = None) -> list[str]:
    """Return the lines for a worker of these groups [all]. Without its database, only what the code says."""
    paused, schedules = await _read(app)
    # Same package: no other module needs the address, which may hold a password.
    place = f"{app._own.place.address.shown}, tables of {app.options.tables}"  # noqa: SLF001
    return written(
        app._code,  # noqa: SLF001 - same package
        groups,
        concurrency,
        place=("database", place),
        span="over all groups",
        schedules=listed(f"{each.name} ({_rhythm(each)})" for each in schedules if _stopped(each) is None),
        paused={name: _by(each.paused_by, each.pause_reason) for name, each in paused.items()},
        stopped=[f"schedule {each.name}: {why}" for each in schedules if (why := _stopped(each)) is not None],
    )


def written(
    code: Code,
    groups: Collection[str] | None,
    concurrency: int | None,
    *,
    place: tuple[str, str],
    span: str,
    schedules: str,
    paused: Mapping[str, str] = MappingProxyType({}),
    stopped: Sequence[str] = (),
) -> list[str]:
    """Return the lines for a worker of this code, with what they say of its place and of the state there."""
    named = {groups} if isinstance(groups, str) else set(groups or ())
    served = [each for each in code.consumers if not named or each.group in named]
    skipped = [
        *(f"group {each.group}: not named by --group" for each in code.consumers if each not in served),
        *(f"group {each.group}: paused{paused[each.group]}" for each in served if each.group in paused),
        *stopped,
    ]
    most = concurrency or code.options.worker_concurrency
    topics = listed(f"{each.group} ({', '.join(each.topics) or each.receives})" for each in served)
    return [
        *_lines(place[0], [place[1]]),
        *_lines("groups", [topics]),
        *_lines("brokers", _capped([line for each in served if (line := _broker(each)) is not None])),
        *_lines("at once", [] if most is None else [f"{most:,} {span}"]),
        *_lines("schedules", [schedules] if schedules else []),
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


def listed(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    found = list(names)
    more = len(found) - _MOST
    return ", ".join(found[:_MOST]) + (f", and {more} more" if more > 0 else "")


def _lines(title: str, lines: Sequence[str]) -> Iterator[str]:
    for place, line in enumerate(lines):
        yield f"  {title if place == 0 else '':<{_WIDTH}}{line}"


def _safe(text: str | None) -> str:
    """Return an operator's text on one line, without control characters."""
    shown = " ".join((text or "").split())[:_LONGEST]
    return "".join(each if each.isprintable() else "?" for each in shown)
