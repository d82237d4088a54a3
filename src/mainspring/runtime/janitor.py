"""Keeps the house: every duty is a loop in its own right, so that one that fails or takes long stops no other."""

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
    """Every worker has one and all do the same work; each batch is bounded and skips what another has in hand."""

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
        """Begin turning, on the running loop."""
        for each in self._loops:
            each.start()

    def call(self) -> None:
        """Operators may want something else than before, which the answer to a report would tell."""
        self._reporting.call()

    async def stop(self) -> None:
        """End. Only what would bring the worker back after its farewell is waited for. Idempotent."""
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
        """How every duty is getting on."""
        return {each.name: each.report() for each in self._loops}
