"""``mainspring messages``: list, search, show and cancel messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from cyclopts import App, Parameter
from rich.text import Text

from mainspring.cli.errors import Refused
from mainspring.cli.options import NO_MATCH, Cursor, Limit, MessageId, OfGroup, OfTopic
from mainspring.cli.output import (
    Column,
    Columns,
    first_line,
    heading,
    many,
    payload_of,
    plain,
    print_facts,
    print_json,
    print_line,
    print_list,
    print_result,
    progress_of,
    stdout,
    visible,
    when,
)
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.model.message import Cancelled, Priority
from mainspring.model.search import Link
from mainspring.model.views import DeliveryView, Kind, MessageView, RunView, State
from mainspring.timing.duration import spell

app: App = App(name="messages", help="List, search, show and cancel messages.")

States = Literal["live", "scheduled", "ready", "running", "lapsed", "retrying", "done", "dead", "cancelled", "parked"]
OfKey = Annotated[str | None, Parameter(name=["--key", "-k"], help="Only with this key.")]
OfKind = Annotated[Kind | None, Parameter(help="Only those delivered at once, delayed, or published by a schedule.")]


def _due(each: DeliveryView) -> datetime | None:
    """When it is due, or when it has ended."""
    return each.finished_at or each.buried_at or each.due_at


def _note(each: DeliveryView) -> str | None:
    if each.cancel_asked:
        return "asked to stop"
    return first_line(each.error) or progress_of(each) or each.held_by or each.node


_COLUMNS: Columns[DeliveryView] = (
    Column("id", lambda each: each.message_id),
    Column("state", lambda each: each.state),
    Column("topic", lambda each: each.topic, elastic=True),
    Column("group", lambda each: each.group or "(no group yet)", elastic=True),
    Column("key", lambda each: each.key, elastic=True, spare=True),
    Column("due", _due, right=True),
    Column("attempt", lambda each: each.attempt, right=True, spare=True),
    Column("kind", lambda each: each.kind, spare=True),
    Column("note", _note, elastic=True, spare=True),
    Column("payload", lambda each: each.preview, elastic=True, spare=True),
)
_DONE_COLUMNS: Columns[DeliveryView] = (
    *(each for each in _COLUMNS[:5] if each.title != "state"),
    Column("handled", lambda each: each.finished_at, right=True),
    Column("worker", lambda each: each.node, elastic=True),
    *_COLUMNS[6:],
)
_URGENT: tuple[State, ...] = ("dead", "running", "lapsed", "ready", "scheduled", "parked", "done")
_CHAIN_COLUMNS: Columns[tuple[str, MessageView]] = (
    Column("", lambda each: each[0]),
    Column("id", lambda each: each[1].id),
    Column("topic", lambda each: each[1].topic, elastic=True),
    Column("group", lambda each: ", ".join(_groups_of(each[1])) or None, elastic=True),
    Column("key", lambda each: each[1].key, elastic=True, spare=True),
    Column("state", lambda each: _state_of(each[1]) or ("(replaced)" if each[1].replaced_by else "(none left)")),
    Column("published", lambda each: each[1].published_at, right=True),
)


@app.command(name="list")
async def list_(
    *,
    state: States = "live",
    group: OfGroup = None,
    topic: OfTopic = None,
    key: OfKey = None,
    kind: OfKind = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """List deliveries, newest first: one row per message and group.

    Parameters
    ----------
    state
        Live: scheduled, ready, running or lapsed. Retrying: failed, and waiting for its next attempt.
    """
    async with target.opened() as opened:
        found = await opened.messages.list(
            state, group=group, topic=topic, key=key, kind=kind, cursor=cursor, limit=limit
        )
    narrowed = any(each is not None for each in (group, topic, key, kind, cursor))
    empty = NO_MATCH if narrowed else _nothing(state, target.typed)
    print_list(_DONE_COLUMNS if state == "done" else _COLUMNS, found, json=json, empty=empty)


@app.command
async def search(
    text: Annotated[str | None, Parameter(name="TEXT")] = None,
    /,
    *,
    correlation: Annotated[
        str | None, Parameter(name=["--correlation", "--correlation-id", "-c"], metavar="ID")
    ] = None,
    key: OfKey = None,
    topic: OfTopic = None,
    group: OfGroup = None,
    state: States | Literal["any"] = "any",
    kind: OfKind = None,
    limit: Limit = 50,
    cursor: Cursor = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Search for deliveries in every state, by text in their payloads or by the operation they belong to.

    Parameters
    ----------
    text
        Text in the payload, such as a name or a number.
    correlation
        Only of this correlation id; the id of the first message of a chain finds all of it.
    state
        Only in this state [live, dead, parked, done and cancelled, in this order].
    """
    if not any((text, correlation, key, topic, group, kind)) and state == "any":
        raise Refused(
            "nothing to search for: give TEXT, --correlation, --key, --topic, --group, --kind, or a --state but any"
        )
    async with target.opened() as opened:
        found = await opened.messages.list(
            state,
            text=text,
            correlation_id=correlation,
            key=key,
            topic=topic,
            group=group,
            kind=kind,
            cursor=cursor,
            limit=limit,
        )
    if print_list(_COLUMNS, found, json=json, empty=_unmatched(text, target.typed)):
        print_line(f"Next: mainspring messages show ID{target.typed}, or messages chain ID", style="dim")


