"""One schedule in full, as text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from rich.text import Text

from mainspring.app.calendar import named_days
from mainspring.app.mainspring import Mainspring
from mainspring.app.schedule_view import ScheduleView
from mainspring.cli.finding import remedy_for
from mainspring.cli.instants import day_rule, in_zone, print_instants, stamp, zone_of
from mainspring.cli.tables import STATE_STYLES, Column, print_facts, print_table, say, stdout
from mainspring.cli.words import when
from mainspring.model.errors import BadOption
from mainspring.model.message import Priority
from mainspring.model.views import RunView
from mainspring.timing.duration import spell
from mainspring.timing.rhythm import read_rhythm

_LATE = timedelta(seconds=10)
"""A schedule this long past its time is not merely late: no worker fires it."""
_MARKS = {"done": "✓", "failed": "✗", "dead": "✗", "snoozed": "z", "cancelled": "-"}


async def upcoming(opened: Mainspring, name: str) -> list[datetime]:
    """Return its next five times; none if they cannot be computed here."""
    try:
        return await opened.schedules.next(name, 5)
    except BadOption:
        return []


def print_schedule(view: ScheduleView, coming: Sequence[datetime], runs: Sequence[RunView], typed: str) -> None:
    """Print its rhythm, its next times, the source of each field, and its last runs."""
    print_facts(
        (
            ("schedule", view.name),
            ("app", view.app),
            ("state", view.state),
            ("problem", remedy_for(view) or view.problem or ""),
            ("paused", _since(view.paused_at, view.paused_by, view.pause_reason)),
            ("frozen", _since(view.frozen_at, view.frozen_by, view.freeze_reason)),
            ("rhythm", view.rhythm),
            ("in words", view.description),
            *_day_rule(view, typed),
            ("only on", named_days(view.workdays)),
            ("not on", named_days(view.holidays)),
            ("zone", view.timezone),
            ("overdue", _overdue(view, typed)),
            ("goes to", f"group {view.group}" if view.group else f"every group of topic {view.topic}"),
            ("counted", f"{view.fired:,} fired, {view.missed:,} missed, {view.skipped:,} skipped"),
            ("last run", last_run(view)),
        )
    )
    _print_strip(runs)
    _heading("next" if view.state in ("active", "finished") else f"next, if not {view.state}")
    if coming:
        print_instants(coming, view.timezone)
    else:
        say("unknown here" if view.problem else "none")
    _heading("sources")
    columns = (Column("field"), Column("value", elastic=True, wraps=True), Column("set by"))
    print_table(columns, [(field, value or "none", _setter(view, field)) for field, value in fields(view)])


def last_run(view: ScheduleView) -> str:
    """Format the result and time of the last run."""
    if view.last_run is not None:
        return f"{view.last_run.status} {when(view.last_run.finished_at)}"
    return "never ran" if view.never_ran else "none kept"


def took(run: RunView) -> str:
    """Format the duration of the run."""
    return spell(run.finished_at - run.started_at)


def is_overdue(view: ScheduleView, now: datetime | None = None) -> bool:
    """Return whether it should have been fired by now."""
    late = None if view.next_at is None else (now or datetime.now(UTC)) - view.next_at
    return view.state == "active" and late is not None and late > _LATE


def _overdue(view: ScheduleView, typed: str) -> str:
    if not is_overdue(view):
        return ""
    return f"it was due {when(view.next_at)}, and no worker of {view.app} has fired it: mainspring health{typed}"


def _day_rule(view: ScheduleView, typed: str) -> tuple[tuple[str, str], ...]:
    try:
        rhythm = read_rhythm(view.rhythm, day_match=view.day_match)
    except ValueError:
        return ()
    return day_rule(rhythm, f"mainspring schedules alter {view.name}{typed} ")


def fields(view: ScheduleView) -> list[tuple[str, str]]:
    """Return every editable field with its value as typed."""
    zone = zone_of(view.timezone)
    return [
        ("rhythm", view.rhythm),
        ("timezone", view.timezone),
        ("day_match", view.day_match),
        ("on_gap", view.on_gap),
        ("misfire", view.misfire),
        ("misfire_after", spell(view.misfire_after)),
        ("catch_up", str(view.catch_up)),
        ("overlap", view.overlap),
        ("jitter", spell(view.jitter)),
        ("start", "" if view.start is None else stamp(in_zone(view.start, zone))),
        ("end", "" if view.end is None else stamp(in_zone(view.end, zone))),
        ("holidays", named_days(view.holidays)),
        ("workdays", named_days(view.workdays)),
        ("priority", Priority(view.priority).name.lower()),
    ]


def _setter(view: ScheduleView, field: str) -> str:
    if field in view.edited:
        return "edit"
    if field in view.configured:
        return "configuration"
    if field in view.defined:
        return view.origin
    return "default"


def _since(at: datetime | None, by: str | None, reason: str | None) -> str:
    return "" if at is None else f"{when(at)} by {by}" + (f": {reason}" if reason else "")


def _print_strip(runs: Sequence[RunView]) -> None:
    if not runs:
        return
    strip = Text("runs      ", style="dim")
    for each in reversed(runs):
        strip.append(_MARKS[each.status], style=STATE_STYLES[each.status])
    stdout().print(strip.append("  newest last", style="dim"), soft_wrap=True)


def _heading(text: str) -> None:
    console = stdout()
    console.print()
    console.print(Text(text, style="bold"))
