"""``mainspring fanout``: the progress of shards, planning now, and planning policies."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

from cyclopts import App, Parameter

from mainspring.app.fanout.fanouts import FanoutView, no_fanout
from mainspring.app.page import Page
from mainspring.cli.errors import Refused
from mainspring.cli.options import Cursor, Limit, Reason, Yes, confirm
from mainspring.cli.output import (
    Column,
    Columns,
    heading,
    many,
    plain,
    print_facts,
    print_json,
    print_list,
    print_result,
    when,
)
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.model.errors import LeaseHeld
from mainspring.model.fanout import CursorView, FanoutPolicy, FanoutPolicyView
from mainspring.timing.duration import spell

app: App = App(name="fanout", help="List and show fan-outs, plan one now, move cursors, and edit planning policies.")

Topic = Annotated[str, Parameter(name="TOPIC", help="The topic of the fan-out.")]
Work = Annotated[str, Parameter(name="WORK", help="The work, as in `fanout list`.")]
MaybeWork = Annotated[str | None, Parameter(name="WORK", help="The work, if the fan-out has one.")]
Shard = Annotated[str | None, Parameter(metavar="SHARD", help="Only this shard.")]
_POLICIES = 20
"""How many policies of shards are shown."""


def _note(each: FanoutView) -> str:
    if each.rhythm is None:
        return "not in any code"
    stands = [word for word, true in (("paused", each.paused), ("disabled", not each.enabled)) if true]
    return ", ".join([*stands, *([f"planned by {each.coordinator}"] if each.coordinator else [])])


_COLUMNS: Columns[FanoutView] = (
    Column("topic", lambda each: each.topic, elastic=True),
    Column("work", lambda each: each.work, elastic=True),
    Column("rhythm", lambda each: each.rhythm),
    Column("next", lambda each: each.next_window, right=True),
    Column("shards", lambda each: each.shards, right=True),
    Column("completed", lambda each: each.completed, right=True),
    Column("behind", lambda each: each.behind, right=True),
    Column("last window", lambda each: each.last_window, right=True),
    Column("oldest", lambda each: each.oldest, right=True, spare=True),
    Column("note", _note, elastic=True, spare=True),
)
_CURSOR_COLUMNS: Columns[CursorView] = (
    Column("shard", lambda each: each.shard, elastic=True),
    Column("completed", lambda each: _stamp(each.completed), right=True),
    Column("planned", lambda each: _stamp(each.planned), right=True),
    Column("note", lambda each: "behind" if each.is_behind else "", elastic=True),
)


@app.command(name="list")
async def list_(*, target: Target = UNNAMED, json: Json = False) -> None:
    """List every work of every fan-out: its next window, and the progress of its shards."""
    async with target.opened() as opened:
        found = await opened.fanouts.list()
    empty = "No fan-outs. A worker declares those of its code when it starts."
    print_list(_COLUMNS, found, json=json, empty=empty)


@app.command
async def show(
    topic: Topic,
    work: MaybeWork = None,
    /,
    *,
    behind: Annotated[
        bool, Parameter(negative="", show_default=False, help="Only shards whose latest window is not completed.")
    ] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Show one work of a fan-out: its rhythm, policies, current coordinator, and the cursors of its shards."""
    async with target.opened() as opened:
        view = await opened.fanouts.get(topic, work)
        if view is None:
            raise no_fanout(topic, work, await opened.fanouts.list())
        cursors: Page[CursorView] = Page()
        policies: Sequence[FanoutPolicyView] = []
        if work is not None:
            cursors = await opened.fanouts.cursors(topic, work, behind=behind, cursor=cursor, limit=limit)
            policies = await opened.fanouts.policies(topic, work, limit=_POLICIES)
    if json:
        print_json({**plain(view), "cursors": cursors, "policies": policies, "cursor": cursors.cursor})
        return
    _print_fanout(view, policies)
    if cursors:
        heading("Shards")
        print_list(_CURSOR_COLUMNS, cursors)


