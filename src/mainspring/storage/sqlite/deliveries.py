"""From rows of SQLite to deliveries as people see them."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from mainspring.model.browsing import stands
from mainspring.model.holder import shown_or_none
from mainspring.model.message import Priority
from mainspring.model.views import DeliveryView
from mainspring.storage.script import Row
from mainspring.storage.sqlite.values import instant, instant_or_none


def live(row: Row, at: int) -> DeliveryView:
    """What is scheduled, ready, running or lapsed at this time."""
    (seq, raw, group, topic, key, priority, attempt, deaths, due, asked, published, *held) = row
    held_by, cancel_asked, said, said_at = held
    state = stands(is_held=held_by is not None, is_due=due <= at)
    return DeliveryView(
        seq=seq,
        message_id=UUID(bytes=raw),
        group=group,
        topic=topic,
        key=key,
        state=state,
        priority=priority,
        attempt=attempt,
        deaths=deaths,
        due_at=instant(due),
        scheduled_for=instant(asked),
        published_at=instant(published),
        held_by=shown_or_none(held_by),
        cancel_asked=bool(cancel_asked),
        progress=said,
        progress_at=instant_or_none(said_at),
    )


def dead(row: Row) -> DeliveryView:
    """A dead letter."""
    (seq, raw, group, topic, key, priority, attempt, deaths, asked, published, buried, error) = row
    return DeliveryView(
        seq=seq,
        message_id=UUID(bytes=raw),
        group=group,
        topic=topic,
        key=key,
        state="dead",
        priority=priority,
        attempt=attempt,
        deaths=deaths,
        due_at=instant(asked),
        scheduled_for=instant(asked),
        published_at=instant(published),
        buried_at=instant(buried),
        error=error,
    )


def parked(row: Row) -> DeliveryView:
    """What no group has subscribed to yet."""
    (seq, raw, topic, key, priority, due, asked, published) = row
    return DeliveryView(
        seq=seq,
        message_id=UUID(bytes=raw),
        group="",
        topic=topic,
        key=key,
        state="parked",
        priority=priority,
        attempt=0,
        deaths=0,
        due_at=instant(due),
        scheduled_for=instant(asked),
        published_at=instant(published),
    )


def ended(row: Row, status: Literal["done", "cancelled"]) -> DeliveryView:
    """What is over, as a kept run tells of it."""
    (id, raw, group, topic, key, attempt, published, error) = row
    published_at = instant(published)
    return DeliveryView(
        seq=id,
        message_id=UUID(bytes=raw),
        group=group,
        topic=topic,
        key=key,
        state=status,
        priority=Priority.NORMAL,  # a run does not remember its delivery's
        attempt=attempt,
        deaths=0,
        due_at=published_at,
        scheduled_for=published_at,
        published_at=published_at,
        error=error,
    )
