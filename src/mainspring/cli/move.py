"""``mainspring fleet move`` and ``mainspring fleet moves``: a database of a fleet in another place."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from mainspring.cli.errors import Refused
from mainspring.cli.fleet import app, fleet_of
from mainspring.cli.output import Column, Columns, many, print_line, print_list, print_result
from mainspring.cli.target import Json, OfApp
from mainspring.model.move import Move

__all__ = ["app"]

Database = Annotated[str, Parameter(name="DATABASE", help="The database that moves, by its name in the fleet.")]
_COLUMNS: Columns[Move] = (
    Column("database", lambda each: each.name, elastic=True),
    Column("to", lambda each: each.target, elastic=True),
    Column("step", lambda each: each.step),
    Column("rows", lambda each: sum(each.counts.values()), right=True),
    Column("began", lambda each: each.began_at, right=True),
    Column("changed", lambda each: each.changed_at, right=True),
)


@app.command
async def move(
    database: Database,
    /,
    *,
    to: Annotated[str | None, Parameter(metavar="NAME", help="The empty database that it moves to.")] = None,
    undo: Annotated[
        bool, Parameter(negative="", show_default=False, help="Serve it where it was again, and empty the other one.")
    ] = False,
    drain: Annotated[
        str, Parameter(metavar="TIME", help="How long workers may finish what they have in hand.")
    ] = "30s",
    named: OfApp = None,
    json: Json = False,
) -> None:
    """Move a database of a fleet to another one, or go on with its move. Publishers and workers wait while it moves."""
    if (to is None) != undo:
        raise Refused(f"write `fleet move {database} --to NAME`, or `fleet move {database} --undo`")
    fleet, _ = fleet_of(None, named)

    def tell(_move: Move, what: str) -> None:
        if not json:
            print_line(f"{database}: {what}")

    if to is None:
        done = await fleet.undo_move(database, progress=tell)
        print_result(done, f"{database} is served where it was, and {done.target} is empty.", json=json)
        return
    done = await fleet.move(database, to=to, drain=drain, progress=tell)
    copied = ", ".join(f"{count:,} {table}" for table, count in done.counts.items() if count)
    total = many(sum(done.counts.values()), "row")
    print_result(done, f"{database} is served in {to}, with {total}: {copied}.", json=json)


@app.command
async def moves(*, named: OfApp = None, json: Json = False) -> None:
    """List the moves of a fleet's databases, and how far they are."""
    fleet, _ = fleet_of(None, named)
    print_list(_COLUMNS, await fleet.moves(), json=json, empty="No database of the fleet has moved.")
