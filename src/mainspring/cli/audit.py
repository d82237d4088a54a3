"""``mainspring audit``: what operators did."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from mainspring.cli.options import NO_MATCH, Cursor, Limit
from mainspring.cli.output import Column, Columns, print_list
from mainspring.cli.target import UNNAMED, Json, Target
from mainspring.model.views import AuditView

_COLUMNS: Columns[AuditView] = (
    Column("at", lambda each: each.at, right=True),
    Column("by", lambda each: each.by, elastic=True),
    Column("action", lambda each: each.action),
    Column("subject", lambda each: each.subject, elastic=True),
    Column("detail", lambda each: each.detail, elastic=True),
)


async def audit(
    text: Annotated[str | None, Parameter(name="TEXT")] = None,
    /,
    *,
    subject: Annotated[str | None, Parameter(name=["--subject", "-s"], metavar="TEXT")] = None,
    by: Annotated[str | None, Parameter(metavar="NAME")] = None,
    action: Annotated[str | None, Parameter(metavar="NAME")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """List what operators did, newest first: on the command line, in the dashboard, and by calls of the app.

    Parameters
    ----------
    text
        Only lines containing this text, such as a message's id.
    subject
        Only about subjects containing this text.
    by
        Only by operators whose name contains this text.
    action
        Only actions whose name contains this text, such as revive.
    """
    async with target.opened() as opened:
        found = await opened.audit(text=text, by=by, action=action, subject=subject, cursor=cursor, limit=limit)
    narrowed = any(each is not None for each in (text, subject, by, action, cursor))
    print_list(_COLUMNS, found, json=json, empty=NO_MATCH if narrowed else "No operator has done anything yet.")