@app.command
async def run(
    topic: Topic,
    work: MaybeWork = None,
    /,
    *,
    shard: Shard = None,
    wait: Annotated[
        str | None, Parameter(metavar="DURATION", help="How long to wait for a coordinator that is planning it.")
    ] = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Plan a fan-out now: every shard that is due by its policies gets a slice. Needs --app."""
    if target.spec is None:
        raise Refused("the planner is in the application's code: give --app MODULE:APP")
    async with target.opened() as opened:
        try:
            planned = await opened.fanouts.run(topic, work, shard, wait=wait, by=operator())
        except LeaseHeld as error:
            raise Refused(
                f"{error.holder or 'another process'} is planning it: retry later, or add --wait 1m"
            ) from error
    print_result(planned, f"{topic if work is None else f'{topic} {work}'}: {planned}", json=json)


@app.command
async def edit(
    topic: Topic,
    work: Work,
    /,
    *,
    shard: Shard = None,
    every: Annotated[
        str | None, Parameter(metavar="DURATION", help="The minimum time between two windows of a shard; 0s for none.")
    ] = None,
    jitter: Annotated[
        str | None, Parameter(metavar="DURATION", help="The time over which the slices of a window are spread.")
    ] = None,
    enabled: Annotated[
        bool | None, Parameter(negative="--disabled", help="Whether it gets slices.", show_default=False)
    ] = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Edit the planning policy of a work, or of one of its shards, from the next window on."""
    if every is None and jitter is None and enabled is None:
        raise Refused("nothing to set: give --every, --jitter, --enabled or --disabled")
    async with target.opened() as opened:
        policy = await opened.fanouts.edit(
            topic, work, shard, every=every, jitter=jitter, enabled=enabled, by=operator()
        )
    values = {"topic": topic, "work": work, "shard": shard, **plain(policy)}
    print_result(values, f"{_subject(topic, work, shard)}: {_described(policy)}", json=json)


@app.command
async def seek(
    topic: Topic,
    work: Work,
    /,
    *,
    shard: Shard = None,
    to: Annotated[
        datetime | None,
        Parameter(metavar="TIME", help="The window to continue after, as 2026-11-01T02:00; without offset in UTC."),
    ] = None,
    to_start: Annotated[
        bool, Parameter(negative="", show_default=False, help="As if nothing was ever completed.")
    ] = False,
    reason: Reason = "",
    yes: Yes = False,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Move the cursor of a shard, or of every shard of a work, back or ahead: the next window covers the time since."""
    if (to is None) != to_start:
        raise Refused("give --to TIME, or --to-start, and not both")
    window = to.replace(tzinfo=UTC) if to is not None and to.tzinfo is None else to
    named = _subject(topic, work, shard)
    where = "the start" if window is None else f"{window:%Y-%m-%d %H:%M:%S %Z}"
    async with target.opened() as opened:
        confirm(f"Move {'the cursor' if shard else 'every cursor'} of {named} to {where}?", "Nothing moved.", yes=yes)
        found = await opened.fanouts.seek(topic, work, shard, to=window, reason=reason, by=operator())
    left = ((found.unfinished, "with an unfinished slice"), (found.busy, "locked by another session"))
    stay = ", ".join(f"{count:,} {why}" for count, why in left if count)
    values = {"topic": topic, "work": work, "shard": shard, **plain(found)}
    text = f"{named}: {many(found.moved, 'cursor')} moved to {where}{f'; not moved: {stay}' if stay else ''}"
    print_result(values, text, json=json)


@app.command
async def reset(
    topic: Topic, work: Work, /, *, shard: Shard = None, target: Target = UNNAMED, json: Json = False
) -> None:
    """Remove the policy set by `fanout edit` for a work, or for one of its shards."""
    async with target.opened() as opened:
        removed = await opened.fanouts.reset(topic, work, shard, by=operator())
    subject = _subject(topic, work, shard)
    text = f"{subject} follows the policy of its {'work' if shard else 'code'} again"
    values = {"topic": topic, "work": work, "shard": shard, "reset": removed}
    print_result(values, text if removed else f"No policy is set for {subject}", json=json)


def _print_fanout(view: FanoutView, policies: Sequence[FanoutPolicyView]) -> None:
    print_facts(
        (
            ("topic", view.topic),
            ("work", view.work or "named by its planner"),
            ("schedule", view.schedule),
            ("rhythm", view.rhythm or "not in any code"),
            ("next", "paused" if view.paused else _stamp(view.next_window)),
            ("jitter", "" if view.jitter is None else spell(view.jitter)),
            ("every", "each window" if view.every is None else f"{spell(view.every)} at least"),
            ("enabled", "yes" if view.enabled else "no"),
            ("coordinator", view.coordinator or "none"),
            ("last window", _stamp(view.last_window)),
            ("completed", f"{view.completed:,} of {many(view.shards, 'shard')}"),
            ("behind", f"{view.behind:,}"),
            ("oldest", _stamp(view.oldest)),
        )
    )
    own = [each for each in policies if each.shard is not None]
    if own:
        heading("Policies of shards")
        print_facts((each.shard or "", f"{_described(each.policy)}, by {each.edited_by}") for each in own)


def _stamp(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} ({when(moment)})"


def _described(policy: FanoutPolicy) -> str:
    parts = (
        None if policy.enabled is None else ("enabled" if policy.enabled else "disabled"),
        _length("every", policy.every),
        _length("jitter", policy.jitter),
    )
    return ", ".join(each for each in parts if each is not None)


def _length(name: str, length: timedelta | None) -> str | None:
    return None if length is None else f"{name} {spell(length)}"


def _subject(topic: str, work: str, shard: str | None) -> str:
    return f"{topic} {work}" if shard is None else f"{topic} {work}, shard {shard}"
