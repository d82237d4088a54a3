"""``mainspring dead``: list, show, revive and discard dead letters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal
from uuid import UUID

from cyclopts import App, Parameter

from mainspring.app.admin.dead_letters import Revived
from mainspring.app.mainspring import Mainspring
from mainspring.app.message.envelope import MISSING
from mainspring.cli.errors import Refused
from mainspring.cli.messages import print_message
from mainspring.cli.options import (
    NO_MATCH,
    Cursor,
    JsonText,
    Limit,
    MessageId,
    OfGroup,
    OfTopic,
    Validate,
    Yes,
    confirm,
    progress,
    read_json,
)
from mainspring.cli.output import Column, Columns, first_line, many, print_json, print_line, print_list, print_result
from mainspring.cli.target import UNNAMED, Json, Target, operator
from mainspring.model.search import CauseView
from mainspring.model.views import DeliveryView

app: App = App(name="dead", help="List, show, revive and discard dead letters, and group them by cause.")

_PAGE, _MOST = 500, 10_000

All = Annotated[bool, Parameter(name="--all", negative="", show_default=False, help="All dead letters.")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Filters:
    """Which dead letters a command is about."""

    group: OfGroup = None
    topic: OfTopic = None
    error: Annotated[str | None, Parameter(metavar="TEXT", help="Only errors containing this text.")] = None
    cause: Annotated[
        str | None,
        Parameter(name=["--cause", "-c"], metavar="FINGERPRINT", help="Only of this cause (see `dead causes`)."),
    ] = None

    @property
    def options(self) -> dict[str, Any]:
        """The filters as options of ``app.dead``."""
        return {"group": self.group, "topic": self.topic, "error": self.error, "fingerprint": self.cause}


UNFILTERED = Filters()
_COLUMNS: Columns[DeliveryView] = (
    Column("id", lambda each: each.message_id),
    Column("group", lambda each: each.group, elastic=True),
    Column("topic", lambda each: each.topic, elastic=True, spare=True),
    Column("died", lambda each: each.buried_at, right=True),
    Column("attempts", lambda each: each.attempt, right=True, spare=True),
    Column("error", lambda each: first_line(each.error), elastic=True),
    Column("kind", lambda each: each.kind, spare=True),
    Column("payload", lambda each: each.preview, elastic=True, spare=True),
)
_REPEATS: Column[DeliveryView] = Column("repeats", lambda each: f"{each.repeats:,}", right=True)
"""How many each has replaced: shown where one of them has."""
_CAUSE_COLUMNS: Columns[CauseView] = (
    Column("cause", lambda each: each.fingerprint or "(unknown)"),
    Column("group", lambda each: each.group, elastic=True),
    Column("dead", lambda each: f"{each.count:,}" + ("+" if each.more else ""), right=True),
    Column("first", lambda each: each.first_at, right=True, spare=True),
    Column("last", lambda each: each.last_at, right=True),
    Column("error", lambda each: first_line(each.error), elastic=True),
)


@app.command(name="list")
async def list_(
    *,
    filters: Filters = UNFILTERED,
    limit: Limit = 50,
    cursor: Cursor = None,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """List dead letters, newest first."""
    async with target.opened() as opened:
        found = await opened.dead.list(**filters.options, cursor=cursor, limit=limit)
    empty = "No dead letters." if filters == UNFILTERED and cursor is None else NO_MATCH
    repeated = (_REPEATS,) if any(each.repeats for each in found) else ()
    if print_list((*_COLUMNS, *repeated), found, json=json, empty=empty):
        print_line(f"Next: mainspring dead show ID{target.typed}, then dead revive or dead discard", style="dim")


@app.command
async def causes(*, group: OfGroup = None, limit: Limit = 50, target: Target = UNNAMED, json: Json = False) -> None:
    """List the causes of dead letters: errors that differ only in ids and values count as one."""
    async with target.opened() as opened:
        found = await opened.dead.causes(group=group, cap=_MOST, limit=limit)
    if json:
        print_json(found)
        return
    empty = "No dead letters." if group is None else NO_MATCH
    if print_list(_CAUSE_COLUMNS, found.rows, empty=empty):
        if found.more:
            print_line("There are more causes: raise --limit, or name a --group", style="dim")
        print_line(
            f"Next: mainspring dead list --cause CAUSE{target.typed}, then dead revive --cause CAUSE", style="dim"
        )


@app.command
async def show(id: MessageId, /, *, target: Target = UNNAMED, json: Json = False) -> None:
    """Show one dead letter: payload, headers, and every error with its traceback."""
    async with target.opened() as opened:
        found = await opened.dead.get(id)
    if found is None:
        raise _unknown(id, None)
    print_message(found, json=json)


@app.command
async def revive(
    id: MessageId | None = None,
    /,
    *,
    filters: Filters = UNFILTERED,
    everything: All = False,
    payload: Annotated[str | None, JsonText] = None,
    validate: Validate = True,
    yes: Yes = False,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Deliver dead letters again: one by its id, or many by --group, --topic, --error, --cause or --all.

    Parameters
    ----------
    payload
        With an ID: replace the payload by this JSON; `-` reads stdin. Another message takes its place.
    """
    _check_selection(id, filters, everything=everything)
    if payload is not None and id is None:
        raise Refused("--payload replaces the payload of one dead letter: give its ID")
    value = MISSING if payload is None else read_json(payload)
    async with target.opened() as opened:
        if id is None:
            count = await _bulk(opened, "Revive", filters, yes=yes)
        else:
            count = await opened.dead.revive(id, group=filters.group, payload=value, validate=validate, by=operator())
            if not count:
                raise _unknown(id, filters.group)
    if isinstance(count, Revived) and count.message_id is not None:
        text = f"{id} is revived with another payload, as message {count.message_id}"
        print_result({"revived": int(count), "message_id": str(count.message_id)}, text, json=json)
        return
    _print_count(int(count), "revived", json=json)


