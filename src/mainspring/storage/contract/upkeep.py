"""What workers do for the whole, on every storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from mainspring.model.views import (
    Beat,
    Declaration,
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

    async def beat(self, beat: Beat) -> None:
        """Report a worker as alive and add up what it has done."""
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

    async def prune(self, retention: Retention, limit: int, topic: str | None = None) -> Pruned:
        """Remove up to ``limit`` of each kind of what is over. A message goes when nothing refers to it.

        With a ``topic`` only its runs, dead letters and parked messages.
        """
        ...
