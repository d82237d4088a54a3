"""Fan-out: what every storage must do with cursors and policies."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from mainspring.model.fanout import Batch, Choose, CursorKey, CursorTally, CursorView, FanoutPolicy, FanoutPolicyView
from mainspring.model.message import Published
from mainspring.model.schedule import Note


class Fanouts(Protocol):
    """Cursors: how far each shard has come; and policies: how shards are planned.

    A cursor never goes back, neither the window that is planned nor the one that is completed.
    """

    async def plan(self, batch: Batch, choose: Choose) -> Published | None:
        """Publish the slices that ``choose`` makes of these shards, and note them as planned, as one.

        It is done under the coordinator's lease, which no other acquires until it ends. None: that hold is over, and
        nothing was done.
        """
        ...

    async def advance(self, key: CursorKey, window: datetime) -> bool:
        """Note the window as completed. False: the cursor is there or beyond, or it was never planned."""
        ...

    async def edit(self, topic: str, work: str, shard: str, policy: FanoutPolicy, note: Note) -> FanoutPolicy:
        """Set what the policy says, for one shard or for EVERYTHING, leave the rest; answer with what is set now."""
        ...

    async def reset(self, topic: str, work: str, shard: str, note: Note) -> bool:
        """Remove the policy that was set for it. False: there was none."""
        ...

    async def policies(self, topic: str, work: str, after: str | None, limit: int) -> Sequence[FanoutPolicyView]:
        """List the policies of a work by shard, its own first; ``after`` is the shard of the last one before."""
        ...

    async def cursors(
        self, topic: str, work: str, after: str | None, limit: int, *, behind: bool = False
    ) -> Sequence[CursorView]:
        """List the cursors of a work by shard, all or those that are behind."""
        ...

    async def tally(self, topic: str | None = None, work: str | None = None) -> Sequence[CursorTally]:
        """Count the cursors of every topic and work, or of some."""
        ...
