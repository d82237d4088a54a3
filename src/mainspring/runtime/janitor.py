"""Housekeeping: every duty is a loop of its own, so that one that fails or takes long stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mainspring.model.retention import Retention
from mainspring.model.views import Beat, Orders
from mainspring.runtime.duties import Pruning, Recounting, Rerouting
from mainspring.runtime.rate_limited_log import RateLimitedLog
from mainspring.runtime.roster_reports import Reporting
from mainspring.runtime.service import LoopReport, Service
from mainspring.runtime.subscriptions import Subscribing
from mainspring.storage.contract import Upkeep
from mainspring.telemetry.measures import Meter
from mainspring.timing.clock import Clock


class Janitor:
    """The duties of one worker. All workers do the same; each batch is bounded and skips what another has locked."""

    def __init__(
        self,
        upkeep: Upkeep,
        beat: Callable[[], Beat],
        retention: Retention,
        subscribing: Subscribing,
        log: RateLimitedLog,
        clock: Clock,
        meter: Meter,
        obey: Callable[[Orders], bool],
    ) -> None:
        self._reporting = Reporting(upkeep, beat, log, clock, meter, obey)
        self._subscribing = subscribing
        self._loops: tuple[Service, ...] = (
            self._reporting,
            subscribing,
            Rerouting(upkeep, log, clock),
            Pruning(upkeep, retention, log, clock),
            Recounting(upkeep, log, clock),
        )

    def start(self) -> None:
        """Start the loops, on the running loop."""
        for each in self._loops:
            each.start()

    def call(self) -> None:
        """Report soon: the reply may contain new orders from operators."""
        self._reporting.call()

    async def stop(self) -> None:
        """End. Waits only for the loops that would re-register the worker after its farewell. Idempotent."""
        for each in self._loops:
            each.end_soon()
        await asyncio.gather(self._reporting.stop(), self._subscribing.stop())

    async def farewell(self) -> None:
        """Report the last runs and leave the roster."""
        await self._reporting.farewell()

    def abandon(self) -> None:
        """End at once."""
        for each in self._loops:
            each.abandon()

    def reports(self) -> dict[str, LoopReport]:
        """Return a report per duty."""
        return {each.name: each.report() for each in self._loops}
