"""Keeps the house: reports the worker alive, routes what was parked, prunes what is over, recounts joins."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from uuid import UUID

from mainspring.model.views import Beat, Retention
from mainspring.runtime.complaints import Complaints
from mainspring.runtime.service import Service
from mainspring.storage.contract import Upkeep
from mainspring.timing.clock import Clock

_logger = logging.getLogger("mainspring.worker")
_ROUND = 5.0
_PRUNE_EVERY = 30.0
_PRUNE_BATCH = 2_000
_ROUTE_BATCH = 1_000
_RECOUNT_BATCH = 500
_AGAIN = 0.05


class Janitor(Service):
    """Every worker has one and all do the same work; each batch is bounded and skips what another has in hand."""

    def __init__(
        self,
        upkeep: Upkeep,
        beat: Callable[[], Beat],
        retention: Retention,
        complaints: Complaints,
        clock: Clock,
    ) -> None:
        super().__init__("janitor", complaints, clock)
        self._upkeep = upkeep
        self._beat = beat
        self._retention = retention
        self._beat_at = 0.0
        self._unsent: Beat | None = None
        self._recounted: UUID | None = None
        # Workers started together must not prune together.
        self._prune_at = clock.monotonic() + _PRUNE_EVERY * random.uniform(0.2, 1.0)

    async def turn(self) -> float:
        """One round of each."""
        now = self._clock.monotonic()
        if now >= self._beat_at:
            await self._report()
            self._beat_at = now + _ROUND
        if await self._upkeep.reroute(_ROUTE_BATCH) >= _ROUTE_BATCH:
            return _AGAIN
        if now >= self._prune_at:
            pruned = await self._upkeep.prune(self._retention, _PRUNE_BATCH)
            if pruned.total >= _PRUNE_BATCH:
                return _AGAIN
            await self._recount()
            self._prune_at = now + _PRUNE_EVERY
        return _ROUND * random.uniform(0.8, 1.0)

    async def _recount(self) -> None:
        recount = await self._upkeep.recount(self._recounted, _RECOUNT_BATCH)
        self._recounted = recount.last
        if recount.unnoted:
            _logger.warning(
                "%d members of joins had ended without a note and are counted now: some worker of their groups is of a "
                "release that knows no joins",
                recount.unnoted,
            )

    async def farewell(self) -> None:
        """Report the last runs and leave the roster."""
        await self._report()
        await self._upkeep.farewell(self._beat().worker)

    async def _report(self) -> None:
        # The counts are taken out of the settler by making the beat: one that fails is sent again as it was.
        if self._unsent is None:
            self._unsent = self._beat()
        await self._upkeep.beat(self._unsent)
        self._unsent = None
