"""The shutdown of a worker: stop claiming, release, wait, write the last verdicts, leave the roster. It always ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mainspring.model.errors import MainspringError
from mainspring.runtime.executor import STOP_SHUTDOWN, Executor
from mainspring.runtime.fetchers import Fetchers
from mainspring.runtime.janitor import Janitor
from mainspring.runtime.keeper import Keeper
from mainspring.runtime.offline import Offline
from mainspring.runtime.offload import Threads
from mainspring.runtime.scheduler import Scheduler
from mainspring.runtime.settler import Settler
from mainspring.telemetry.bus import Bus

if TYPE_CHECKING:
    from mainspring.runtime.intake import Intake


async def until(seconds: float, wait: Coroutine[Any, Any, None]) -> bool:
    """Wait at most this long. Returns False if it was not done, and was cancelled. Raises what it raises."""
    task = asyncio.create_task(wait)
    done, _ = await asyncio.wait([task], timeout=seconds)
    if done:
        task.result()
        return True
    task.cancel()
    await asyncio.wait([task])
    return False


async def within(seconds: float, wait: Coroutine[Any, Any, None], hurry: asyncio.Event) -> None:
    """Wait at most this long, or until ``hurry`` is set."""
    waiting = asyncio.create_task(wait)
    hurried = asyncio.create_task(hurry.wait())
    await asyncio.wait([waiting, hurried], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for each in (waiting, hurried):
        each.cancel()
    await asyncio.wait([waiting, hurried])


_logger = logging.getLogger("mainspring.worker")
_LAST_VERDICTS = 2.5
"""Seconds after the grace in which cancelled handlers end and the last verdicts are written."""
_DEREGISTER = 1.0
"""Seconds after that to leave the roster; with as many to close connections, a silent database costs five in all."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Stops everything that a worker has started, once."""

    intakes: Sequence[Intake]
    fetchers: Fetchers
    executors: Sequence[Executor]
    settler: Settler
    keeper: Keeper
    janitor: Janitor
    scheduler: Scheduler
    offline: Offline
    threads: Threads
    bus: Bus
    grace: float
    """Seconds."""

    @property
    def _executors(self) -> Sequence[Executor]:
        # Offline runs have the same grace as claimed deliveries.
        return [*self.executors, *self.offline.executors]

    async def close(self, hurry: asyncio.Event) -> None:
        """Let handlers finish within the grace, or until ``hurry`` is set."""
        try:
            self.offline.end()
            for intake in self.intakes:
                intake.end_soon()
            self.fetchers.claim_no_more()
            # A claim on its way is awaited, not cancelled: its rows would be held, but unknown, until they lapse.
            intakes = (each.stop() for each in self.intakes)
            claiming = asyncio.gather(self.fetchers.stop(), self.scheduler.stop(), *intakes)
            for executor in self._executors:
                executor.release_waiting()
            await within(self.grace, self._quiet(), hurry)
            for executor in self._executors:
                for run in executor.running():
                    executor.interrupt(run, STOP_SHUTDOWN)
            await self._write_last_verdicts(claiming)
        finally:
            # Even after an error or a cancellation: a coroutine left behind would keep the loop from ending.
            await self._end_all()

    async def _write_last_verdicts(self, claiming: Awaitable[object]) -> None:
        async def orderly() -> None:
            await self._executors_quiet()
            await claiming
            for executor in self._executors:
                executor.release_waiting()
            await self.settler.drained()
            await self.fetchers.notify_others()
            await self.scheduler.report_offline()
            await self.bus.settled()
            await self.settler.all_written()

        if not await until(_LAST_VERDICTS, orderly()):
            self._log_unfinished()

    async def _end_all(self) -> None:
        for intake in self.intakes:
            intake.abandon()
        for loop in (self.fetchers, self.settler, self.scheduler):
            loop.abandon()
        self.offline.close()
        keeping = asyncio.create_task(self.keeper.stop())
        ending = [asyncio.create_task(executor.ended()) for executor in self._executors]
        await until(_DEREGISTER, self._deregister())
        self.janitor.abandon()
        await keeping
        for executor in self._executors:
            executor.close()
        await asyncio.gather(*ending)
        self.threads.close()

    async def _deregister(self) -> None:
        try:
            await self.janitor.stop()  # it must not report any more: that would register it again
            await self.janitor.reporting.deregister()
        except MainspringError:
            pass  # the database is unreachable: the roster drops silent workers
        except Exception:
            _logger.exception("failed to deregister the worker")

    async def _quiet(self) -> None:
        await asyncio.sleep(0)
        await self._executors_quiet()

    async def _executors_quiet(self) -> None:
        for executor in self._executors:
            await executor.quiet()

    def _log_unfinished(self) -> None:
        if busy := self.settler.busy:
            _logger.warning(
                "%d verdicts were not written, since another session's open transaction has locked their rows; their "
                "claims will lapse and they run again",
                busy,
            )
        offline = self.offline.executors
        for executor in self._executors:
            after = "its result is lost" if executor in offline else "its claim will lapse and it runs again elsewhere"
            for run in executor.running():
                _logger.warning(
                    "%s: message %s did not stop in time; %s", executor.handler.group, run.delivery.message_id, after
                )
