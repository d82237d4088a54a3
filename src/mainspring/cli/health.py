"""``mainspring health``: one word, the reasons for it, and an exit code."""

from __future__ import annotations

from mainspring.cli.tables import STATE_STYLES, Column, print_json, print_table, say
from mainspring.cli.target import UNNAMED, Json, Target

_CODES = {"healthy": 0, "degraded": 1, "unhealthy": 2}


async def health(*, target: Target = UNNAMED, json: Json = False) -> int:
    """Say whether all is well; the exit code is 0 healthy, 1 degraded, 2 unhealthy. Changes nothing."""
    found = await target.find().health()
    if json:
        print_json(found)
        return _CODES[found.status]
    say(found.status, style=STATE_STYLES[found.status])
    columns = (Column("check"), Column("status"), Column("what was found", elastic=True, wraps=True))
    print_table(columns, [(check.name, check.status, check.summary) for check in found.checks])
    return _CODES[found.status]
