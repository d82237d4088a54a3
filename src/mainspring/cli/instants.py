"""Instants as text: in a zone and in UTC, with changes of the zone's offset."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from mainspring.cli.tables import Column, print_table
from mainspring.cli.words import when
from mainspring.timing.cron import Cron
from mainspring.timing.duration import spell
from mainspring.timing.rhythm import Rhythm
from mainspring.timing.zone import zone

_WEEK = timedelta(days=6)


def in_zone(moment: datetime, there: ZoneInfo) -> datetime:
    """Return the instant in the zone; one without an offset is taken as local to it."""
    return moment.replace(tzinfo=there) if moment.tzinfo is None else moment.astimezone(there)


def zone_of(name: str) -> ZoneInfo:
    """Return the zone of this name, or UTC if this machine does not know it."""
    try:
        return zone(name)
    except ValueError:
        return zone("UTC")


def stamp(moment: datetime) -> str:
    """Format day and time, with fractions of a second if any: ``Mon 2026-11-16 09:00:00``."""
    return f"{moment:%a} {moment.date()} {_time(moment, seconds=True)}"


def shortly(moment: datetime, now: datetime | None = None) -> str:
    """Format distance and time briefly: ``in 3m, 09:00``, ``in 2d, Wed 09:00``, ``in 9d, 2026-11-25``."""
    today = (now or datetime.now(UTC)).astimezone(moment.tzinfo)
    time = _time(moment.replace(microsecond=0), seconds=moment.second > 0)
    if moment.date() != today.date():
        close = timedelta() < moment.date() - today.date() <= _WEEK
        time = f"{moment:%a} {time}" if close else f"{moment.date()}"
    return f"{when(moment, now)}, {time}"


def noted(instants: Sequence[datetime], since: datetime) -> list[str]:
    """Return for each instant the change of the offset since the one before, or ``since`` for the first."""
    notes = []
    before = since
    for each in instants:
        ahead = _offset(each) - _offset(before.astimezone(each.tzinfo))
        notes.append(f"{'forward' if ahead > timedelta() else 'back'} {spell(abs(ahead))}" if ahead else "")
        before = each
    return notes


def print_instants(instants: Sequence[datetime], zone: str, since: datetime | None = None) -> None:
    """Print a table of them: in the zone and in UTC, the distance from now (not ``since``), and offset changes."""
    notes = noted(instants, since or datetime.now(UTC))
    columns = [Column(f"in {zone}"), Column("in UTC"), Column("from now", right=True), Column("clocks", elastic=True)]
    rows = [
        [f"{stamp(each)} {_offset_of(each)}", _utc(each), when(each), note]
        for each, note in zip(instants, notes, strict=True)
    ]
    wanted = (True, zone != "UTC", since is None, any(notes))
    shown = [index for index, each in enumerate(wanted) if each]
    print_table([columns[index] for index in shown], [[row[index] for index in shown] for row in rows])


def as_json(instants: Sequence[datetime], since: datetime | None = None) -> list[dict[str, Any]]:
    """Return each instant in its zone and in UTC, and the change of the offset before it, if any."""
    return [
        {"at": each.isoformat(), "utc": each.astimezone(UTC).isoformat().replace("+00:00", "Z"), "clocks": note or None}
        for each, note in zip(instants, noted(instants, since or datetime.now(UTC)), strict=True)
    ]


def day_rule(rhythm: Rhythm, command: str = "") -> tuple[tuple[str, str], ...]:
    """Return how an expression that restricts both day fields matches days, and what to type for the other way.

    Two facts, the second without a name; none if the expression does not restrict both.
    """
    if not isinstance(rhythm, Cron) or not rhythm.restricts_both_days:
        return ()
    if rhythm.day_match == "and":
        rule, other = "a day must match both day fields", "to match either: {}--day-match or"
    else:
        rule, other = "a day must match either day field", "to match both: {}--day-match and"
    return ("days", rule), ("", other.format(command))


def _utc(moment: datetime) -> str:
    utc = moment.astimezone(UTC)
    return f"{utc.date()} {_time(utc, seconds=True)}"


def _time(moment: datetime, *, seconds: bool) -> str:
    if moment.microsecond:
        return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
    return f"{moment:%H:%M:%S}" if seconds else f"{moment:%H:%M}"


def _offset_of(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")[len("2026-11-16T09:00:00") :]


def _offset(moment: datetime) -> timedelta:
    return moment.utcoffset() or timedelta()
