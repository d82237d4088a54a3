"""What other implementations answer, row by row, as facts.

The rows come from the test suites of Cronos, cronsim, croniter, NCrontab, Spring, robfig/cron and Quartz.NET, as far
as they agree with the rules that are written here; the column ``source`` says which. ``dom_dow`` names the rule for
the two day fields; with ``either`` both rules must give the answer.
"""

import csv
import re
from collections import defaultdict
from datetime import UTC, datetime
from typing import get_args
from zoneinfo import ZoneInfo

import pytest

from mainspring.timing.cron import Cron, CronError
from mainspring.timing.cron.plan import DayMatch
from tests.house.tree import ROOT

Row = dict[str, str]
_STAMP = re.compile(r"(\d+)(-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)")


def _rows() -> dict[tuple[str, str], list[Row]]:
    grouped: dict[tuple[str, str], list[Row]] = defaultdict(list)
    with (ROOT / "tests" / "data" / "cron-vectors.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            grouped[row["kind"], row["source"]].append(row)
    return grouped


ROWS = _rows()


def _instant(text: str) -> tuple[datetime, bool]:
    """The instant, cut to microseconds, and whether something was cut off: .NET counts in tenths of them."""
    stamp = _STAMP.fullmatch(text)
    assert stamp is not None, text
    year, rest, fraction, offset = stamp.groups(default="")
    read = datetime.fromisoformat(f"{int(year):04}{rest}.{fraction[:6]:0<6}{offset.replace('Z', '+00:00')}")
    return read, fraction[6:].strip("0") != ""


def _answer(row: Row, day_match: DayMatch) -> datetime | None:
    since, was_cut = _instant(row["from"])
    local = since.astimezone(ZoneInfo(row["zone"]))
    inclusive = row["inclusive"] == "true"
    cron = Cron(row["expression"], day_match=day_match)
    if row["kind"] == "next":  # what was cut off lies after the instant, so it cannot be the answer itself
        return cron.next(local, inclusive=inclusive and not was_cut)
    return cron.previous(local, inclusive=inclusive or was_cut)


def _deviation(row: Row) -> str | None:
    expected = _instant(row["expected_utc"])[0] if row["expected_utc"] else None
    rules: tuple[DayMatch, ...] = get_args(DayMatch)
    for rule in rules:
        if row["dom_dow"] not in {rule, "either"}:
            continue
        found = _answer(row, rule)
        if (found and found.astimezone(UTC)) != expected:
            return f"{row['id']}: {row['expression']!r} ({rule}) from {row['from']}: {found}, not {expected}"
    return None


def _unread(row: Row) -> str | None:
    named = row["note"].partition("message names: ")[2].lower() or None
    try:
        Cron(row["expression"])
    except CronError as error:
        if row["kind"] == "parse_ok":
            return f"{row['id']}: {error}"
        return None if error.field == named else f"{row['id']}: {row['expression']!r} blames {error.field}, not {named}"
    return None if row["kind"] == "parse_ok" else f"{row['id']}: {row['expression']!r} was accepted"


@pytest.mark.parametrize(("kind", "source"), ROWS)
def test_every_row_is_answered_as_it_is_there(kind: str, source: str) -> None:
    check = _unread if kind.startswith("parse") else _deviation

    deviations = [said for row in ROWS[kind, source] if (said := check(row))]

    assert deviations == []


def test_no_row_is_left_out() -> None:
    counted: dict[str, int] = defaultdict(int)
    for (kind, _), rows in ROWS.items():
        counted[kind] += len(rows)

    print(f"{sum(counted.values())} vectors: {dict(counted)}")
    assert counted == {"next": 1277, "prev": 13, "parse_ok": 13, "parse_error": 166}
