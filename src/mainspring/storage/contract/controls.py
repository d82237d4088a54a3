"""What an operator may do, on every storage."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from mainspring.model.message import Draft
from mainspring.model.views import (
    DeadSelection,
)


class Controls(Protocol):
    """What an operator may do. Every call is audited with ``by``, in the same transaction."""

    async def pause(self, group: str, by: str, reason: str) -> bool:
        """Stop handing out this group's deliveries. False: there is no such group."""
        ...

    async def resume(self, group: str, by: str) -> bool:
        """Hand them out again. False: there is no such group."""
        ...

    async def revive(self, which: DeadSelection, by: str, limit: int) -> int:
        """Give up to ``limit`` dead letters a fresh life: due now, attempt and deaths 0, epoch grown."""
        ...

    async def replace(self, message_id: UUID, group: str, by: str, draft: Draft) -> bool:
        """Revive one dead letter with another payload: ``draft`` is stored for its group, the dead letter ends.

        Messages are immutable, and other groups may still need the old payload. False: no such dead letter.
        """
        ...

    async def discard(self, which: DeadSelection, by: str, limit: int) -> int:
        """Remove up to ``limit`` dead letters for good."""
        ...

    async def retire(self, group: str, by: str, limit: int) -> int | None:
        """Remove a group: first its subscriptions, then up to ``limit`` of its deliveries per call.

        Returns how many deliveries were dropped, zero when the last has gone and the group with it; None: there is
        no such group.
        """
        ...

    async def purged(self, subject: str, by: str, detail: str) -> None:
        """Note what somebody has pruned by hand: one line, since it went in any number of batches."""
        ...
