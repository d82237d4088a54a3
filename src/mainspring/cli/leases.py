"""``mainspring leases``: list leases, and release one for its holder."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from mainspring.app.mainspring import Mainspring
from mainspring.app.options import closest
from mainspring.cli.confirming import confirmed
from mainspring.cli.dead import Yes
from mainspring.cli.failures import Refused
from mainspring.cli.messages import Limit, check_limit
from mainspring.cli.tables import Column, print_json, print_table, say
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.cli.words import when
from mainspring.model.lease import LeaseView

app: App = App(name="leases", help="List leases, and release a stuck one.")

Name = Annotated[str, Parameter(name="LEASE", help="The lease's name, as in `leases list`.")]
Reason = Annotated[str, Parameter(show_default=False, help="Stored in the audit log.")]
_COLUMNS = (
    Column("lease", elastic=True),
    Column("state"),
    Column("holder", elastic=True),
    Column("epoch", right=True),
    Column("acquired", right=True),
    Column("renewed", right=True, spare=True),
    Column("expires", right=True),
)


@app.command(name="list")
async def list_(
    *,
    limit: Limit = 50,
    after: Annotated[str | None, Parameter(metavar="LEASE", help="Only names after this one (next page).")] = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """List leases that are held, or were recently, by name."""
    check_limit(limit)
    async with target.opened() as opened:
        found = await opened.leases.list(after=after, limit=limit)
    if json:
        print_json(found)
        return 0
    if not found:
        say("No leases held now or recently." if after is None else "No more leases.")
        return 0
    print_table(_COLUMNS, [_row(each) for each in found])
    if len(found) == limit:
        say(f"There may be more: add --after {found[-1].name}", style="dim")
    return 0


@app.command
async def release(
    name: Name, /, *, reason: Reason = "", yes: Yes = False, target: Target = UNNAMED, json: Json = False
) -> int:
    """Release a lease for its holder, which continues until its next renewal: only the epoch fences it."""
    async with target.opened() as opened:
        view = await opened.leases.get(name)
        if view is None:
            raise await _unknown(opened, name)
        if view.state == "held" and not confirmed(f"Release {name}, held by {view.holder}?", yes=yes):
            say("Nothing released.")
            return 1
        released = await opened.leases.release(name, by=operator(), reason=reason)
    if json:
        print_json({"lease": name, "released": released, "holder": view.holder})
    else:
        say(f"{name} is released; {view.holder} held it" if released else f"{name} is not held; nothing changed")
    return 0


def _row(each: LeaseView) -> tuple[str, ...]:
    return (
        each.name,
        each.state,
        each.holder or "",
        f"{each.epoch:,}",
        when(each.acquired_at),
        when(each.renewed_at),
        when(each.expires_at),
    )


async def _unknown(opened: Mainspring, name: str) -> Refused:
    known = [each.name for each in await opened.leases.list(limit=1000)]
    return Refused(f"no lease {name!r} is held or was recently.{closest(name, known)} See `mainspring leases list`")
