"""``mainspring workers``: list workers and what they have in hand, drain and resume them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from cyclopts import App, Parameter

from mainspring.cli.errors import Refused
from mainspring.cli.options import Reason
from mainspring.cli.output import (
    Column,
    Columns,
    many,
    plain,
    print_json,
    print_list,
    print_result,
    progress_of,
    say,
    when,
)
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.model.views import WORKER_SILENT_AFTER, DeliveryView, WorkerView

app: App = App(name="workers", help="List, show, drain and resume workers.")

Name = Annotated[str, Parameter(name="WORKER", help="The worker's name, as in `workers list`.")]

_MOST = 200


def _in_hand(each: DeliveryView) -> str:
    return "asked to stop" if each.cancel_asked else "lapsed" if each.state == "lapsed" else progress_of(each)


_HAND_COLUMNS: Columns[DeliveryView] = (
    Column("id", lambda each: each.message_id),
    Column("group", lambda each: each.group, elastic=True),
    Column("topic", lambda each: each.topic, elastic=True),
    Column("attempt", lambda each: each.attempt, right=True),
    Column("until", lambda each: each.due_at, right=True),
    Column("note", _in_hand, elastic=True, spare=True),
)


@app.command(name="list")
async def list_(*, target: Target = UNNAMED, json: Json = False) -> int:
    """List the workers that have reported."""
    async with target.opened() as opened:
        roster = await opened.roster()
    printed = print_list(
        _columns(roster.now),
        roster.workers,
        json=json,
        empty="No workers have reported. To start one: mainspring worker MODULE:APP",
        values=lambda each: {**plain(each), "state": _state(each, roster.now)},
    )
    for each in roster.workers if printed else ():
        if each.draining_at is not None:
            say(_note(each), style="dim")
    return 0


@app.command
async def show(name: Name, /, *, target: Target = UNNAMED, json: Json = False) -> int:
    """Show one worker and the deliveries it has in hand."""
    async with target.opened() as opened:
        roster = await opened.roster()
        found = _of(roster.workers, name)
        held = await opened.messages.search("live", held_by=found.name, limit=_MOST)
    # A worker of another app may have the same name; a group belongs to one app only.
    hands = [each for each in held if each.group in found.groups]
    if json:
        print_json({**plain(found), "state": _state(found, roster.now), "hands": [plain(each) for each in hands]})
        return 0
    say(f"{name} is {_state(found, roster.now)}, {many(found.in_hand, 'delivery', 'deliveries')} in hand")
    if found.draining_at is not None and not found.drains:
        say(_note(found), style="dim")
    print_list(_HAND_COLUMNS, hands, empty="Nothing in hand.")
    if hands and held.cursor is not None:
        say(f"There are more than these {_MOST}.", style="dim")
    return 0


@app.command
async def drain(name: Name, /, *, reason: Reason = "", target: Target = UNNAMED, json: Json = False) -> int:
    """Let a worker finish what it has in hand and claim no more, until it is resumed. The process keeps running."""
    async with target.opened() as opened:
        await opened.workers.drain(name, by=operator(), reason=reason)
        view = _of(await opened.workers.list(), name)
    if json:
        print_json({"worker": name, "draining": True, "in_hand": view.in_hand})
    else:
        in_hand = many(view.in_hand, "delivery", "deliveries")
        say(f"{name} is asked to drain: {in_hand} in hand; it claims no more once it has read the request")
        say(f"To see its progress: mainspring workers show {name}{target.typed}", style="dim")
        say(f"To resume: mainspring workers resume {name}{target.typed}", style="dim")
    return 0


@app.command
async def resume(name: Name, /, *, target: Target = UNNAMED, json: Json = False) -> int:
    """Let a worker claim again."""
    async with target.opened() as opened:
        await opened.workers.resume(name, by=operator())
    return print_result({"worker": name, "draining": False}, f"{name} is resumed", json=json)


def _of(workers: Sequence[WorkerView], name: str) -> WorkerView:
    """Return the worker of a name, which may be prefixed by its app."""
    found = [each for each in workers if each.name == name]
    found = found or [each for each in workers if f"{each.app}/{each.name}" == name]
    if not found:
        raise Refused(f"there is no worker {name}: see `mainspring workers list`")
    if len(found) > 1:
        ways = " or ".join(sorted(f"{each.app}/{name}" for each in found))
        raise Refused(f"there are {len(found)} workers {name}, of several apps: write {ways}")
    return found[0]


def _state(each: WorkerView, now: datetime) -> str:
    return "silent" if now - each.beat_at > WORKER_SILENT_AFTER else each.condition


def _note(each: WorkerView) -> str:
    by = "" if each.drained_by is None else f", by {each.drained_by}"
    if each.drains:
        return f"{each.name} is draining, asked {when(each.draining_at)}{by}"
    return f"{each.name} was asked to drain {when(each.draining_at)}{by}, and has not confirmed it"


def _columns(now: datetime) -> Columns[WorkerView]:
    return (
        Column("worker", lambda each: each.name),
        Column("state", lambda each: _state(each, now)),
        Column("app", lambda each: each.app, spare=True),
        Column("in hand", lambda each: each.in_hand, right=True),
        Column("groups", lambda each: ", ".join(each.groups), elastic=True),
        Column("started", lambda each: each.started_at, right=True, spare=True),
        Column("seen", lambda each: each.beat_at, right=True),
        Column("bell", lambda each: each.bell, spare=True),
    )
