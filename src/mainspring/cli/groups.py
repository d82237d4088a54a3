"""``mainspring groups``: list, pause, resume, release and retire groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import Annotated

from cyclopts import App, Parameter

from mainspring.cli.options import Yes, confirm, progress
from mainspring.cli.output import Column, Columns, many, plain, print_line, print_list, print_result, since
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.model.views import Counts, GroupView

app: App = App(name="groups", help="List, pause, resume, release and retire groups.")

NO_GROUPS = "No groups declared. A worker declares its own when it starts, or run: mainspring declare MODULE:APP"
SEE_PARKED = "mainspring messages list --state parked"
Reason = Annotated[str, Parameter(show_default=False, help="Shown with the group and in the audit log.")]
Name = Annotated[str, Parameter(name="GROUP", help="The group's name, as in `groups list`.")]


@app.command(name="list")
async def list_(*, target: Target = UNNAMED, json: Json = False) -> None:
    """List the declared groups and their backlogs."""
    async with target.opened() as opened:
        roster = await opened.stats.roster()
        tally = await opened.stats.tally()
    found = roster.groups
    alive = roster.alive()
    workers = Counter(group for each in alive for group in each.groups)
    counts = {each.group: each for each in tally.groups}
    load = {each.name: counts.get(each.name, Counts(each.name)) for each in found}
    printed = print_list(
        _columns(load, roster.served()),
        found,
        json=json,
        empty=NO_GROUPS,
        values=lambda each: {**plain(each), **_numbers(load[each.name]), "workers": workers[each.name]},
    )
    if not printed:
        return
    if tally.parked:
        print_line(f"{parked_in_words(tally.parked)}: {SEE_PARKED}")
    tripped = Counter(group for each in alive for group in each.tripped)
    for group, count in tripped.items():
        print_line(f"{group} fails too often: its breaker is open in {many(count, 'worker')} of {workers[group]}")
    for each in found:
        if paused := since(each.paused_at, each.paused_by, each.pause_reason):
            print_line(f"{each.name} was paused {paused}", style="dim")


@app.command
async def pause(name: Name, /, *, reason: Reason = "", target: Target = UNNAMED, json: Json = False) -> None:
    """Stop claiming a group's messages until it is resumed; restarts and deploys do not resume it."""
    async with target.opened() as opened:
        await opened.groups.pause(name, by=operator(), reason=reason)
    text = f"{name} is paused; its messages wait. To resume: mainspring groups resume {name}{target.typed}"
    print_result({"group": name, "paused": True}, text, json=json)


@app.command
async def resume(name: Name, /, *, target: Target = UNNAMED, json: Json = False) -> None:
    """Claim a group's messages again."""
    async with target.opened() as opened:
        await opened.groups.resume(name, by=operator())
    print_result({"group": name, "paused": False}, f"{name} is resumed", json=json)


@app.command
async def release(
    name: Name,
    /,
    *,
    limit: Annotated[int | None, Parameter(help="How many to release at most [all].")] = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Release a group's lapsed claims, so that they are claimed again at once: after a machine was lost."""
    async with target.opened() as opened:
        with progress("Release", None) as advance:
            answer = await opened.groups.release(name, limit=limit, by=operator(), progress=advance)
    text = f"{name}: {many(answer.released, 'lapsed claim')} released"
    if answer.left:
        text += f"; {answer.left:,} left to be taken over one by one, as suspects"
    if answer.busy:
        text += f"; {answer.busy:,} locked by other sessions: run the command again"
    print_result({"group": name, **plain(answer)}, text, json=json)


@app.command
async def retire(
    name: Name,
    /,
    *,
    yes: Yes = False,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Delete a group that no worker serves, with its pending deliveries; its dead letters stay."""
    async with target.opened() as opened:
        tally = await opened.stats.tally()
        mine = next((each for each in tally.groups if each.group == name), Counts(name))
        waiting = mine.ready + mine.scheduled + mine.running + mine.lapsed
        if name in {each.name for each in await opened.groups.list()}:
            question = f"Retire {name} and drop {many(waiting, 'delivery', 'deliveries')}?"
            confirm(question, "Nothing retired.", yes=yes)
        with progress("Retire", waiting) as advance:
            dropped = await opened.groups.retire(name, by=operator(), progress=advance)
    text = f"{name} is retired, {many(dropped, 'delivery', 'deliveries')} dropped"
    print_result({"group": name, "dropped": dropped}, text, json=json)


def parked_in_words(count: int) -> str:
    """Format the number of parked messages, and why they are parked."""
    return f"{many(count, 'message')} parked, no group subscribes"


def _numbers(counts: Counts) -> dict[str, object]:
    numbers: dict[str, object] = plain(counts)
    del numbers["group"]
    return numbers


def _columns(load: Mapping[str, Counts], served: Container[str]) -> Columns[GroupView]:
    def state(each: GroupView) -> str:
        return "paused" if each.paused_at else "served" if each.name in served else "unserved"

    return (
        Column("group", lambda each: each.name),
        Column("state", state),
        Column("topics", lambda each: ", ".join(each.patterns), elastic=True),
        Column("ready", lambda each: load[each.name].ready, right=True),
        Column("scheduled", lambda each: load[each.name].scheduled, right=True),
        Column("running", lambda each: load[each.name].running, right=True),
        Column("lapsed", lambda each: load[each.name].lapsed, right=True, spare=True),
        Column("dead", lambda each: load[each.name].dead, right=True),
        Column("handled", lambda each: load[each.name].handled, right=True, spare=True),
        Column("failed", lambda each: load[each.name].failed, right=True, spare=True),
        Column("served", lambda each: each.served_at or "never", right=True, spare=True),
    )
