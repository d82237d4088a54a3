"""How what follows a join is written into its row, and read back; and how open joins are read, page by page."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import msgspec

from mainspring.model.join import Follower, Join, JoinView
from mainspring.model.message import Draft
from mainspring.model.views import DeliveryView
from mainspring.storage.script import Row

LAST = UUID(int=2**128 - 1)
"""No id is greater."""

_decode = msgspec.json.Decoder(Draft).decode


def written(draft: Draft | None) -> str | None:
    """A draft as JSON. Fields that a later release adds are left out by this one, and have their defaults there."""
    return None if draft is None else msgspec.json.encode(draft).decode()


def read(id: UUID, then: str | None, failed: str | None) -> Join:
    """A stored join."""
    return Join(id, None if then is None else _decode(then), None if failed is None else _decode(failed))


def beyond(after: UUID | None) -> UUID:
    """The first id that may come after this one; None: the first there may be."""
    return UUID(int=0 if after is None else min(after.int + 1, LAST.int))


def view(id: UUID, opened_at: datetime, columns: Row, oldest: DeliveryView | None) -> JoinView:
    """An open join; ``columns`` are its counts and names, as the ``joint_read`` of a dialect selects them."""
    members, ended, failed, then_topic, then_group, failed_topic, failed_group, key, correlation_id = columns
    then, otherwise = _follower(then_topic, then_group), _follower(failed_topic, failed_group)
    return JoinView(id, opened_at, members, ended, failed, then, otherwise, key, correlation_id, oldest)


def _follower(topic: str | None, group: str | None) -> Follower | None:
    return None if topic is None else Follower(topic, group or "")
