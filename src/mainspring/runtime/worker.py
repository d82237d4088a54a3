"""A worker: the loops of one process, started and stopped together."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from mainspring.model.errors import (
    DatabaseMoved,
    MainspringError,
    Misuse,
    NotGranted,
    SchemaMissing,
    StorageUnavailable,
)
from mainspring.model.message import Claim
from mainspring.model.text import described
from mainspring.model.views import BrokerLink, Declaration
from mainspring.model.worker import TOKEN_BYTES, holder
from mainspring.runtime import child
from mainspring.runtime.batch import executor_of
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.executor import STOP_CANCELLED, STOP_LOST, ExecutorContext
from mainspring.runtime.fetcher import FetcherContext
from mainspring.runtime.fetchers import Fetchers
from mainspring.runtime.handler import Handler
from mainspring.runtime.janitor import Heartbeat, Janitor, Namesakes, Retiring, Subscribing
from mainspring.runtime.keeper import Keeper
from mainspring.runtime.offline import Offline
from mainspring.runtime.offload import Threads
from mainspring.runtime.overruns import Overrun
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.scheduler import Scheduler
from mainspring.runtime.schedules.declarations import Scheduling
from mainspring.runtime.service import LoopReport, backoff
from mainspring.runtime.settings import WorkerSettings
from mainspring.runtime.settler import Settler
from mainspring.runtime.shutdown import Shutdown
from mainspring.runtime.slots import SharedSlots
from mainspring.storage.contract import Storage
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.measures import Meter
from mainspring.timing.clock import Clock, SystemClock

if TYPE_CHECKING:
    from mainspring.brokers.link import Link
    from mainspring.runtime.intake import Feed, Intake

_logger = logging.getLogger("mainspring.worker")
_BEGINS_WITHIN = 5.0
"""Seconds for which a start waits for the database."""


class Worker:
    """Fetcher, executors, settler, keeper and janitor over one storage.

    ``start`` does not fail if the database is unreachable or has no schema yet: the worker then waits, not ready,
    and logs which command is missing. ``stop`` always returns.
    """

    def __init__(
        self,
        storage: Storage,
        handlers: Sequence[Handler],
        declarations: Sequence[Declaration],
        settings: WorkerSettings,
        clock: Clock | None = None,
        bus: Bus | None = None,
        scheduling: Scheduling | None = None,
        meter: Meter | None = None,
        feeds: Sequence[Feed] = (),
    ) -> None:
        self._bus = bus = Bus() if bus is None else bus  # one without subscribers is false
        clock = clock or SystemClock()
        self._storage = storage
        self._settings = settings
        self._log = log = RateLimitedLog(clock)
        self._in_hand = in_hand = ClaimsInHand()
        self._meter = meter = meter or Meter()
        start_id = secrets.token_hex(TOKEN_BYTES)
        # A new one for every start: epochs alone do not distinguish holders after a failover (invariant 2).
        self.owner: str = holder(settings.name, start_id)
        """The holder of its claims."""
        self._settler = Settler(storage.mailbox, self.owner, in_hand, self._due_again, log, clock, bus, meter)
        self._threads = Threads(sum(handler.concurrency for handler in handlers if handler.threaded))
        failures = RateLimitedLog(clock, "mainspring.handlers", separate_warnings=True)
        shared = ExecutorContext(self._settler, in_hand, self._threads, self._freed, settings.deaths, failures, bus)
        self._executors = [executor_of(handler, shared) for handler in handlers]
        self._by_group = {executor.handler.group: executor for executor in self._executors}
        most = settings.concurrency
        slots = None if most is None else SharedSlots(most, self._executors, clock)
        self._fetchers = Fetchers(
            self._executors,
            FetcherContext(storage, in_hand, self.owner, settings.claim_time, settings.idle_poll, log, clock, slots),
        )
        self._keeper = Keeper(
            storage,
            in_hand,
            self.owner,
            settings.claim_time,
            on_lost=self._lost,
            on_cancel=self._cancel,
            log=log,
            clock=clock,
        )
        self._scheduling = scheduling = scheduling or Scheduling(settings.app)
        self._offline = Offline(scheduling, handlers, self._threads, settings.name, failures, bus, clock)
        self._scheduler = Scheduler(
            storage, scheduling, self._fetchers.nudge, settings.idle_poll, log, clock, self._offline
        )
        self._settler.on_occurrence = self._scheduler.freed
        self._settler.on_member = self._scheduler.wake  # it may complete its join
        self._heartbeat = Heartbeat(
            settings, start_id, self._by_group, in_hand, storage.doorbell, meter, self.pauses, self._fetchers
        )
        self._heartbeat.links = self._link_views
        declarer = self._heartbeat.declarer
        on_return = self._scheduler.reconcile_soon
        retiring = Retiring(storage.timetable, scheduling, declarer, on_return, log, clock)
        namesakes = Namesakes(storage.ledger, self._heartbeat, scheduling.version, log, clock)
        self._janitor = Janitor(
            storage.upkeep, self._heartbeat, declarations, settings.retention, meter, log, clock, retiring, namesakes
        )
        meter.serves(self._by_group)
        self._intakes = self._made_intakes(feeds, clock) if feeds else []
        self._shutdown = Shutdown(
            self._intakes,
            self._fetchers,
            self._executors,
            self._settler,
            self._keeper,
            self._janitor,
            self._scheduler,
            self._offline,
            self._threads,
            bus,
            settings.grace.total_seconds(),
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._started = False
        self._hurry = asyncio.Event()
        self._finished = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether the schema exists, the groups are declared and deliveries are being claimed."""
        return self._started and self._stopping is None and not any(each.ended for each in self.progress().values())

    async def start(self) -> None:
        """Declare the groups and schedules, and start. Raises what is a mistake.

        What may pass, as an outage, is waited for in the background.
        """
        if child.serving():
            raise Misuse(
                "a worker was started while a process of a cpu=True consumer imported its module: put app.run(), or "
                'the code that starts it, under `if __name__ == "__main__":`'
            )
        self._loop = asyncio.get_running_loop()
        if await self._is_prepared(_BEGINS_WITHIN):
            return
        again = self._keep_preparing()
        self._preparing = asyncio.create_task(
            self._offline.during(again) if self._offline else again, name="mainspring-prepare"
        )

    def wake(self) -> None:
        """Claim soon, after a publish in this process. Safe from any thread."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        try:
            here = asyncio.get_running_loop() is loop
        except RuntimeError:
            here = False
        if here:
            self._fetchers.nudge()
        else:
            loop.call_soon_threadsafe(self._fetchers.nudge)

    def serves(self, group: str) -> bool:
        """Return whether it runs, claims, and has this group's consumer."""
        return self.ready and not self._heartbeat.draining and group in self._by_group

    async def take(self, message_id: UUID, group: str) -> bool:
        """Run a delivery here, now. Returns False if it is held already. From any loop."""
        loop = self._loop
        if loop is None or loop is asyncio.get_running_loop():
            return await self._fetchers.take(message_id, group)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._fetchers.take(message_id, group), loop))

    def reschedule(self) -> None:
        """Tick soon, after a change of a schedule in this process. Safe from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._scheduler.wake)

    def drain(self) -> None:
        """Stop claiming for good. What is in hand is finished, however long it takes; then ``stop`` it."""
        self._fetchers.drain(drains=True)

    async def stop(self) -> None:
        """Stop in order: stop claiming, release what has not started, let the rest finish within the grace."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._end(), name="mainspring-stop")
        await asyncio.shield(self._stopping)

    async def stop_now(self) -> None:
        """Stop without waiting for handlers: they are cancelled and their deliveries released."""
        self._hurry.set()
        await self.stop()

    async def finished(self) -> None:
        """Wait until the worker has ended."""
        await self._finished.wait()

    def progress(self) -> Mapping[str, LoopReport]:
        """Return the state of every loop."""
        loops = (self._settler, self._keeper, self._scheduler, *self._intakes)
        reports = {loop.name: loop.report() for loop in loops}
        return {**self._fetchers.reports(), **reports, **self._janitor.reports()}

    def pauses(self) -> Mapping[str, timedelta]:
        """Return the groups whose breakers are open here, and for how long still."""
        guards = {executor.group: executor.guard for executor in self._executors if executor.guard is not None}
        return {group: left for group, guard in guards.items() if (left := guard.paused_for) is not None}

    def _made_intakes(self, feeds: Sequence[Feed], clock: Clock) -> list[Intake]:
        from mainspring.runtime.intake import Intake  # most workers have none

        shared = (self._storage, self._fetchers.nudge, lambda: self._heartbeat.draining, self._log, clock)
        return [Intake(feed, *shared) for feed in feeds]

    def links(self) -> Sequence[tuple[str, Link]]:
        """Return its connections to brokers, and their names: groups of routes, then sources of intakes."""
        return [*self._routes(), *((each.feed.name, each.feed.link) for each in self._intakes)]

    def _routes(self) -> Sequence[tuple[str, Link]]:
        return [(each.group, each.handler.link) for each in self._executors if each.handler.link is not None]

    def _link_views(self) -> tuple[BrokerLink, ...]:
        routes = (link.view(group, "out") for group, link in self._routes())
        return (*routes, *(each.feed.link.view(each.feed.name, "in") for each in self._intakes))

    def awaiting_newer(self) -> Mapping[str, Sequence[str]]:
        """Return the groups whose messages lately waited for newer code, and for which versions."""
        return {each.group: versions for each in self._executors if (versions := each.awaiting_newer())}

    def overrunning(self) -> Sequence[Overrun]:
        """Return the runs that were asked to stop and continue, longest first."""
        every = [*self._executors, *self._offline.executors]
        return sorted((each for one in every for each in one.overrunning()), key=lambda each: each.since, reverse=True)

    @property
    def subscribing(self) -> Subscribing:
        """The service that declares its groups."""
        return self._janitor.subscribing

    @property
    def in_hand(self) -> int:
        """How many deliveries are claimed and not yet settled."""
        return len(self._in_hand)

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing in hand, and knows of nothing that is due."""
        has_ticked = self._scheduler.report().turns > 0
        return not self._in_hand and has_ticked and self._fetchers.are_resting

    async def _prepare(self) -> None:
        tended = self._settings.tended
        if not tended:
            await self._storage.schema.check()
            await self._janitor.subscribing.declare()
            await self._declare_schedules()
        self._storage.doorbell.listen(self._rung)
        self._settler.start()
        self._keeper.start()
        self._janitor.start(tended=tended)
        self._fetchers.start()
        self._scheduler.start()
        for intake in self._intakes:
            intake.start()
        self._started = True

    async def _declare_schedules(self) -> None:
        if not self._scheduling.declared:
            return  # nothing to wait for: the loops look after the schedules of other code
        try:
            # Declared before they are reconciled: no other worker retires them in between.
            await self._janitor.retiring.declare()
            await self._scheduler.reconcile()
        except Exception as error:  # noqa: BLE001 - the loops of both try again, and the groups need not wait for that
            self._log.log(logging.WARNING, "the schedules are not declared yet: %s", described(error))

    async def _is_prepared(self, within: float | None = None) -> bool:
        """Prepare. Returns False without a database, its tables or the rights to use them. Raises what is a mistake."""
        try:
            async with asyncio.timeout(within):
                await self._prepare()
        except TimeoutError:
            waited = "in time" if within is None else f"for {within:g} s"
            self._must_wait(StorageUnavailable(f"the database has not responded {waited}, and is waited for"))
        except (StorageUnavailable, SchemaMissing, NotGranted) as error:
            self._must_wait(error)
        else:
            return True
        return False

    def _must_wait(self, error: MainspringError) -> None:
        self._log.failure("worker", error, expected=True)
        if isinstance(error, StorageUnavailable) and not isinstance(error, DatabaseMoved):
            self._offline.lost()
        else:
            self._offline.back()

    async def _keep_preparing(self) -> None:
        failures = 0
        try:
            while self._stopping is None:
                failures += 1
                await asyncio.sleep(backoff(failures))
                if await self._is_prepared():
                    self._log.recovered("worker")
                    return
        except MainspringError:
            _logger.exception("the worker cannot start and ends")
            self._stopping = asyncio.create_task(self._end(), name="mainspring-stop")

    async def _end(self) -> None:
        try:
            if self._preparing is not None:
                self._preparing.cancel()
                await asyncio.wait([self._preparing])
            if self._started or self._offline:
                await self._shutdown.close(self._hurry)
        finally:
            self._meter.end()
            self._finished.set()

    def _rung(self, group: str) -> None:
        self._fetchers.rung(group)
        if not group:
            self._scheduler.wake()
            self._janitor.reporting.report_soon()
            if len(self._in_hand):
                self._keeper.check_soon()

    def _freed(self, group: str) -> None:
        self._fetchers.freed(group)

    def _due_again(self, group: str, delay: timedelta) -> None:
        self._fetchers.due_again(group, delay)

    def _lost(self, claim: Claim) -> None:
        run = self._in_hand.get(claim)
        # The verdict of a judged run is being written, or was by its handler's own transaction: the reply shows
        # whether the claim was lost.
        if run is not None and run.settled is None and not run.judged:
            self._by_group[run.delivery.group].interrupt(run, STOP_LOST)
            if run.stop_reason is not None:
                # It may clean up for as long as it likes: its claim is not extended, and does not stop reaping.
                self._in_hand.let_go(run)

    def _cancel(self, claim: Claim) -> None:
        run = self._in_hand.get(claim)
        if run is not None:
            self._by_group[run.delivery.group].interrupt(run, STOP_CANCELLED)
