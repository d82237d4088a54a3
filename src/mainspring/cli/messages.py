"""``mainspring messages``: list, show and cancel messages."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from cyclopts import App, Parameter

from mainspring.cli.details import print_message
from mainspring.cli.failures import Refused
from mainspring.cli.tables import Column, print_json, print_table, say
from mainspring.cli.target import UNNAMED, Json, Target
from mainspring.cli.words import first_line, many, progress_of, when
from mainspring.model.views import DeliveryView

app: App = App(name="messages", help="List, show and cancel messages.")

States = Literal["live", "scheduled", "ready", "running", "lapsed", "retrying", "done", "dead", "cancelled", "parked"]
Limit = Annotated[int, Parameter(name=["--limit", "-n"], help="The maximum number of rows.")]
Before = Annotated[int | None, Parameter(metavar="SEQ", help="Only older ones (next page).")]

NO_MATCH = "No matches. Remove a filter to see more."
_COLUMNS = (
    Column("id"),
    Column("state"),
    Column("topic", elastic=True),
    Column("group", elastic=True),
    Column("key", elastic=True, spare=True),
    Column("due", right=True),
    Column("attempt", right=True, spare=True),
    Column("note", elastic=True, spare=True),
)


@app.command(name="list")
async def list_(
    *,
    state: States = "live",
    group: Annotated[str | None, Parameter(name=["--group", "-g"])] = None,
    topic: Annotated[str | None, Parameter(name=["--topic", "-t"])] = None,
    key: str | None = None,
    limit: Limit = 50,
    before: Before = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """List deliveries, newest first: one row per message and group.

    Parameters
    ----------
    state
        Live: scheduled, ready, running or lapsed. Retrying: failed, and waiting for its next attempt.
    group
        Only of this group.
    topic
        Only on this topic.
    key
        Only with this key.
    """
    check_limit(limit)
    async with target.opened() as opened:
        found = await opened.messages.list(state, group=group, topic=topic, key=key, before=before, limit=limit)
    if json:
        print_json(found)
        return 0
    if not found:
        narrowed = before is not None or any(each is not None for each in (group, topic, key))
        say(_nothing(state, narrowed=narrowed, typed=target.typed))
        return 0
    print_table(_COLUMNS, [_row(each) for each in found])
    if len(found) == limit:
        say(f"There may be more: add --before {found[-1].seq}", style="dim")
    return 0


@app.command
async def show(id: UUID, /, *, target: Target = UNNAMED, json: Json = False) -> int:
    """Show one message: payload, headers, deliveries, and kept runs.

    Parameters
    ----------
    id
        The message's id, as shown in lists.
    """
    async with target.opened() as opened:
        found = await opened.messages.show(id)
    if found is None:
        raise Refused(f"there is no message {id}: it was never stored here, or was pruned")
    if json:
        print_json(found)
    else:
        print_message(found)
    return 0


@app.command
async def cancel(
    id: UUID | None = None,
    /,
    *,
    topic: Annotated[str | None, Parameter(name=["--topic", "-t"])] = None,
    key: str | None = None,
    reason: str = "cancelled by an operator",
    target: Target = UNNAMED,
    json: Json = False,
) -> int:
    """Cancel a message by its id, or all messages of a topic with one key; running handlers are asked to stop.

    Parameters
    ----------
    id
        The message's id, as shown in lists.
    topic
        With --key: all messages of this topic with that key.
    key
        With --topic: the key.
    reason
        Stored with the history.
    """
    if (id is None) == (topic is None and key is None) or (topic is None) != (key is None):
        raise Refused("nothing selected: give a message's ID, or --topic and --key together")
    async with target.opened() as opened:
        if id is not None:
            done = await opened.messages.cancel(id, reason=reason)
        else:
            assert topic is not None
            done = await opened.cancel(topic, key=key, reason=reason)
    if json:
        print_json(done)
    elif not done.cancelled and not done.asked:
        say("nothing to cancel: no matching delivery is waiting or running")
    else:
        asked = f", {done.asked} running asked to stop" if done.asked else ""
        say(f"{many(done.cancelled, 'delivery', 'deliveries')} cancelled{asked}")
    return 0


def check_limit(limit: int) -> None:
    """Reject a page of no rows."""
    if limit < 1:
        raise Refused(f"--limit {limit} must be 1 or more")


def _row(each: DeliveryView) -> tuple[str, ...]:
    note = first_line(each.error) or progress_of(each) or each.held_by or ""
    due = each.buried_at if each.state == "dead" else each.due_at
    return (
        str(each.message_id),
        each.state,
        each.topic,
        each.group or "(no group yet)",
        each.key or "",
        when(due),
        str(each.attempt),
        "asked to stop" if each.cancel_asked else note,
    )


def _nothing(state: str, *, narrowed: bool, typed: str) -> str:
    if narrowed:
        return NO_MATCH
    match state:
        case "live":
            return f"Nothing is waiting or running. To publish: mainspring publish orders.placed '{{\"id\": 1}}'{typed}"
        case "done":
            return "No finished runs are kept. The option keep='all' of an app or a consumer keeps them."
        case "dead":
            return "No dead letters."
        case _:
            return f"No {state} messages."
