"""What operators do to deliveries that they have picked one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from mainspring.app import bulk
from mainspring.app.envelope import read_identity
from mainspring.model.browsing import Picked
from mainspring.model.message import Cancelled
from mainspring.storage.contract import Storage

Picks = Iterable[tuple[UUID | str, str]]
"""Deliveries, each by its message's id and its group; of what is parked the group is empty."""


async def withdraw(storage: Storage, picks: Picks, by: str, reason: str, rouse: Callable[[], object]) -> Cancelled:
    """See ``Messages.withdraw``."""
    return await bulk.withdraw(storage, _read(picks), by, reason, rouse)


async def hasten(storage: Storage, picks: Picks, by: str, rouse: Callable[[], object]) -> int:
    """See ``Messages.hasten``."""
    hastened = await storage.controls.hasten(_read(picks), by)
    if hastened:
        rouse()
    return hastened


def _read(picks: Picks) -> Picked:
    return tuple((read_identity(id), group) for id, group in picks)
