"""What an operator may do, on every storage."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from mainspring.model.browsing import By, DeadSelection, Picked
from mainspring.model.message import Cancelled, Draft


class Controls(Protocol):
    """What an operator may do. Every call is audited with ``by``, in the same transaction.

    Where ``by`` is a ``Line`` that was ``noted``, the call is a batch of many, and that line is brought up to date.
    """

    async def pause(self, group: str, by: str, reason: str) -> bool:
        """Stop handing out this group's deliveries. False: there is no such group."""
        ...

    async def resume(self, group: str, by: str) -> bool:
        """Hand them out again. False: there is no such group."""
        ...

    async def revive(self, which: DeadSelection, by: By, limit: int) -> int:
        """Give up to ``limit`` dead letters a fresh life: due now, attempt and deaths 0, epoch grown."""
        ...

    async def replace(self, message_id: UUID, group: str, by: str, draft: Draft) -> bool:
        """Revive one dead letter with another payload: ``draft`` is stored for its group, the dead letter ends.

        Messages are immutable, and other groups may still need the old payload. False: no such dead letter.
        """
        ...

    async def discard(self, which: DeadSelection, by: By, limit: int) -> int:
        """Remove up to ``limit`` dead letters for good."""
        ...

    async def hasten(self, picked: Picked, by: By) -> int:
        """Let those of these deliveries that are scheduled be due now. Returns how many.

        What waits for the end of an earlier run of its schedule goes on waiting.
        """
        ...

    async def withdraw(self, picked: Picked, by: By, reason: str) -> Cancelled:
        """Cancel these deliveries: those that nobody holds go, the holders of the others are asked to stop."""
        ...

    async def retire(self, group: str, by: str, limit: int) -> int | None:
        """Remove a group: first its subscriptions, then up to ``limit`` of its deliveries per call.

        Returns how many deliveries were dropped, zero when the last has gone and the group with it; None: there is
        no such group.
        """
        ...

    async def drain(self, worker: str, by: str, reason: str) -> bool:
        """Have a worker finish what it has and claim no more, until somebody says otherwise. False: no such worker.

        It obeys with its next beat, says so with the one after it, and stays, until it is started anew.
        """
        ...

    async def undrain(self, worker: str, by: str) -> bool:
        """Let a worker claim again. False: there is no such worker."""
        ...

    async def noted(self, action: str, subject: str, by: str, detail: str) -> int:
        """Note what somebody does or has done in any number of batches: one line, of this id."""
        ...

    async def amend(self, line: int, standing: str) -> None:
        """Let a line of the audit say what has become of what went on. How many are done it knows better than we."""
        ...
