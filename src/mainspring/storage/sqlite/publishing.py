"""Storing messages and routing them to their groups."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from mainspring.model.message import Draft, Published
from mainspring.storage.routing import matches
from mainspring.storage.script import Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.values import after, mapping, micros, names

Routes = dict[str, list[str]]
"""The groups of each topic, sorted."""


def publish(sql: Dialect, drafts: Sequence[Draft], now: datetime | None) -> Script[Published]:
    """Store what is new of the drafts, and a delivery for each of their groups."""
    if not drafts:
        return Published(frozenset())
    at = yield from sql.turn_clock(now)
    fresh: dict[bytes, Draft] = {}
    for draft in drafts:
        fresh.setdefault(draft.id.bytes, draft)
    # The clock has taken the write lock: no subscription can come or go from here on.
    routes = yield from routed(sql, {draft.topic for draft in fresh.values() if draft.group is None})
    # All of it is reckoned before anything is written: in a caller's transaction nobody would roll it back.
    messages: list[tuple[Any, ...]] = []
    copies: dict[bytes, list[tuple[Any, ...]]] = {}
    parked: dict[bytes, tuple[Any, ...]] = {}
    for raw, draft in fresh.items():
        groups = routes[draft.topic] if draft.group is None else (draft.group,)
        messages.append(_message(raw, draft, len(groups), at))
        asked = micros(draft.at) if draft.at is not None else after(at, draft.delay) if draft.delay else at
        due, priority, key = max(asked, at), int(draft.priority), draft.key
        if groups:
            copies[raw] = [(raw, group, priority, due, asked, at, key) for group in groups]
        else:
            parked[raw] = (raw, draft.topic, key, priority, due, asked, at, at)
    returned = yield from sql.many("publish_message", messages)
    stored = {row[0] for row in returned}
    yield from sql.many("publish_delivery", [row for raw, rows in copies.items() if raw in stored for row in rows])
    yield from sql.many("publish_parked", [row for raw, row in parked.items() if raw in stored])
    return Published(frozenset(fresh[raw].id for raw in stored))


def routed(sql: Dialect, topics: Collection[str]) -> Script[Routes]:
    """Find the groups of each topic: one delivery per group, however many of its patterns match."""
    if not topics:
        return {}
    subscriptions = yield sql("publish_routes", names(topics))
    return {topic: sorted({group for pattern, group in subscriptions if matches(pattern, topic)}) for topic in topics}


def _message(raw: bytes, draft: Draft, copies: int, at: int) -> tuple[Any, ...]:
    if draft.expires_at is not None:
        expires: int | None = micros(draft.expires_at)
    else:
        expires = None if draft.expires_in is None else after(at, draft.expires_in)
    return (
        raw,
        draft.topic,
        draft.key,
        draft.payload,
        draft.content_type,
        None if draft.headers is None else mapping(draft.headers),
        draft.correlation_id,
        None if draft.causation_id is None else draft.causation_id.bytes,
        at,
        expires,
        copies,
    )
