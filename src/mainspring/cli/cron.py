"""``mainspring cron``: what an expression means, without a database."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from cyclopts import Parameter

from mainspring.app.preview import preview
from mainspring.cli.failures import Refused
from mainspring.cli.instants import as_json, day_rule, print_instants
from mainspring.cli.tables import print_facts, print_json, stdout
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
) -> int:
    """Say in words when a cron expression is due, and the next times. Connects to nothing.

    Parameters
    ----------
    expression
        In quotes: 5 fields, 6 with seconds first, a macro as @daily, or an interval as 'every 90s'.
    timezone
        Whose clocks it goes by, as in Europe/Berlin.
    count
        How many times to show.
    start
        Times after this one [now]; without an offset it is read in the zone.
    day_match
        Whether a day must match both day fields, or one of them, where both are restricted.
    on_gap
        A time that clocks skip in spring: due when they have, or not that day.
    """
    if words:
        raise Refused("the expression stands in quotes, or the shell reads it: mainspring cron '0 9 * * mon-fri'")
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
        return 0
    print_facts((("rhythm", str(seen.rhythm)), ("in words", seen.rhythm.describe()), *rule))
    stdout().print()
    print_instants(seen.times, timezone, None if start is None else seen.after)
    return 0