def _unmatched(text: str | None, typed: str) -> str:
    try:
        return f"No payload contains it. To show the message: mainspring messages show {UUID(text or '')}{typed}"
    except ValueError:
        return NO_MATCH


@app.command
async def chain(id: MessageId, /, *, limit: Limit = 50, target: Target = UNNAMED, json: Json = False) -> None:
    """Show the messages that caused a message, the message itself, and those it caused, each below its cause."""
    async with target.opened() as opened:
        view = await opened.messages.get(id)
        found = await opened.messages.chain(id, limit=limit)
        links = (*found.causes, *found.caused) if not json else ()
        others = [await opened.messages.get(each.id) for each in links]
    if view is None:
        raise Refused(f"there is no message {id}: it was never stored here, or was pruned")
    own = Link(view.id, view.topic, view.key, view.causation_id, view.published_at, _state_of(view))
    if json:
        print_json({"message": plain(own), **plain(found)})
        return
    messages = [*others[: len(found.causes)], view, *others[len(found.causes) :]]
    print_list(_CHAIN_COLUMNS, list(_tree([each for each in messages if each is not None], view)))
    if found.more:
        print_line("There is more: raise --limit", style="dim")


def _tree(messages: Sequence[MessageView], this: MessageView) -> Iterator[tuple[str, MessageView]]:
    """Yield each message below the one that caused it or that it replaces, with its relation, indented."""
    known = {each.id for each in messages}
    below: dict[UUID | None, list[MessageView]] = {}
    for each in messages:
        below.setdefault(each.causation_id if each.causation_id in known else None, []).append(each)
    before = {each.id for each in messages[: messages.index(this)]}
    left = [(each, 0) for each in reversed(below.get(None, []))]
    while left:
        each, depth = left.pop()
        relation = "this" if each is this else "replacement" if each.replaces in known else "caused"
        branch = "└" + "─" * (depth - 1) + " " if depth else ""
        yield branch + ("cause" if each.id in before else relation), each
        left += [(one, depth + 1) for one in reversed(below.get(each.id, []))]


def _groups_of(message: MessageView) -> list[str]:
    deliveries = (each.group for each in (*message.deliveries, *message.done))
    return list(dict.fromkeys(filter(None, (*deliveries, *(run.group for run in message.runs)))))


def _state_of(message: MessageView) -> State | None:
    """Return the most urgent state of its deliveries; None if none is left."""
    states = {each.state for each in (*message.deliveries, *message.done)}
    runs = (each.status for each in message.runs if each.status in ("cancelled", "done"))
    return next((each for each in _URGENT if each in states), None) or next(runs, None)


@app.command
async def show(id: MessageId, /, *, target: Target = UNNAMED, json: Json = False) -> None:
    """Show one message: payload, headers, deliveries, and kept runs."""
    async with target.opened() as opened:
        found = await opened.messages.get(id)
    if found is None:
        raise Refused(f"there is no message {id}: it was never stored here, or was pruned")
    print_message(found, json=json)


