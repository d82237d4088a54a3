"""What operators do to deliveries that they have picked one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from mainspring.app import bulk
from mainspring.app.envelope import read_identity
from mainspring.app.names import Namespace
from mainspring.model.browsing import Picked
from mainspring.model.message import Cancelled
from mainspring.storage.contract import Storage

Picks = Iterable[tuple[UUID | str, str]]
"""Deliveries, each by its message's id and its group; of what is parked the group is empty."""


async def withdraw(
    storage: Storage, names: Namespace, picks: Picks, by: str, reason: str, rouse: Callable[[], object]
) -> Cancelled:
    """See ``Messages.withdraw``."""
    owned = tuple([each for each in _stored(names, picks) if await _is_ours(storage, names, *each)])
    return await bulk.withdraw(storage, owned, by, reason, rouse)


async def hasten(storage: Storage, names: Namespace, picks: Picks, by: str, rouse: Callable[[], object]) -> int:
    """See ``Messages.hasten``."""
    hastened = await storage.controls.hasten(_stored(names, picks), by)
    if hastened:
        rouse()
    return hastened


async def _is_ours(storage: Storage, names: Namespace, id: UUID, group: str) -> bool:
    """What is parked has no group whose name would say so."""
    if group:
        return True
    found = await storage.ledger.find(id)
    return found is not None and names.owns(found.topic)


def _stored(names: Namespace, picks: Picks) -> Picked:
    return tuple((read_identity(id), names.stored(group) if group else group) for id, group in picks)