@app.command
async def discard(
    id: MessageId | None = None,
    /,
    *,
    filters: Filters = UNFILTERED,
    everything: All = False,
    yes: Yes = False,
    target: Target = UNNAMED,
    json: Json = False,
) -> None:
    """Permanently delete dead letters: one by its id, or many by --group, --topic, --error, --cause or --all."""
    _check_selection(id, filters, everything=everything)
    async with target.opened() as opened:
        if id is None:
            count = await _bulk(opened, "Discard", filters, yes=yes)
        elif not (count := await opened.dead.discard(id, group=filters.group, by=operator())):
            raise _unknown(id, filters.group)
    _print_count(count, "discarded", json=json)


async def _bulk(opened: Mainspring, verb: Literal["Revive", "Discard"], filters: Filters, *, yes: bool) -> int:
    """Apply the action to all matches, after confirmation, and return how many those were."""
    count = await _count(opened, filters)
    if not count:
        return 0
    exact = count < _MOST
    number = many(count, "dead letter") if exact else f"{_MOST:,} or more dead letters"
    act, done = (opened.dead.revive, "revived") if verb == "Revive" else (opened.dead.discard, "discarded")
    confirm(f"{verb} {number}?", f"Nothing {done}.", yes=yes)
    with progress(verb, count if exact else None) as advance:
        return await act(**filters.options, everything=True, by=operator(), progress=advance)


async def _count(opened: Mainspring, filters: Filters) -> int:
    page = await opened.dead.list(**filters.options, limit=_PAGE)
    count = len(page)
    while page.cursor is not None and count < _MOST:
        page = await opened.dead.list(**filters.options, cursor=page.cursor, limit=_PAGE)
        count += len(page)
    return count


def _check_selection(id: UUID | None, filters: Filters, *, everything: bool) -> None:
    filtered = filters != UNFILTERED
    if id is None and not filtered and not everything:
        raise Refused("no dead letters selected: give an ID, or --group, --topic, --error, --cause or --all")
    if everything and (filtered or id is not None):
        raise Refused("--all selects every dead letter: omit it to use an ID or filters")
    if id is not None and filters != Filters(group=filters.group):
        raise Refused("an ID selects one message: omit --topic, --error and --cause")


def _print_count(count: int, done: str, *, json: bool) -> None:
    text = f"{many(count, 'dead letter')} {done}" if count else "No dead letter matches."
    print_result({done: count}, text, json=json)


def _unknown(id: UUID, group: str | None) -> Refused:
    of = f" of group {group}" if group is not None else ""
    return Refused(f"message {id} has no dead letter{of}: see `mainspring dead list`")
