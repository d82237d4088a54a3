"""``mainspring declare``: store an application's groups and schedules without starting a worker."""

from __future__ import annotations

from mainspring.cli.failures import Refused
from mainspring.cli.loading import Spec, load_app
from mainspring.cli.tables import Column, print_json, print_table, say
from mainspring.cli.target import Json
from mainspring.cli.words import many


async def declare(app: Spec, /, *, json: Json = False) -> int:
    """Store an application's groups, subscriptions and schedules before a worker runs."""
    async with load_app(app) as opened:
        declared = await opened.declare()
        views = await opened.schedules.list(app=opened.options.name)
    if not declared and not json:
        raise Refused(f"{app} has no consumers: write @app.consumer(…), or app.include() the module that does")
    if json:
        print_json(declared)
        return 0
    columns = (Column("group"), Column("topics", elastic=True), Column("handler", elastic=True, spare=True))
    print_table(columns, [(each.group, ", ".join(each.patterns), each.handler) for each in declared])
    schedules = sum(each.origin == "code" and each.retired_at is None for each in views)
    more = f" and {many(schedules, 'schedule')}" if schedules else ""
    say(f"{many(len(declared), 'group')}{more} declared. Next: mainspring worker {app}")
    return 0
