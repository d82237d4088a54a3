"""Reports to the roster that the worker is alive, and what it has counted."""

from __future__ import annotations

import random
from collections.abc import Callable

from mainspring.model.views import Beat, Orders
from mainspring.runtime.rate_limited_log import RateLimitedLog
from mainspring.runtime.service import Service
from mainspring.storage.contract import Upkeep
from mainspring.telemetry.measures import Meter
from mainspring.timing.clock import Clock

_ROUND = 5.0
_NEWS = 1.0
"""Seconds after which new counts are reported."""


class Reporting(Service):
    """Reports every few seconds that its worker is alive, and within a second what ``meter`` has counted.

    New counts wake it. It acknowledges orders of operators at once. A report whose reply was lost is sent again
    unchanged, with its number: the storage counts it once.
    """

    def __init__(
        self,
        upkeep: Upkeep,
        beat: Callable[[], Beat],
        log: RateLimitedLog,
        clock: Clock,
        meter: Meter | None = None,
        obey: Callable[[Orders], bool] | None = None,
    ) -> None:
        super().__init__("reporting", log, clock)
        self._obey = obey
        self._meter = meter or Meter()
        self._meter.stirred = self.wake
        self._upkeep = upkeep
        self._beat = beat
        self._told_at = 0.0
        self._round_at = 0.0
        self._unsent: Beat | None = None
        self._owes_answer = self._is_called = False
        self._by = ("", "")

    def call(self) -> None:
        """Report soon: the reply may contain new orders from operators."""
        self._is_called = True
        self.wake()

    async def turn(self) -> float:
        """Report, if it is time or there is news."""
        now = self._clock.monotonic()
        if now >= self._round_at or (self._has_reason and now >= self._told_at + _NEWS):
            await self._report(now)
        if self._owes_answer:
            await self._report(now)
        until = min(self._round_at, self._told_at + _NEWS) if self._has_reason else self._round_at
        return max(until - now, 0.0)

    @property
    def _has_reason(self) -> bool:
        return self._meter.has_news or self._is_called

    async def farewell(self) -> None:
        """Report the last runs and leave the roster."""
        now = self._clock.monotonic()
        if self._unsent is not None:
            await self._report(now)
        await self._report(now)
        await self._upkeep.farewell(*self._by)

    async def _report(self, now: float) -> None:
        # Making the beat takes the counts out of the meter: one that fails is sent again unchanged.
        if self._unsent is None:
            self._unsent = self._beat()
        self._is_called = False  # before it is sent: a call that comes now may be too late for this one
        self._by = self._unsent.worker, self._unsent.start_id
        orders = await self._upkeep.beat(self._unsent)
        self._unsent = None
        self._told_at, self._round_at = now, now + _ROUND * random.uniform(0.8, 1.0)
        self._owes_answer = self._obey is not None and self._obey(orders)
