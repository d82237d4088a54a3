"""Messages: searching, counting and showing them."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from mainspring.dashboard.answers import Problem, plain, shown
from mainspring.dashboard.api.payload import Payload, payload_of
from mainspring.dashboard.api.shapes import Delivery, Run, delivery, run
from mainspring.dashboard.reading import NO_NUL, Before, Limit, Name, Text, Topic
from mainspring.dashboard.route import Visit, viewing
from mainspring.model.browsing import Page
from mainspring.model.views import State

Aware = Annotated[datetime, Meta(tz=True)]
NO_CAUSE = "-"
"""The fingerprint of dead letters without a cause."""
_LARGE = 16 * 1024
"""Size in bytes from which a payload is slow to show."""
_COUNTED, _SCANNED, _AT_ONCE = 10_000, 100_000, 1_000
"""The maximum count, the maximum rows scanned for it, and the rows read at a time."""
_PAGES = 20
"""The maximum number of pages: with large payloads, each scans few rows."""


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
    """One page of deliveries: ``before`` is the end of the previous page."""

    before: Before | None = None
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

    rows: list[Delivery]
    before: int | None
    """Where the next page begins; null: there is none."""
    scanned: int


class MessageKey(Struct, frozen=True, forbid_unknown_fields=True):
    """One message."""

    id: UUID


class Link(Struct, frozen=True):
    """A message in a chain of causation."""

    id: UUID
    topic: str
    key: str | None
    causation_id: UUID | None
    published_at: datetime
    state: State | None


class Chain(Struct, frozen=True):
    """The messages that caused a message, oldest first, and those it caused."""

    causes: list[Link]
    caused: list[Link]
    more: bool


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
    deliveries: list[Delivery]
    runs: list[Run]
    chain: Chain


async def messages(visit: Visit, asked: MessageQuery) -> MessagePage:
    """Return one page of deliveries."""
    check_search(visit, asked)
    found = await _found(visit, asked, asked.before, asked.limit)
    return MessagePage([delivery(each, visit.redaction) for each in found.rows], found.before, found.scanned)


async def count(visit: Visit, asked: CountQuery) -> MessageCount:
    """Count the matching deliveries, within a limited time."""
    check_search(visit, asked)
    counted = scanned = 0
    before: int | None = None
    for _ in range(_PAGES):
        found = await _found(visit, asked, before, min(_COUNTED - counted, _AT_ONCE))
        counted += len(found.rows)
        scanned += found.scanned
        before = found.before
        if before is None or counted >= _COUNTED or scanned >= _SCANNED:
            break
    return MessageCount(counted, before is not None)


async def _found(visit: Visit, asked: Search, before: int | None, limit: int) -> Page:
    return await visit.app.messages.search(
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
        before=before,
        limit=limit,
    )


async def message(visit: Visit, asked: MessageKey) -> Message:
    """Return one message in full."""
    view = await visit.app.messages.show(asked.id)
    if view is None:
        raise Problem(404, "not_found", "no such message: it was never stored, or was pruned")
    chain = await visit.app.messages.chain(asked.id)
    told = (view.payload, view.content_type, visit.redaction)
    # In a thread, so that other requests are not delayed.
    payload = await asyncio.to_thread(payload_of, *told) if len(view.payload) > _LARGE else payload_of(*told)
    return Message(
        view.id,
        view.topic,
        view.key,
        view.content_type,
        visit.redaction.headers(view.headers),
        view.correlation_id,
        view.causation_id,
        plain(view.published_at),
        plain(view.expires_at),
        len(view.payload),
        payload,
        [delivery(each, visit.redaction) for each in view.deliveries],
        [run(each, visit.redaction) for each in view.runs],
        Chain([shown(Link, each) for each in chain.causes], [shown(Link, each) for each in chain.caused], chain.more),
    )


def cause_meant(fingerprint: str | None) -> str | None:
    """Convert a fingerprint: that of no cause is empty in the app, which a query cannot express."""
    return "" if fingerprint == NO_CAUSE else fingerprint


def check_search(visit: Visit, asked: Search) -> None:
    """Raise Problem for a search that would reveal more than the response shows."""
    if (asked.text or asked.error) is not None and not visit.may_search:
        raise Problem(
            403,
            "not_allowed",
            "searching payloads and errors requires role 'operator', because matches reveal masked values",
        )


ROUTES = (
    viewing("/api/messages", messages, "Deliveries, newest first", MessagePage, MessageQuery),
    viewing("/api/messages/count", count, "How many deliveries match", MessageCount, CountQuery),
    viewing("/api/messages/{id}", message, "One message in full", Message, MessageKey),
)
