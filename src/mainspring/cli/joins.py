"""``mainspring joins``: open joins, and the members they wait for."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from cyclopts import App, Parameter

from mainspring.app.page import Page
from mainspring.cli.errors import Refused
from mainspring.cli.messages import print_cancelled
from mainspring.cli.options import Cursor, Limit
from mainspring.cli.output import (
    Column,
    Columns,
    heading,
    many,
    plain,
    print_facts,
    print_json,
    print_list,
    when,
)
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.model.errors import BadOption
from mainspring.model.join import Follower, JoinView
from mainspring.model.views import DeliveryView

app: App = App(name="joins", help="List, show and cancel open joins.")

Join = Annotated[UUID, Parameter(name="ID", help="The join's id, as in `joins list`.")]

_COLUMNS: Columns[JoinView] = (
    Column("id", lambda each: each.id),
    Column("then", lambda each: each.then and each.then.group, elastic=True),
    Column("ended", lambda each: f"{each.ended:,} of {each.members:,}", right=True),
    Column("failed", lambda each: each.failed, right=True),
    Column("opened", lambda each: each.opened_at, right=True),
    Column("waits for", lambda each: _awaited(each.oldest), elastic=True),
    Column("failed then", lambda each: each.otherwise and each.otherwise.group, elastic=True, spare=True),
    Column("key", lambda each: each.key, elastic=True, spare=True),
    Column("correlation", lambda each: each.correlation_id, elastic=True, spare=True),
)
_MEMBER_COLUMNS: Columns[DeliveryView] = (
    Column("id", lambda each: each.message_id),
    Column("group", lambda each: each.group, elastic=True),
    Column("state", lambda each: each.state),
    Column("due", lambda each: each.due_at, right=True),
    Column("attempt", lambda each: each.attempt, right=True),
    Column("note", lambda each: "asked to stop" if each.cancel_asked else each.held_by, elastic=True, spare=True),
)


@app.command(name="list")
async def list_(
    *,
    limit: Limit = 50,
    cursor: Cursor = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """List open joins, oldest first, with their progress and the member they have waited for longest."""
    async with target.opened() as opened:
        found = await opened.joins.list(cursor=cursor, limit=limit)
    empty = "No open joins." if cursor is None else "No more open joins."
    print_list(_COLUMNS, found, json=json, empty=empty)


@app.command
async def show(
    id: Join,
    /,
    *,
    limit: Limit = 50,
    cursor: Cursor = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Show one open join: its follow-ups, its progress, and its unfinished members."""
    async with target.opened() as opened:
        view = await opened.joins.get(id)
        try:
            open_members = await opened.joins.members(id, cursor=cursor, limit=limit)
        except BadOption as unknown:
            if view is None:
                raise Refused(f"{unknown}. See `mainspring joins list`") from None
            open_members = Page()  # it completed just now: show what was read
        assert view is not None, "a join is open before its id is known"
    if json:
        print_json({**plain(view), "open": open_members, "cursor": open_members.cursor})
        return
    _print_join(view)
    heading("unfinished members")
    empty = "none: the next turn of a scheduler publishes the follow-up" if cursor is None else "no more"
    print_list(_MEMBER_COLUMNS, open_members, empty=empty)


@app.command
async def cancel(
    id: Join,
    /,
    *,
    reason: str = "cancelled by an operator",
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Cancel the unfinished members of a join, running ones cooperatively; then its `failed` follow-up is published.

    Parameters
    ----------
    reason
        Stored with the history.
    """
    async with target.opened() as opened:
        done = await opened.joins.cancel(id, by=operator(), reason=reason)
    print_cancelled(done, many(done.cancelled, "member"), "all members have ended", json=json)


def _awaited(oldest: DeliveryView | None) -> str:
    return "the next scheduler turn" if oldest is None else f"{oldest.group}, {oldest.state}"


def _print_join(view: JoinView) -> None:
    failed = f", {view.failed:,} of them failed" if view.failed else ""
    print_facts(
        (
            ("id", str(view.id)),
            ("opened", f"{view.opened_at.isoformat()} ({when(view.opened_at)})"),
            ("members", f"{view.ended:,} of {view.members:,} ended{failed}"),
            ("then", _following(view.then)),
            ("failed", _following(view.otherwise)),
            ("key", view.key or ""),
            ("correlation", view.correlation_id or ""),
        )
    )


def _following(follower: Follower | None) -> str:
    return "none" if follower is None else f"{follower.group}, on {follower.topic}"
