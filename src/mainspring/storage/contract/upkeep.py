"""What workers do for the whole, on every storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from mainspring.model.join import Recount
from mainspring.model.message import Progress
from mainspring.model.views import (
    Beat,
    Declaration,
    Orders,
    Pruned,
    Retention,
    RunView,
)


class Upkeep(Protocol):
    """What workers do for the whole, in bounded batches."""

    async def declare(self, declarations: Sequence[Declaration]) -> None:
        """Make the groups and exactly their subscriptions known. The same declaration again writes nothing.

        Raises Conflict when a group belongs to another app. A pause is left as it is.
        """
        ...

    async def beat(self, beat: Beat) -> Orders:
        """Report a worker as alive and add up what it has done. Answers what operators want of it.

        One that is sent again, known by its start and its number, is counted once. The first of another start takes
        the order to drain back, whoever gave it; one that was only silent for a while does not.
        """
        ...

    async def farewell(self, worker: str) -> None:
        """Take a worker that ends in good order off the roster."""
        ...

    async def record(self, runs: Sequence[RunView]) -> None:
        """Add runs that were made while the storage was away; their ids are given here."""
        ...

    async def reroute(self, limit: int) -> int:
        """Route up to ``limit`` parked messages whose topic has subscribers now. Returns how many."""
        ...

    async def recount(self, after: UUID | None, limit: int) -> Recount:
        """Hold up to ``limit`` open joins, by id from ``after`` on, against their members.

        Who has gone without a note, settled by a release that knew no joins, is counted now: failed where the kept runs
        say so, otherwise done. However many recount at once, each end is counted once.
        """
        ...

    async def report(self, progress: Sequence[Progress]) -> None:
        """Let it be seen what handlers say of their runs; of each the latest counts. One trip, which locks no delivery.

        It is shown while the claim is held under the same epoch: who has lost it can say nothing (invariant 2).
        """
        ...

    async def prune(self, retention: Retention, limit: int, topic: str | None = None) -> Pruned:
        """Remove up to ``limit`` of each kind of what is over. A message goes when nothing refers to it.

        With a ``topic``, or a pattern of topics, only their runs, dead letters and parked messages.
        """
        ...
