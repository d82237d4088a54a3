"""From rows of SQLite to deliveries as those who take them see them."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from mainspring.model.message import Delivery
from mainspring.storage.script import Row
from mainspring.storage.sqlite.values import instant, read_mapping, uuid_or_none


def taken(row: Row, at: int, claimed_at: datetime) -> Delivery:
    """A row of ``claim_scan`` as its new holder sees it: in a new epoch, at its next attempt."""
    (
        seq,
        epoch,
        raw,
        group,
        topic,
        payload,
        content_type,
        headers,
        key,
        correlation_id,
        causation_id,
        priority,
        attempt,
        deaths,
        due,
        asked,
        published,
        expires,
        cancel_asked,
        schedule,
    ) = row
    due_at = instant(due)
    # Nearly always one instant is all three.
    scheduled_for = due_at if asked == due else instant(asked)
    return Delivery(
        seq,
        epoch + 1,
        UUID(bytes=raw),
        group,
        topic,
        payload,
        content_type,
        None if headers is None else read_mapping(headers),
        key,
        correlation_id,
        uuid_or_none(causation_id),
        priority,
        attempt + 1,
        deaths,
        due_at,
        scheduled_for,
        due_at if published == due else instant(published),
        expires is not None and expires <= at,
        bool(cancel_asked),
        suspect=False,
        claimed_at=claimed_at,
        schedule=schedule,
    )
