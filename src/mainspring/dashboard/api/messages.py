"""Messages: search, count, show, publish, cancel, retry, replace and discard them; dead letters by cause."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from msgspec import Meta, Struct

from mainspring.app.admin.search import SearchPage
from mainspring.dashboard.api.payloads import NewPayload, Payload, payload_of, refuse_masks
from mainspring.dashboard.api.views import Rows, ScannedPage
from mainspring.dashboard.responses import Problem, shown
from mainspring.dashboard.route import (
    NO_NUL,
    Aware,
    Call,
    Cursor,
    Length,
    Level,
    Limit,
    Name,
    Params,
    Reason,
    Text,
    Topic,
    get,
    length,
    post,
)
from mainspring.model.message import Cancelled, Receipt
from mainspring.model.search import CauseView, Chain
from mainspring.model.views import DeliveryView, Kind, MessageView, RunView, State

HeaderText = Annotated[str, Meta(max_length=2000)]
NO_CAUSE = "-"
"""The fingerprint of dead letters without a cause."""
_LARGE = 16 * 1024
"""Size in bytes from which a payload is slow to show."""
_COUNTED, _SCANNED, _AT_ONCE = 10_000, 100_000, 1_000
"""The maximum count, the maximum rows scanned for it, and the rows read at a time."""
_PAGES = 20
"""The maximum number of pages: with large payloads, each scans few rows."""
_MOST = 100


class Search(Params, frozen=True):
    """A search for deliveries: every given field must match."""

    state: State | Literal["live", "retrying", "any"] = "live"
    """``live``: scheduled, ready, running or lapsed; ``retrying``: failed, and waiting for its next attempt; ``any``:
    live, dead, parked, done and cancelled, in this order."""
    group: Name | None = None
    topic: Topic | None = None
    key: Name | None = None
    text: Text | None = None
    error: Text | None = None
    fingerprint: Annotated[str, Meta(max_length=200, pattern=NO_NUL)] | None = None
    """The cause; ``-`` for dead letters buried by versions without causes."""
    since: Aware | None = None
    until: Aware | None = None
    worker: Name | None = None
    correlation_id: Name | None = None
    """The operation they belong to; the id of the first message of a chain finds all of it."""
    kind: Kind | None = None
    """Published to be delivered at once, delayed, or as an occurrence of a schedule."""


class MessageQuery(Search, frozen=True):
    """One page of deliveries."""

    cursor: Cursor | None = None
    limit: Limit = 50


class CountQuery(Search, frozen=True):
    """A search for deliveries to count."""


class MessageCount(Struct, frozen=True):
    """The number of matching deliveries, as far as they were counted."""

    count: int
    more: bool
    """Whether the count is a lower bound."""


class MessagePage(ScannedPage[DeliveryView], frozen=True):
    """Deliveries, newest first. A short or even empty page is not necessarily the last."""


class MessageKey(Params, frozen=True):
    """One message."""

    id: UUID


class Message(Struct, frozen=True):
    """A message, its unfinished deliveries, its kept runs and what is done, oldest first."""

    id: UUID
    topic: str
    key: str | None
    content_type: str
    headers: dict[str, str]
    correlation_id: str | None
    causation_id: UUID | None
    published_at: datetime
    expires_at: datetime | None
    size: int
    payload: Payload
    deliveries: Sequence[DeliveryView]
    runs: Sequence[RunView]
    replaces: UUID | None
    """The dead letter that it was revived from, with another payload."""
    replaced_by: Sequence[UUID]
    """The messages that it was revived as, each with another payload."""
    done: Sequence[DeliveryView]
    """Its deliveries that were handled, whether or not a run was kept."""
    chain: Chain


async def messages(call: Call, params: MessageQuery) -> MessagePage:
    """Return one page of deliveries."""
    check_search(call, params)
    found = await _found(call, params, params.cursor, params.limit)
    return MessagePage(found, found.cursor, found.scanned)


async def count(call: Call, params: CountQuery) -> MessageCount:
    """Count the matching deliveries, within a limited time."""
    check_search(call, params)
    counted = scanned = 0
    cursor: str | None = None
    for _ in range(_PAGES):
        found = await _found(call, params, cursor, min(_COUNTED - counted, _AT_ONCE))
        counted += len(found)
        scanned += found.scanned
        cursor = found.cursor
        if cursor is None or counted >= _COUNTED or scanned >= _SCANNED:
            break
    return MessageCount(counted, cursor is not None)


async def _found(call: Call, params: Search, cursor: str | None, limit: int) -> SearchPage:
    return await call.app.messages.search(**criteria(params), cursor=cursor, limit=limit)


def criteria(params: Search) -> dict[str, Any]:
    """Return the search as arguments of ``app.messages.search``, which are also fields of a ``Filter``."""
    given = {name: getattr(params, name) for name in Search.__struct_fields__}
    given["held_by"] = given.pop("worker")
    if params.fingerprint == NO_CAUSE:
        given["fingerprint"] = ""  # a query cannot express an empty value
    return given


async def message(call: Call, params: MessageKey) -> Message:
    """Return one message in full."""
    view = await _stored(call, params.id)
    chain = await call.app.messages.chain(params.id)
    given = (view.payload, view.content_type, call.redaction)
    # In a thread, so that other requests are not delayed.
    payload = await asyncio.to_thread(payload_of, *given) if len(view.payload) > _LARGE else payload_of(*given)
    headers = call.redaction.headers(view.headers)
    return shown(Message, view, headers=headers, size=len(view.payload), payload=payload, chain=chain)


async def _stored(call: Call, id: UUID) -> MessageView:
    view = await call.app.messages.get(id)
    if view is None:
        raise Problem(404, "not_found", "no such message: it was never stored, or was pruned")
    return view


def check_search(call: Call, params: Search) -> None:
    """Raise Problem for a search that would reveal more than the response shows."""
    if (params.text or params.error) is not None and not call.may_search:
        raise Problem(
            403,
            "not_allowed",
            "searching payloads and errors requires role 'operator', because matches reveal masked values",
        )


class CauseQuery(Params, frozen=True):
    """The group; all groups if none is given."""

    group: Name | None = None


class CauseList(Rows[CauseView], frozen=True):
    """Causes of dead letters."""

    more: bool
    """Whether there are others, less frequent or not scanned."""


async def causes(call: Call, params: CauseQuery) -> CauseList:
    """Return dead letters by cause."""
    found = await call.app.dead.causes(group=params.group, limit=_MOST)
    return CauseList([cause(each) for each in found.rows], found.more)


def cause(found: CauseView) -> CauseView:
    """Name the cause of dead letters that have none."""
    return dataclasses.replace(found, fingerprint=found.fingerprint or NO_CAUSE)


class Publish(NewPayload, frozen=True, kw_only=True):
    """A message to publish: a new one, or a copy of another, with these fields replaced."""

    topic: Topic
    key: Name | None = None
    headers: Annotated[dict[Name, HeaderText], Meta(max_length=50)] | None = None
    priority: Level | None = None
    delay: Length | None = None
    group: Name | None = None
    """The only group to receive it; without it, all groups that subscribe to its topic."""
    copy_of: UUID | None = None
    validate: bool = True
    """Whether to reject a payload that does not fit the type of its topic, where the app knows it."""


class ForGroup(Params, frozen=True):
    """The deliveries of a message, or that of one group."""

    id: UUID
    group: Name | None = None


class Cancel(ForGroup, frozen=True):
    """The deliveries of a message, or that of one group, to cancel."""

    reason: Reason = ""


class Retried(Struct, frozen=True):
    """How many dead letters were revived, and how many scheduled deliveries are due now."""

    revived: int
    run_now: int


class Replace(NewPayload, frozen=True, kw_only=True):
    """A dead letter to revive with another payload: as a value, or as JSON text."""

    id: UUID
    group: Name | None = None
    validate: bool = True
    """Whether to reject a payload that does not fit the type of its topic, where the app knows it."""


class Replaced(Struct, frozen=True):
    """How many were replaced: one."""

    replaced: int
    id: UUID | None
    """The message that took its place."""


class Discarded(Struct, frozen=True):
    """How many dead letters were discarded."""

    discarded: int


async def publish(call: Call, params: Publish) -> Receipt:
    """Publish a message, or a copy of one."""
    if params.headers is not None:
        refuse_masks(params.headers, "headers")
    return await call.app.messages.publish(
        params.topic,
        key=params.key,
        headers=params.headers,
        priority=params.priority,
        delay=length(params.delay),
        group=params.group,
        copy_of=params.copy_of,
        validate=params.validate,
        by=call.by,
        **params.given(),
    )


async def cancel(call: Call, params: Cancel) -> Cancelled:
    """Cancel the deliveries of a message."""
    view = await _stored(call, params.id)
    picked = [(params.id, each.group) for each in _meant(view, params.group) if each.state != "dead"]
    if not picked:
        return Cancelled(0, 0)
    return await call.app.messages.cancel(picked, by=call.by, reason=params.reason or "cancelled by an operator")


async def retry(call: Call, params: ForGroup) -> Retried:
    """Revive dead letters of a message, and make its scheduled deliveries due now."""
    view = await _stored(call, params.id)
    meant = _meant(view, params.group)
    run_now = revived = 0
    if any(each.state == "dead" for each in meant):
        revived = int(await call.app.dead.revive(params.id, group=params.group, by=call.by))
    if scheduled := [(params.id, each.group) for each in meant if each.state == "scheduled"]:
        run_now = await call.app.messages.run_now(scheduled, by=call.by)
    if not revived and not run_now:
        raise _not_dead("it is neither dead nor scheduled", params.group)
    return Retried(revived, run_now)


async def replace(call: Call, params: Replace) -> Replaced:
    """Revive a dead letter with another payload."""
    given = params.given()
    if not given:
        raise Problem(422, "invalid", "payload is missing: send the new payload")
    await _stored(call, params.id)
    revived = await call.app.dead.revive(params.id, group=params.group, validate=params.validate, by=call.by, **given)
    if not revived:
        raise _not_dead("it is not dead", params.group)
    return Replaced(int(revived), revived.message_id)


async def discard(call: Call, params: ForGroup) -> Discarded:
    """Permanently delete dead letters of a message."""
    await _stored(call, params.id)
    return Discarded(await call.app.dead.discard(params.id, group=params.group, by=call.by))


def _not_dead(why: str, group: str | None) -> Problem:
    where = "" if group is None else f" in {group}"
    return Problem(409, "not_dead", f"nothing was revived: {why}{where}, or no longer; see its deliveries")


def _meant(view: MessageView, group: str | None) -> list[DeliveryView]:
    return [each for each in view.deliveries if group is None or each.group == group]


ROUTES = (
    get("/api/messages", messages, "Deliveries, newest first"),
    get("/api/messages/count", count, "How many deliveries match"),
    get("/api/messages/{id}", message, "One message in full"),
    get("/api/dead/causes", causes, "Dead letters by cause"),
    post("/api/messages", publish, "Publish a message, or a copy of one", status=201),
    post("/api/messages/{id}/cancel", cancel, "Cancel the deliveries of a message"),
    post("/api/messages/{id}/retry", retry, "Revive dead letters, run scheduled deliveries now"),
    post("/api/messages/{id}/replace", replace, "Revive a dead letter with another payload"),
    post("/api/messages/{id}/discard", discard, "Permanently delete dead letters of a message"),
)
