"""``mainspring leases``: list leases, and release one for its holder."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from mainspring.app.mainspring import Mainspring
from mainspring.app.observe.metrics import LEASE
from mainspring.app.options import closest
from mainspring.cli.errors import Refused
from mainspring.cli.options import Cursor, Limit, Reason, Yes, confirm
from mainspring.cli.output import Column, Columns, print_list, print_result
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.model.lease import LeaseView

app: App = App(name="leases", help="List leases, and release a stuck one.")

Name = Annotated[str, Parameter(name="LEASE", help="The lease's name, as in `leases list`.")]
_COLUMNS: Columns[LeaseView] = (
    Column(
        "lease", lambda each: f"{each.name} (internal, of /metrics)" if each.name == LEASE else each.name, elastic=True
    ),
    Column("state", lambda each: each.state),
    Column("holder", lambda each: each.holder, elastic=True),
    Column("epoch", lambda each: each.epoch, right=True),
    Column("acquired", lambda each: each.acquired_at, right=True),
    Column("renewed", lambda each: each.renewed_at, right=True, spare=True),
    Column("expires", lambda each: each.expires_at, right=True),
)


@app.command(name="list")
async def list_(
    *,
    limit: Limit = 50,
    cursor: Cursor = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """List leases that are held, or were recently, by name."""
    async with target.opened() as opened:
        found = await opened.leases.list(cursor=cursor, limit=limit)
    empty = "No leases held now or recently." if cursor is None else "No more leases."
    print_list(_COLUMNS, found, json=json, empty=empty)


@app.command
async def release(
    name: Name, /, *, reason: Reason = "", yes: Yes = False, target: Target = UNNAMED, json: Json = False
) -> None:
    """Release a lease for its holder, which continues until its next renewal: only the epoch fences it."""
    async with target.opened() as opened:
        view = await opened.leases.get(name)
        if view is None:
            raise await _unknown(opened, name)
        if view.state == "held":
            confirm(f"Release {name}, held by {view.holder}?", "Nothing released.", yes=yes)
        released = await opened.leases.release(name, by=operator(), reason=reason)
    text = f"{name} is released; {view.holder} held it" if released else f"{name} is not held; nothing changed"
    print_result({"lease": name, "released": released, "holder": view.holder}, text, json=json)


async def _unknown(opened: Mainspring, name: str) -> Refused:
    known = [each.name for each in await opened.leases.list(limit=1000)]
    return Refused(f"no lease {name!r} is held or was recently.{closest(name, known)} See `mainspring leases list`")
