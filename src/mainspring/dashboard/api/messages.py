"""Messages: searching, counting and showing them, and dead letters by cause."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from mainspring.app.admin.search import SearchPage
from mainspring.dashboard.api.payloads import Payload, payload_of
from mainspring.dashboard.responses import Problem, shown
from mainspring.dashboard.route import NO_NUL, Call, Cursor, Limit, Name, Text, Topic, get
from mainspring.model.search import CauseView, Chain
from mainspring.model.views import DeliveryView, RunView, State

Aware = Annotated[datetime, Meta(tz=True)]
NO_CAUSE = "-"
"""The fingerprint of dead letters without a cause."""
_LARGE = 16 * 1024
"""Size in bytes from which a payload is slow to show."""
_COUNTED, _SCANNED, _AT_ONCE = 10_000, 100_000, 1_000
"""The maximum count, the maximum rows scanned for it, and the rows read at a time."""
_PAGES = 20
"""The maximum number of pages: with large payloads, each scans few rows."""
_MOST = 100


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """A search for deliveries: every given field must match."""

    state: State | Literal["live", "retrying"] = "live"
    """``live``: scheduled, ready, running or lapsed; ``retrying``: failed, and waiting for its next attempt."""
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


class MessageQuery(Search, frozen=True, forbid_unknown_fields=True):
    """One page of deliveries."""

    cursor: Cursor | None = None
    limit: Limit = 50


class CountQuery(Search, frozen=True, forbid_unknown_fields=True):
    """A search for deliveries to count."""


class MessageCount(Struct, frozen=True):
    """The number of matching deliveries, as far as they were counted."""

    count: int
    more: bool
    """Whether the count is a lower bound."""


class MessagePage(Struct, frozen=True):
    """Deliveries, newest first. A short or even empty page is not necessarily the last."""

    rows: Sequence[DeliveryView]
    cursor: str | None
    """The cursor of the next page; null: there is none."""
    scanned: int


class MessageKey(Struct, frozen=True, forbid_unknown_fields=True):
    """One message."""

    id: UUID


class Message(Struct, frozen=True):
    """A message, its unfinished deliveries, and its kept runs, oldest first."""

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
    chain: Chain


async def messages(call: Call, asked: MessageQuery) -> MessagePage:
    """Return one page of deliveries."""
    check_search(call, asked)
    found = await _found(call, asked, asked.cursor, asked.limit)
    return MessagePage(found, found.cursor, found.scanned)


async def count(call: Call, asked: CountQuery) -> MessageCount:
    """Count the matching deliveries, within a limited time."""
    check_search(call, asked)
    counted = scanned = 0
    cursor: str | None = None
    for _ in range(_PAGES):
        found = await _found(call, asked, cursor, min(_COUNTED - counted, _AT_ONCE))
        counted += len(found)
        scanned += found.scanned
        cursor = found.cursor
        if cursor is None or counted >= _COUNTED or scanned >= _SCANNED:
            break
    return MessageCount(counted, cursor is not None)


async def _found(call: Call, asked: Search, cursor: str | None, limit: int) -> SearchPage:
    return await call.app.messages.search(
        asked.state,
        group=asked.group,
        topic=asked.topic,
        key=asked.key,
        text=asked.text,
        error=asked.error,
        fingerprint=cause_meant(asked.fingerprint),
        since=asked.since,
        until=asked.until,
        held_by=asked.worker,
        cursor=cursor,
        limit=limit,
    )


async def message(call: Call, asked: MessageKey) -> Message:
    """Return one message in full."""
    view = await call.app.messages.get(asked.id)
    if view is None:
        raise Problem(404, "not_found", "no such message: it was never stored, or was pruned")
    chain = await call.app.messages.chain(asked.id)
    told = (view.payload, view.content_type, call.redaction)
    # In a thread, so that other requests are not delayed.
    payload = await asyncio.to_thread(payload_of, *told) if len(view.payload) > _LARGE else payload_of(*told)
    headers = call.redaction.headers(view.headers)
    return shown(Message, view, headers=headers, size=len(view.payload), payload=payload, chain=chain)


def cause_meant(fingerprint: str | None) -> str | None:
    """Convert a fingerprint: that of no cause is empty in the app, which a query cannot express."""
    return "" if fingerprint == NO_CAUSE else fingerprint


def check_search(call: Call, asked: Search) -> None:
    """Raise Problem for a search that would reveal more than the response shows."""
    if (asked.text or asked.error) is not None and not call.may_search:
        raise Problem(
            403,
            "not_allowed",
            "searching payloads and errors requires role 'operator', because matches reveal masked values",
        )


class CauseQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The group; all groups if none is given."""

    group: Name | None = None


class CauseList(Struct, frozen=True):
    """Causes of dead letters."""

    rows: list[CauseView]
    more: bool
    """Whether there are others, less frequent or not scanned."""


async def causes(call: Call, asked: CauseQuery) -> CauseList:
    """Return dead letters by cause."""
    found = await call.app.dead.causes(group=asked.group, limit=_MOST)
    return CauseList([cause(each) for each in found.rows], found.more)


def cause(found: CauseView) -> CauseView:
    """Name the cause of dead letters that have none."""
    return replace(found, fingerprint=found.fingerprint or NO_CAUSE)


ROUTES = (
    get("/api/messages", messages, "Deliveries, newest first", MessagePage, MessageQuery),
    get("/api/messages/count", count, "How many deliveries match", MessageCount, CountQuery),
    get("/api/messages/{id}", message, "One message in full", Message, MessageKey),
    get("/api/dead/causes", causes, "Dead letters by cause", CauseList, CauseQuery),
)
