"""``mainspring joins``: the joins that are open, and whom they wait for."""

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

app: App = App(name="joins", help="List, show and cancel joins that are open.")

Join = Annotated[UUID, Parameter(name="ID", help="The join's id, as `joins list` shows it.")]

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
    after: Annotated[UUID | None, Parameter(metavar="ID", help="Only later ones: the next page.")] = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """List the open joins, oldest first: how far they are, and the member they have waited for longest."""
    check_limit(limit)
    async with target.opened() as opened:
        found = await opened.joins.list(after=after, limit=limit)
    if json:
        print_json(found)
        return 0
    if not found:
        say("No later join is open." if after is not None else "No join is open: whatever was joined is over.")
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
    after: Annotated[int | None, Parameter(metavar="SEQ", help="Only later members: the next page.")] = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """Show one open join: what follows it, how far it is, and its members that have not ended."""
    check_limit(limit)
    async with target.opened() as opened:
        view = await opened.joins.get(id)
        if view is None:
            raise Refused(f"{await opened.joins.unknown(id)}. `mainspring joins list` shows all that are open")
        try:
            open_members = await opened.joins.members(id, after=after, limit=limit)
        except BadOption:
            open_members = []  # over since just now: what was found is shown all the same
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
    """Cancel the members of a join that have not ended: what runs is asked to stop, and then `failed` follows.

    Parameters
    ----------
    reason
        Kept with the history.
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
        "a worker that looks" if oldest is None else f"{oldest.group}, {oldest.state}",
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
            ("members", f"{view.ended:,} of {view.members:,} have ended{failed}"),
            ("then", _following(view.then)),
            ("failed", _following(view.otherwise)),
            ("key", view.key or ""),
            ("correlation", view.correlation_id or ""),
        )
    )


def _print_members(open_members: list[DeliveryView], *, later: bool) -> None:
    heading("members that have not ended")
    if not open_members:
        say("no later ones" if later else "none: the next worker that looks publishes what follows")
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
    return "nothing follows" if follower is None else f"{follower.group}, on {follower.topic}"
