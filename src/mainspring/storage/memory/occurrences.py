"""What a schedule has published, as its next occurrence finds it: unfinished, waiting, or not begun."""

from __future__ import annotations

from datetime import datetime

from mainspring.model.schedule import DELETED, NEVER, UNSERVED_AFTER
from mainspring.storage.memory.publishing import withdraw
from mainspring.storage.memory.rows import DeliveryRow
from mainspring.storage.memory.state import State


def rows_of(state: State, schedule: str) -> list[DeliveryRow]:
    """Its deliveries, oldest first: a revived one has its old seq."""
    rows = state.scheduled.get(schedule, {})
    return [rows[seq] for seq in sorted(rows)]


def waits(row: DeliveryRow) -> bool:
    """Whether it waits for an earlier run to end."""
    return row.due_at == NEVER


def is_unfinished(state: State, row: DeliveryRow, now: datetime) -> bool:
    """Whether it keeps later ones from starting.

    A group that nobody serves holds nobody up: once another group has begun the occurrence, its copy does not count.
    """
    if waits(row):
        return False
    group = state.groups.get(row.group)
    is_served = group is not None and (group.served_at or group.declared_at) > now - UNSERVED_AFTER
    if row.epoch or is_served:
        return True
    untouched = sum(not copy.epoch for copy in state.live[row.message_id].values())
    return untouched == row.message.copies


def cancel_pending(state: State, schedule: str, reason: str, now: datetime) -> None:
    """Cancel what nobody has taken yet. Where it is only paused, what somebody asked for by hand is left."""
    spares = reason != DELETED
    copies = [row for row in rows_of(state, schedule) if not row.epoch and not (spares and row.message.draft.manual)]
    of_it = [row for row in state.parked.values() if row.message.draft.schedule == schedule]
    parked = [row for row in of_it if not (spares and row.message.draft.manual)]
    withdraw(state, copies, parked, reason, now)
