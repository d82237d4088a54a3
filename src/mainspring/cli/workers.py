"""``mainspring workers``: list workers and what they have in hand, drain and resume them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from cyclopts import App, Parameter

from mainspring.cli.failures import Refused
from mainspring.cli.groups import SILENT
from mainspring.cli.tables import Column, print_json, print_table, say
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.cli.words import many, plain, progress_of, when
from mainspring.model.views import DeliveryView, WorkerView

app: App = App(name="workers", help="List, show, drain and resume workers.")

Reason = Annotated[str, Parameter(show_default=False, help="Stored in the audit log.")]
Name = Annotated[str, Parameter(name="WORKER", help="The worker's name, as in `workers list`.")]

_MOST = 200


@app.command(name="list")
async def list_(*, target: Target = UNNAMED, json: Json = False) -> int:
    """List the workers that have reported."""
    async with target.opened() as opened:
        roster = await opened.roster()
    if json:
        print_json([{**plain(each), "state": _state(each, roster.now)} for each in roster.workers])
        return 0
    if not roster.workers:
        say("No workers have reported. To start one: mainspring worker MODULE:APP")
        return 0
    columns = (
        Column("worker"),
        Column("state"),
        Column("app", spare=True),
        Column("in hand", right=True),
        Column("groups", elastic=True),
        Column("started", right=True, spare=True),
        Column("seen", right=True),
        Column("bell", spare=True),
    )
    print_table(columns, [_row(each, roster.now) for each in roster.workers])
    for each in roster.workers:
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
    hands = [each for each in held.rows if each.group in found.groups]
    if json:
        print_json({**plain(found), "state": _state(found, roster.now), "hands": [plain(each) for each in hands]})
        return 0
    say(f"{name} is {_state(found, roster.now)}, {many(found.in_hand, 'delivery', 'deliveries')} in hand")
    if found.draining_at is not None and not found.drains:
        say(_note(found), style="dim")
    if not hands:
        say("Nothing in hand.")
        return 0
    columns = (
        Column("id"),
        Column("group", elastic=True),
        Column("topic", elastic=True),
        Column("attempt", right=True),
        Column("until", right=True),
        Column("note", elastic=True, spare=True),
    )
    print_table(columns, [_hand(each) for each in hands])
    if held.before is not None:
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
    if json:
        print_json({"worker": name, "draining": False})
    else:
        say(f"{name} is resumed")
    return 0


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
    return "silent" if now - each.beat_at >= SILENT else each.condition


def _note(each: WorkerView) -> str:
    by = "" if each.drained_by is None else f", by {each.drained_by}"
    if each.drains:
        return f"{each.name} is draining, asked {when(each.draining_at)}{by}"
    return f"{each.name} was asked to drain {when(each.draining_at)}{by}, and has not confirmed it"


def _row(each: WorkerView, now: datetime) -> tuple[str, ...]:
    return (
        each.name,
        _state(each, now),
        each.app,
        f"{each.in_hand:,}",
        ", ".join(each.groups),
        when(each.started_at),
        when(each.beat_at),
        each.bell,
    )


def _hand(each: DeliveryView) -> tuple[str, ...]:
    note = "asked to stop" if each.cancel_asked else "lapsed" if each.state == "lapsed" else progress_of(each)
    return str(each.message_id), each.group, each.topic, str(each.attempt), when(each.due_at), note
