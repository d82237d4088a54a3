"""Periodic work that every worker does for all: reroute parked messages, prune records, recount joins."""

from __future__ import annotations

import logging
import random
from uuid import UUID

from mainspring.model.retention import CHORES, Chore, Retention
from mainspring.runtime.rate_limited_log import RateLimitedLog
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
_WALK = 0.25
"""Seconds between two steps of a scan over topics: 300,000 topics take a little more than a minute."""


class Rerouting(Service):
    """Routes parked messages whose topic has subscribers now, some topics at a time."""

    def __init__(self, upkeep: Upkeep, log: RateLimitedLog, clock: Clock) -> None:
        super().__init__("rerouting", log, clock)
        self._upkeep = upkeep
        self._after: str | None = None

    async def turn(self) -> float:
        """Reroute one step."""
        rerouted = await self._upkeep.reroute(_ROUTE_BATCH, self._after)
        self._after = rerouted.last
        if rerouted.routed >= _ROUTE_BATCH:
            return _AGAIN
        return _ROUND * random.uniform(0.8, 1.0) if rerouted.last is None else _WALK


class Pruning(Service):
    """Prunes expired records, chore by chore: one that fails is retried later, and stops no other."""

    longest_pause = _PRUNE_EVERY

    def __init__(self, upkeep: Upkeep, retention: Retention, log: RateLimitedLog, clock: Clock) -> None:
        super().__init__("pruning", log, clock)
        self._upkeep = upkeep
        self._retention = retention
        self._after: dict[Chore, str | None] = {}
        # Spread out workers that were started together.
        self._prune_at = clock.monotonic() + _PRUNE_EVERY * random.uniform(0.2, 1.0)

    async def turn(self) -> float:
        """Prune a batch of each chore. Raises the first error, after all chores have run."""
        now = self._clock.monotonic()
        if now < self._prune_at:
            return self._prune_at - now
        pause = _PRUNE_EVERY
        failure: Exception | None = None
        for chore in CHORES:
            if self._stopping:
                break
            try:
                pause = min(pause, await self._prune(chore))
            except Exception as error:  # noqa: BLE001 - it does not concern the other chores
                failure = failure or error
        if failure is not None:
            raise failure
        if pause == _PRUNE_EVERY:
            self._prune_at = now + pause
        return pause

    async def _prune(self, chore: Chore) -> float:
        pruned = await self._upkeep.prune(self._retention, _PRUNE_BATCH, chore=chore, after=self._after.get(chore))
        self._after[chore] = pruned.last
        if pruned.total >= _PRUNE_BATCH or pruned.last == "":
            return _AGAIN
        return _PRUNE_EVERY if pruned.last is None else _WALK


class Recounting(Service):
    """Compares open joins with their members."""

    def __init__(self, upkeep: Upkeep, log: RateLimitedLog, clock: Clock) -> None:
        super().__init__("recounting", log, clock)
        self._upkeep = upkeep
        self._after: UUID | None = None
        self._recount_at = clock.monotonic() + _PRUNE_EVERY * random.uniform(0.2, 1.0)

    async def turn(self) -> float:
        """Recount one batch."""
        now = self._clock.monotonic()
        if now < self._recount_at:
            return self._recount_at - now
        recount = await self._upkeep.recount(self._after, _RECOUNT_BATCH)
        self._after = recount.last
        self._recount_at = now + _PRUNE_EVERY
        if recount.unnoted:
            _logger.warning(
                "%d members of joins had ended uncounted and are counted now: some worker of their groups runs a "
                "release without joins; upgrade it",
                recount.unnoted,
            )
        return _PRUNE_EVERY