@app.command
async def cancel(
    id: MessageId | None = None,
    /,
    *,
    topic: Annotated[str | None, Parameter(name=["--topic", "-t"])] = None,
    key: str | None = None,
    reason: str = "cancelled by an operator",
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Cancel a message by its id, or all messages of a topic with one key; running handlers are asked to stop.

    Parameters
    ----------
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
            done = await opened.messages.cancel(id, by=operator(), reason=reason)
        else:
            assert topic is not None
            done = await opened.cancel(topic, key=key, reason=reason)
    count = many(done.cancelled, "delivery", "deliveries")
    print_cancelled(done, count, "no matching delivery is waiting or running", json=json)


def print_cancelled(done: Cancelled, count: str, nothing: str, *, json: bool) -> None:
    """Print the result of a cancel: the ``count`` in words, or why there was ``nothing`` to cancel."""
    stopping = f", {done.asked} running asked to stop" if done.asked else ""
    text = f"{count} cancelled{stopping}" if done.cancelled or done.asked else f"nothing to cancel: {nothing}"
    print_result(done, text, json=json)


def _nothing(state: str, typed: str) -> str:
    match state:
        case "live":
            return f"Nothing is waiting or running. To publish: mainspring publish orders.placed '{{\"id\": 1}}'{typed}"
        case "done":
            return "Nothing was handled within a day (retention.repeats), and no runs are kept for longer (keep='all')."
        case "dead":
            return "No dead letters."
        case _:
            return f"No {state} messages."


def print_message(message: MessageView, *, json: bool) -> None:
    """Print its fields, payload, deliveries, runs, and every kept traceback."""
    if json:
        print_result(message, json=json)
        return
    print_facts(
        (
            ("id", str(message.id)),
            ("topic", message.topic),
            ("key", message.key or ""),
            ("published", _instant(message.published_at)),
            ("expires", _instant(message.expires_at)),
            ("correlation", message.correlation_id or ""),
            ("caused by", "" if message.replaces else str(message.causation_id or "")),
            ("replaces", str(message.replaces or "")),
            ("replaced by", ", ".join(map(str, message.replaced_by))),
            *((f"header {name}", value) for name, value in message.headers.items()),
        )
    )
    _print_payload(message)
    _print_deliveries(message)
    _print_runs(message)


def _print_payload(message: MessageView) -> None:
    value, encoding = payload_of(message)
    heading(f"payload, {message.content_type}" + ("" if encoding == "json" else ", as base64"))
    text = json.dumps(value, ensure_ascii=False, indent=2) if encoding == "json" else str(value)
    stdout().print(Text(visible(text)), soft_wrap=True)


def _print_deliveries(message: MessageView) -> None:
    heading("deliveries")
    columns: Columns[DeliveryView] = (
        Column("group", lambda each: each.group or "(no group yet)"),
        Column("state", lambda each: each.state),
        Column("attempt", lambda each: each.attempt, right=True),
        Column("due", _due, right=True),
        Column("priority", lambda each: Priority(each.priority).name.lower()),
        Column("kind", lambda each: each.kind),
        Column("worker", lambda each: each.held_by or each.node, elastic=True, spare=True),
    )
    if not print_list(columns, [*message.deliveries, *message.done], empty="none left: every group has settled it"):
        return
    for each in message.deliveries:
        if progress := progress_of(each):
            heading(f"progress of {each.group}")
            print_line(progress)
        if each.error:
            heading(f"why it is dead in {each.group}")
            print_line(each.error)
        if each.repeats:
            print_line(f"It has replaced {many(each.repeats, 'dead letter')} of earlier occurrences of its schedule.")


def _print_runs(message: MessageView) -> None:
    if not message.runs:
        return
    heading("kept runs")
    columns: Columns[RunView] = (
        Column("group", lambda each: each.group),
        Column("attempt", lambda each: each.attempt, right=True),
        Column("status", lambda each: each.status),
        Column("finished", lambda each: each.finished_at, right=True),
        Column("took", lambda each: spell(each.finished_at - each.started_at), right=True),
        Column("node", lambda each: each.node, elastic=True, spare=True),
        Column("outcome", lambda each: first_line(each.error or each.output), elastic=True),
    )
    print_list(columns, message.runs)
    _print_tracebacks(message)


def _print_tracebacks(message: MessageView) -> None:
    attempts: dict[tuple[str, str], list[str]] = {}
    for each in message.runs:
        if each.traceback:
            attempts.setdefault((each.group, each.traceback), []).append(str(each.attempt))
    for (group, text), numbers in attempts.items():
        several = "identical in attempts" if len(numbers) > 1 else "attempt"
        heading(f"traceback, {group}, {several} {', '.join(numbers)}")
        stdout().print(Text(visible(text.rstrip())), soft_wrap=True)


def _instant(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.isoformat()} ({when(moment)})"
