"""Messages: what is stored, under way and kept."""

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
"""The fingerprint of dead letters that have none."""
_LARGE = 16 * 1024
"""Bytes of a payload that take long to show."""
_COUNTED, _SCANNED, _AT_ONCE = 10_000, 100_000, 1_000
"""How many are counted, how many rows are looked at for that before it ends, and how many are read at once."""
_PAGES = 20
"""How many pages: of large payloads each one searches only a few."""


class Search(Struct, frozen=True, forbid_unknown_fields=True):
    """Which deliveries: every field given must match."""

    state: State | Literal["live", "retrying"] = "live"
    """``live`` is scheduled, ready, running and lapsed together, ``retrying`` what has failed and is tried again."""
    group: Name | None = None
    topic: Topic | None = None
    key: Name | None = None
    text: Text | None = None
    error: Text | None = None
    fingerprint: Annotated[str, Meta(max_length=200, pattern=NO_NUL)] | None = None
    """The cause of death; ``-`` for those that were buried before causes were told apart."""
    since: Aware | None = None
    until: Aware | None = None
    worker: Name | None = None


class MessageQuery(Search, frozen=True, forbid_unknown_fields=True):
    """One page of deliveries: ``before`` is where the page before ended."""

    before: Before | None = None
    limit: Limit = 50


class CountQuery(Search, frozen=True, forbid_unknown_fields=True):
    """Which deliveries to count."""


class MessageCount(Struct, frozen=True):
    """How many deliveries match, as far as they were counted."""

    count: int
    more: bool
    """Whether not all was looked at, so that there may be more."""


class MessagePage(Struct, frozen=True):
    """Deliveries, newest first. A page may be short, or even empty, and yet not the last one."""

    rows: list[Delivery]
    before: int | None
    """Where the next page begins; null: all was looked at."""
    scanned: int


class MessageKey(Struct, frozen=True, forbid_unknown_fields=True):
    """One message."""

    id: UUID


class Link(Struct, frozen=True):
    """A message in a chain of causes."""

    id: UUID
    topic: str
    key: str | None
    causation_id: UUID | None
    published_at: datetime
    state: State | None


class Chain(Struct, frozen=True):
    """What caused a message, oldest first, and what it caused."""

    causes: list[Link]
    caused: list[Link]
    more: bool


class Message(Struct, frozen=True):
    """A message, its deliveries that are not yet done, and the runs that were kept, oldest first."""

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
    """One page of deliveries."""
    check_search(visit, asked)
    found = await _found(visit, asked, asked.before, asked.limit)
    return MessagePage([delivery(each, visit.redaction) for each in found.rows], found.before, found.scanned)


async def count(visit: Visit, asked: CountQuery) -> MessageCount:
    """How many match, counted while that takes no longer than somebody waits for it."""
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
    """One message with all that is known of it."""
    view = await visit.app.messages.show(asked.id)
    if view is None:
        raise Problem(404, "not_found", "there is no such message: it never was, or is over and gone")
    chain = await visit.app.messages.chain(asked.id)
    told = (view.payload, view.content_type, visit.redaction)
    # Others are answered meanwhile.
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
    """A fingerprint as the app knows it: that of no cause is empty, which a query cannot say."""
    return "" if fingerprint == NO_CAUSE else fingerprint


def check_search(visit: Visit, asked: Search) -> None:
    """Raise Problem for a search that would tell more than the answer shows."""
    if (asked.text or asked.error) is not None and not visit.may_search:
        raise Problem(
            403,
            "not_allowed",
            "searching in payloads and errors needs the role 'operator': what it finds would tell what is masked",
        )


ROUTES = (
    viewing("/api/messages", messages, "Deliveries, newest first", MessagePage, MessageQuery),
    viewing("/api/messages/count", count, "How many deliveries match", MessageCount, CountQuery),
    viewing("/api/messages/{id}", message, "One message with all that is known of it", Message, MessageKey),
)
