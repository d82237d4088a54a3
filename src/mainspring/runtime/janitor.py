"""Keeps the house: reports the worker alive, routes what was parked, prunes what is over, recounts joins."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from uuid import UUID

from mainspring.model.views import Beat, Orders, Retention
from mainspring.runtime.complaints import Complaints
from mainspring.runtime.service import Service
from mainspring.storage.contract import Upkeep
from mainspring.telemetry.measures import Meter
from mainspring.timing.clock import Clock

_logger = logging.getLogger("mainspring.worker")
_ROUND = 5.0
_NEWS = 1.0
"""Seconds after which something new is reported."""
_PRUNE_EVERY = 30.0
_PRUNE_BATCH = 2_000
_ROUTE_BATCH = 1_000
_RECOUNT_BATCH = 500
_AGAIN = 0.05


class Janitor(Service):
    """Every worker has one and all do the same work; each batch is bounded and skips what another has in hand.

    It reports every few seconds that its worker is alive, within a second what ``meter`` has counted, which wakes
    it, and at once that it has heard what operators want. A report whose reply was lost is sent again as it was, with
    its number: the storage counts it once.
    """

    def __init__(
        self,
        upkeep: Upkeep,
        beat: Callable[[], Beat],
        retention: Retention,
        complaints: Complaints,
        clock: Clock,
        meter: Meter | None = None,
        obey: Callable[[Orders], bool] | None = None,
    ) -> None:
        super().__init__("janitor", complaints, clock)
        self._obey = obey
        self._meter = meter or Meter()
        self._meter.stirred = self.wake
        self._upkeep = upkeep
        self._beat = beat
        self._retention = retention
        self._beat_at = 0.0
        self._told_at = 0.0
        self._round_at = 0.0
        self._unsent: Beat | None = None
        self._owes_answer = self._is_called = False
        self._worker = ""
        self._recounted: UUID | None = None
        # Workers started together must not prune together.
        self._prune_at = clock.monotonic() + _PRUNE_EVERY * random.uniform(0.2, 1.0)

    def call(self) -> None:
        """Operators may want something else than before, which the answer to a report would tell."""
        self._is_called = True
        self.wake()

    async def turn(self) -> float:
        """One round of each, or a report of what is new."""
        now = self._clock.monotonic()
        goes_round = now >= self._round_at
        if (goes_round and now >= self._beat_at) or (self._has_reason and now >= self._told_at + _NEWS):
            await self._report(now)
        if self._owes_answer:
            await self._report(now)
        if goes_round:
            pause = await self._go_round(now)
            if pause == _AGAIN:
                return pause
            self._round_at = now + pause
        until = min(self._round_at, self._told_at + _NEWS) if self._has_reason else self._round_at
        return max(until - now, 0.0)

    @property
    def _has_reason(self) -> bool:
        return self._meter.has_news or self._is_called

    async def _go_round(self, now: float) -> float:
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
        now = self._clock.monotonic()
        if self._unsent is not None:
            await self._report(now)
        await self._report(now)
        await self._upkeep.farewell(self._worker)

    async def _report(self, now: float) -> None:
        # The counts are taken out of the settler by making the beat: one that fails is sent again as it was.
        if self._unsent is None:
            self._unsent = self._beat()
        self._is_called = False  # before it is sent: who calls meanwhile may be too late for this one
        self._worker = self._unsent.worker
        orders = await self._upkeep.beat(self._unsent)
        self._unsent = None
        # A round may come a little early: who then waited for the next one would be heard of every ten seconds.
        self._told_at, self._beat_at = now, now + 0.7 * _ROUND
        self._owes_answer = self._obey is not None and self._obey(orders)
