"""``mainspring cron``: explain an expression, without a database."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from cyclopts import Parameter

from mainspring.app.schedule.view import preview
from mainspring.cli.errors import Refused
from mainspring.cli.output import print_facts, print_json, stdout
from mainspring.cli.schedules import as_json, day_rule, print_instants
from mainspring.cli.target import Json


def cron(
    expression: str,
    /,
    *words: Annotated[str, Parameter(show=False)],
    timezone: Annotated[str, Parameter(name=["--timezone", "-z"], metavar="ZONE")] = "UTC",
    count: Annotated[int, Parameter(name=["--count", "-n"])] = 5,
    start: Annotated[datetime | None, Parameter(name="--from", metavar="TIME")] = None,
    day_match: Literal["and", "or"] = "and",
    on_gap: Literal["fire", "skip"] = "fire",
    json: Json = False,
) -> None:
    """Describe a cron expression in words and print its next times. Needs no database.

    Parameters
    ----------
    expression
        In quotes: 5 fields, 6 with seconds first, a macro such as @daily, or an interval such as 'every 90s'.
    timezone
        The time zone of the expression, such as Europe/Berlin.
    count
        How many times to print.
    start
        Print times after this one [now]; a time without offset is in the zone.
    day_match
        Whether a day must match both day fields, or either, where both are restricted.
    on_gap
        When clocks skip the time in spring: fire right after the gap, or skip that day.
    """
    if words:
        raise Refused("quote the expression, or the shell expands it: mainspring cron '0 9 * * mon-fri'")
    seen = preview(expression, count, after=start, timezone=timezone, day_match=day_match, on_gap=on_gap)
    rule = day_rule(seen.rhythm)
    if json:
        print_json(
            {
                "rhythm": str(seen.rhythm),
                "description": seen.rhythm.describe(),
                "timezone": timezone,
                "day_rule": day_match if rule else None,
                "next": as_json(seen.times, seen.after),
            }
        )
        return
    print_facts((("rhythm", str(seen.rhythm)), ("in words", seen.rhythm.describe()), *rule))
    stdout().print()
    print_instants(seen.times, timezone, None if start is None else seen.after)
