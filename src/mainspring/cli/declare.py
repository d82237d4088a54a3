"""``mainspring declare``: make an application's groups known without starting a worker."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from mainspring.cli.failures import Refused
from mainspring.cli.loading import load_app
from mainspring.cli.tables import Column, print_json, print_table, say
from mainspring.cli.target import Json
from mainspring.cli.words import many


async def declare(app: Annotated[str, Parameter(metavar="MODULE:APP")], /, *, json: Json = False) -> int:
    """Make an application's groups and subscriptions known, so that messages reach them before a worker runs.

    Parameters
    ----------
    app
        The application, imported from the current directory: MODULE:APP, as in shop:app.
    """
    declared = await load_app(app).declare()
    if not declared and not json:
        raise Refused(f"{app} has no consumers: write @app.consumer(…), or app.include() the module that does")
    if json:
        print_json(declared)
        return 0
    columns = (Column("group"), Column("topics", elastic=True), Column("handler", elastic=True, spare=True))
    print_table(columns, [(each.group, ", ".join(each.patterns), each.handler) for each in declared])
    say(f"{many(len(declared), 'group')} declared. Next: mainspring worker {app}")
    return 0
