"""What workers do for the whole, on every storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from mainspring.model.join import Recount
from mainspring.model.message import Progress
from mainspring.model.retention import Chore, Pruned, Rerouted, Retention
from mainspring.model.standing import Declarer, Standing
from mainspring.model.views import Beat, Declaration, Orders, RunView


class Upkeep(Protocol):
    """What workers do for the whole, in bounded batches."""

    async def declare(self, declarations: Sequence[Declaration], declarer: Declarer | None = None) -> Standing:
        """Make the groups and their subscriptions known. The same declaration again changes nothing.

        A subscription that is not declared here any more is removed when no other process that counts has declared it,
        and no newer version has declared the group (invariant 26). All count that have said no farewell, but for
        those that have been silent for ``SILENT_AFTER`` while ``declarer`` was not. What is declared without a
        ``declarer`` counts until the app declares something else in that way, or for as long as a silent worker is
        kept. Handler and options are those of the newest version, among equal ones of the latest start.

        Raises Conflict when a group belongs to another app. A pause is left as it is.
        """
        ...

    async def beat(self, beat: Beat) -> Orders:
        """Report a worker as alive and add up what it has done. Answers what operators want of it.

        One that is sent again, known by its start and its number, is counted once. The first of another start takes
        the order to drain back, whoever gave it; one that was only silent for a while does not.
        """
        ...

    async def farewell(self, worker: str, start_id: str = "") -> None:
        """Take a worker that ends in good order off the roster. What this start of it has declared counts no more."""
        ...

    async def record(self, runs: Sequence[RunView]) -> None:
        """Add runs that were made while the storage was away; their ids are given here."""
        ...

    async def reroute(self, limit: int, after: str | None = None) -> Rerouted:
        """Route up to ``limit`` parked messages whose topic has subscribers now.

        Those of topics that are subscribed to by name are found at once, however many are parked. Those of patterns
        by a walk over the topics, a stretch at a time: go on after the ``last`` of it.
        """
        ...

    async def recount(self, after: UUID | None, limit: int) -> Recount:
        """Hold up to ``limit`` open joins, by id from ``after`` on, against their members.

        Who has gone without a note, settled by a release that knew no joins, is counted now: failed where the kept runs
        say so, otherwise done. However many recount at once, each end is counted once.
        """
        ...

    async def report(self, progress: Sequence[Progress], owner: str) -> None:
        """Let it be seen what handlers say of their runs; of each the latest counts. One trip, which locks no delivery.

        It is shown while the owner holds the claim under the same epoch: who has lost it can say nothing (invariant 2).
        """
        ...

    async def prune(
        self,
        retention: Retention,
        limit: int,
        topic: str | None = None,
        chore: Chore | None = None,
        after: str | None = None,
    ) -> Pruned:
        """Remove up to ``limit`` of each kind of what is over. A message goes when nothing refers to it.

        With a ``topic``, or a pattern of topics, only their runs, dead letters and parked messages. With a ``chore``
        only that one; where its topics are kept for different times, of a stretch of topics: go on after the ``last``.
        Messages are looked at in the batches in which they ended, whole ones: ``last`` is empty while some are left.
        """
        ...
