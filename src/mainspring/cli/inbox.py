"""``mainspring inbox``: messages received from external systems, and their status."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from mainspring.app.mainspring import Mainspring
from mainspring.cli.errors import Refused
from mainspring.cli.options import NO_MATCH, Cursor, Limit
from mainspring.cli.output import Column, Columns, first_line, many, print_line, print_list, print_result, when
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.model.inbox import InboxView

app: App = App(name="inbox", help="List messages received from external systems, and release them for redelivery.")

Statuses = Literal["seen", "processing", "done", "dead"]
OfGroup = Annotated[str | None, Parameter(name=["--group", "-g"], help="Only of this receiving group.")]
OfSource = Annotated[str | None, Parameter(name=["--source", "-s"], help="Only from this source.")]


def _note(view: InboxView) -> str:
    note = first_line(view.error)
    if view.mismatched_at is None:
        return note
    return f"redelivered with another hash {when(view.mismatched_at)}" + (f"; {note}" if note else "")


_COLUMNS: Columns[InboxView] = (
    Column("id", lambda each: each.message_id, elastic=True),
    Column("source", lambda each: each.source, elastic=True),
    Column("group", lambda each: each.group, elastic=True),
    Column("status", lambda each: each.status),
    Column("attempts", lambda each: each.attempts, right=True),
    Column("changed", lambda each: each.changed_at, right=True),
    Column("first seen", lambda each: each.first_seen_at, right=True, spare=True),
    Column("note", _note, elastic=True, spare=True),
)


@app.command(name="list")
async def list_(
    *,
    status: Statuses | None = None,
    stuck: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    group: OfGroup = None,
    source: OfSource = None,
    id: Annotated[str | None, Parameter(metavar="ID")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """List messages, the latest change first.

    Parameters
    ----------
    status
        Only these: seen has failed and may be redelivered, processing is being handled.
    stuck
        Only those that have been processing for longer than an hour.
    id
        Only this id, from any source.
    """
    async with target.opened() as opened:
        found = await opened.inbox.list(
            status, group=group, source=source, message_id=id, stuck=stuck, cursor=cursor, limit=limit
        )
    narrowed = any(each is not None for each in (status, group, source, id, cursor))
    empty = "Nothing is stuck." if stuck else NO_MATCH if narrowed else "The inbox is empty."
    printed = print_list(_COLUMNS, found, json=json, empty=empty)
    if printed and any(each.status == "processing" for each in found):
        release = f"mainspring inbox release ID{target.typed}"
        print_line(f"If the process that handled one has died: {release}, and its redelivery is admitted", style="dim")


@app.command
async def release(
    id: Annotated[str, Parameter(name="ID", help="The message's id, as in `inbox list`.")],
    /,
    *,
    source: OfSource = None,
    group: OfGroup = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Admit the redelivery of a message that is processing or given up."""
    async with target.opened() as opened:
        view = await _selected(opened, id, source, group)
        if not await opened.inbox.release(view.message_id, view.source, group=view.group, by=operator()):
            raise Refused(_unreleased(view))
    values = {"id": view.message_id, "source": view.source, "group": view.group, "released": True}
    text = f"{view.message_id} of {view.source} is released: its redelivery is admitted"
    print_result(values, text, json=json)


async def _selected(opened: Mainspring, id: str, source: str | None, group: str | None) -> InboxView:
    found = await opened.inbox.list(message_id=id, source=source, group=group)
    if not found:
        raise Refused(f"there is no message {id!r}: it was never received, or was pruned")
    if len(found) > 1:
        named = ", ".join(f"--source {each.source} --group {each.group}" for each in found)
        raise Refused(f"there are {many(len(found), 'message')} {id!r}: select one by {named}")
    return found[0]


def _unreleased(view: InboxView) -> str:
    if view.status == "done":
        return f"{view.message_id!r} is done: releasing it would repeat its effects"
    return f"{view.message_id!r} needs no release: its status is {view.status}, so its redelivery is admitted"
