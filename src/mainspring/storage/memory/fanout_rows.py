"""The rows of fan-out in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from mainspring.model.fanout import CursorKey, FanoutPolicyView


@dataclass(frozen=True, slots=True)
class CursorRow:
    """How far a shard has come."""

    seen_at: datetime
    """When its shard was last known to be there."""
    completed: datetime | None = None
    completed_at: datetime | None = None
    planned: datetime | None = None
    planned_at: datetime | None = None
    slice_id: UUID | None = None


@dataclass(slots=True)
class FanoutTable:
    """Every cursor and every policy, by topic, work and shard."""

    cursors: dict[CursorKey, CursorRow] = field(default_factory=dict)
    policies: dict[CursorKey, FanoutPolicyView] = field(default_factory=dict)
