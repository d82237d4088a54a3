"""``mainspring joins``: open joins, and the members they wait for."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from cyclopts import App, Parameter

from mainspring.cli.details import heading
from mainspring.cli.failures import Refused
from mainspring.cli.messages import Limit, check_limit
from mainspring.cli.tables import Column, print_facts, print_json, print_table, say
from mainspring.cli.target import UNNAMED, Json, Target
from mainspring.cli.words import many, plain, when
from mainspring.model.errors import BadOption
from mainspring.model.join import Follower, JoinView
from mainspring.model.views import DeliveryView

app: App = App(name="joins", help="List, show and cancel open joins.")

Join = Annotated[UUID, Parameter(name="ID", help="The join's id, as in `joins list`.")]

_COLUMNS = (
    Column("id"),
    Column("then", elastic=True),
    Column("ended", right=True),
    Column("failed", right=True),
    Column("opened", right=True),
    Column("waits for", elastic=True),
    Column("failed then", elastic=True, spare=True),
    Column("key", elastic=True, spare=True),
    Column("correlation", elastic=True, spare=True),
)
_MEMBER_COLUMNS = (
    Column("id"),
    Column("group", elastic=True),
    Column("state"),
    Column("due", right=True),
    Column("attempt", right=True),
    Column("note", elastic=True, spare=True),
)


@app.command(name="list")
async def list_(
    *,
    limit: Limit = 50,
    after: Annotated[UUID | None, Parameter(metavar="ID", help="Only later ones (next page).")] = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """List open joins, oldest first, with their progress and the member they have waited for longest."""
    check_limit(limit)
    async with target.opened() as opened:
        found = await opened.joins.list(after=after, limit=limit)
    if json:
        print_json(found)
        return 0
    if not found:
        say("No more open joins." if after is not None else "No open joins.")
        return 0
    print_table(_COLUMNS, [_row(each) for each in found])
    if len(found) == limit:
        say(f"There may be more: add --after {found[-1].id}", style="dim")
    return 0


@app.command
async def show(
    id: Join,
    /,
    *,
    limit: Limit = 50,
    after: Annotated[int | None, Parameter(metavar="SEQ", help="Only later members (next page).")] = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """Show one open join: its follow-ups, its progress, and its unfinished members."""
    check_limit(limit)
    async with target.opened() as opened:
        view = await opened.joins.get(id)
        if view is None:
            raise Refused(f"{await opened.joins.unknown(id)}. See `mainspring joins list`")
        try:
            open_members = await opened.joins.members(id, after=after, limit=limit)
        except BadOption:
            open_members = []  # it completed just now: show what was read
    if json:
        print_json({**plain(view), "open": [plain(each) for each in open_members]})
        return 0
    _print_join(view)
    _print_members(open_members, later=after is not None)
    if len(open_members) == limit:
        say(f"There may be more: add --after {open_members[-1].seq}", style="dim")
    return 0


@app.command
async def cancel(
    id: Join,
    /,
    *,
    reason: str = "cancelled by an operator",
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """Cancel the unfinished members of a join, running ones cooperatively; then its `failed` follow-up is published.

    Parameters
    ----------
    reason
        Stored with the history.
    """
    async with target.opened() as opened:
        done = await opened.joins.cancel(id, reason=reason)
    if json:
        print_json(done)
    elif not done.cancelled and not done.asked:
        say("nothing to cancel: all members have ended")
    else:
        asked = f", {done.asked} running asked to stop" if done.asked else ""
        say(f"{many(done.cancelled, 'member')} cancelled{asked}")
    return 0


def _row(each: JoinView) -> tuple[str, ...]:
    oldest = each.oldest
    return (
        str(each.id),
        "" if each.then is None else each.then.group,
        f"{each.ended:,} of {each.members:,}",
        f"{each.failed:,}",
        when(each.opened_at),
        "the next scheduler look" if oldest is None else f"{oldest.group}, {oldest.state}",
        "" if each.otherwise is None else each.otherwise.group,
        each.key or "",
        each.correlation_id or "",
    )


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


def _print_members(open_members: list[DeliveryView], *, later: bool) -> None:
    heading("unfinished members")
    if not open_members:
        say("no more" if later else "none: the next look of a scheduler publishes the follow-up")
        return
    print_table(_MEMBER_COLUMNS, [_member(each) for each in open_members])


def _member(each: DeliveryView) -> tuple[str, ...]:
    note = each.held_by or ""
    return (
        str(each.message_id),
        each.group,
        each.state,
        when(each.due_at),
        str(each.attempt),
        "asked to stop" if each.cancel_asked else note,
    )


def _following(follower: Follower | None) -> str:
    return "none" if follower is None else f"{follower.group}, on {follower.topic}"
