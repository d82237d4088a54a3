"""``mainspring health``: a status, its reasons, and an exit code."""

from __future__ import annotations

from mainspring.cli.tables import STATE_STYLES, Column, print_json, print_table, say
from mainspring.cli.target import UNNAMED, Json, Target

_CODES = {"healthy": 0, "degraded": 1, "unhealthy": 2}


async def health(*, target: Target = UNNAMED, json: Json = False) -> int:
    """Report the health of the system; the exit code is 0 healthy, 1 degraded, 2 unhealthy. Read-only."""
    found = await target.find().health()
    if json:
        print_json(found)
        return _CODES[found.status]
    say(found.status, style=STATE_STYLES[found.status])
    columns = (Column("check"), Column("status"), Column("finding", elastic=True, wraps=True))
    print_table(columns, [(check.name, check.status, check.summary) for check in found.checks])
    return _CODES[found.status]
