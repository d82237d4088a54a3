"""Housekeeping: every duty is a loop of its own, so that one that fails or takes long stops no other."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from mainspring.model.retention import CHORES, Chore, Retention
from mainspring.model.views import Beat, BrokerLink, Declaration, Orders, WorkerView
from mainspring.model.worker import SILENT_AFTER, Declarer, DeclareResult, own_name, roster_name
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.fetchers import Fetchers
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.schedules.declarations import Scheduling
from mainspring.runtime.service import FOREVER, LoopReport, Service
from mainspring.runtime.settings import WorkerSettings
from mainspring.storage.contract import Doorbell, Ledger, Timetable, Upkeep
from mainspring.telemetry.measures import Meter
from mainspring.timing.clock import Clock

_logger = logging.getLogger("mainspring.worker")
_scheduler_logger = logging.getLogger("mainspring.scheduler")
_ROUND = 5.0
_PRUNE_EVERY = 30.0
_PRUNE_BATCH = 2_000
_ROUTE_BATCH = 1_000
_RECOUNT_BATCH = 500
_AGAIN = 0.05
_COMPARE_EVERY = 60.0
_NEWS = 1.0
"""Seconds after which new counts are reported."""
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
        apply_orders: Callable[[Orders], bool] | None = None,
    ) -> None:
        super().__init__("reporting", log, clock)
        self._apply_orders = apply_orders
        self._meter = meter or Meter()
        self._meter.on_news = self.wake
        self._upkeep = upkeep
        self._beat = beat
        self._reported_at = 0.0
        self._round_at = 0.0
        self._unsent: Beat | None = None
        self._must_confirm = self._is_requested = False
        self._by = ("", "")

    def report_soon(self) -> None:
        """Report soon: the reply may contain new orders from operators."""
        self._is_requested = True
        self.wake()

    async def turn(self) -> float:
        """Report, if it is time or there is news."""
        now = self._clock.monotonic()
        if now >= self._round_at or (self._has_reason and now >= self._reported_at + _NEWS):
            await self._report(now)
        if self._must_confirm:
            await self._report(now)
        until = min(self._round_at, self._reported_at + _NEWS) if self._has_reason else self._round_at
        return max(until - now, 0.0)

    @property
    def _has_reason(self) -> bool:
        return self._meter.has_news or self._is_requested

    async def deregister(self) -> None:
        """Report the last runs and leave the roster."""
        now = self._clock.monotonic()
        if self._unsent is not None:
            await self._report(now)
        await self._report(now)
        await self._upkeep.deregister(*self._by)

    async def _report(self, now: float) -> None:
        # Making the beat takes the counts out of the meter: one that fails is sent again unchanged.
        if self._unsent is None:
            self._unsent = self._beat()
        self._is_requested = False  # before it is sent: a request that comes now may be too late for this one
        self._by = self._unsent.worker, self._unsent.start_id
        orders = await self._upkeep.beat(self._unsent)
        self._unsent = None
        self._reported_at, self._round_at = now, now + _ROUND * random.uniform(0.8, 1.0)
        self._must_confirm = self._apply_orders is not None and self._apply_orders(orders)


@dataclass(slots=True)
class Heartbeat:
    """Creates the numbered beats of one start of a worker, and stores whether it drains.

    Another start under the same name begins undrained; a worker that only missed beats stays drained.
    """

    settings: WorkerSettings
    start_id: str
    groups: Iterable[str]
    in_hand: ClaimsInHand
    doorbell: Doorbell
    meter: Meter
    pauses: Callable[[], Iterable[str]]
    fetchers: Fetchers
    draining: bool = False
    """Whether an operator has asked this worker to stop claiming."""
    number: int = 0
    """The number of the last beat."""
    links: Callable[[], tuple[BrokerLink, ...]] = tuple

    @property
    def declarer(self) -> Declarer:
        """The identity under which this start of the worker declares."""
        return Declarer(roster_name(self.settings.app, self.settings.name), self.start_id)

    def beat(self) -> Beat:
        """Create a beat with the current state and the new counts of the meter."""
        self.number += 1
        runs, measures = self.meter.take()
        return Beat(
            roster_name(self.settings.app, self.settings.name),
            self.settings.app,
            socket.gethostname(),
            os.getpid(),
            tuple(self.groups),
            len(self.in_hand),
            self.doorbell.mode,
            runs,
            tuple(self.pauses()),
            measures,
            self.start_id,
            self.number,
            self.draining,
            self.links(),
        )

    def apply_orders(self, orders: Orders) -> bool:
        """Carry out the operators' orders. Returns True if something changed, which the next beat has to report."""
        if orders.drain == self.draining:
            return False
        self.draining = orders.drain
        self.fetchers.drain(drains=orders.drain)
        if orders.drain:
            _logger.warning(
                "draining: an operator asked this worker to stop claiming; it finishes %d in hand", len(self.in_hand)
            )
        else:
            _logger.info("resumed: an operator asked this worker to claim again")
        return True


class Subscribing(Service):
    """Declares the groups of a worker when it starts, and every few seconds after (invariant 26).

    That keeps other workers from removing its subscriptions. Missing ones are restored and logged, and those that no
    worker declares any more are removed. A group that an operator has retired stays retired.
    """

    def __init__(
        self, upkeep: Upkeep, declarations: Sequence[Declaration], by: Declarer, log: RateLimitedLog, clock: Clock
    ) -> None:
        super().__init__("subscribing", log, clock)
        self.retired: tuple[str, ...] = ()
        """The groups that were retired although this worker has a consumer for them."""
        self._upkeep = upkeep
        self._declarations = declarations
        self._by = by
        self._missed: dict[str, tuple[tuple[str, ...], float]] = {}

    async def declare(self) -> None:
        """Declare the groups. Raises Conflict if one belongs to another app."""
        _log_removed(await self._upkeep.declare(self._declarations, self._by))

    async def turn(self) -> float:
        """Declare them again."""
        by = Declarer(self._by.worker, self._by.start_id, again=True)
        standing = await self._upkeep.declare(self._declarations, by)
        missing: dict[str, tuple[str, ...]] = {}
        for group, pattern in standing.added:
            missing[group] = (*missing.get(group, ()), pattern)
        for group, patterns in missing.items():
            self._missed[group] = patterns, self._clock.monotonic()
            _logger.warning(
                "%s: its subscription to %s was missing and is restored; messages published in between did not reach "
                "the group: make sure that every worker of the app runs this release of Mainspring",
                group,
                ", ".join(patterns),
            )
        _log_removed(standing)
        for group in sorted(set(standing.retired) - set(self.retired)):
            _logger.warning(
                "%s was retired although this worker has a consumer for it, and receives no more messages: remove "
                "the consumer, or restart the worker to declare the group",
                group,
            )
        self.retired = standing.retired
        return _ROUND * random.uniform(0.8, 1.0)

    def missed(self) -> dict[str, tuple[tuple[str, ...], timedelta]]:
        """Return the subscriptions that were missing recently, by group, and how long ago they were restored."""
        now = self._clock.monotonic()
        ages = {group: (patterns, timedelta(seconds=now - at)) for group, (patterns, at) in self._missed.items()}
        return {group: each for group, each in ages.items() if each[1] < SILENT_AFTER}


class Retiring(Service):
    """Declares the schedules of a worker when it starts, and every few seconds after (invariant 13).

    That keeps other workers from retiring them. Those that no live worker has are retired when two rounds in a row have
    found them so: the worker that has them may only restart. Schedules of this worker that were retired, while it was
    away or by a newer version that is gone, return.
    """

    def __init__(
        self,
        timetable: Timetable,
        scheduling: Scheduling,
        by: Declarer,
        on_return: Callable[[Collection[str]], None],
        log: RateLimitedLog,
        clock: Clock,
    ) -> None:
        super().__init__("retiring", log, clock)
        self._timetable = timetable
        self._scheduling = scheduling
        self._by = by
        self._on_return = on_return
        self._unclaimed: tuple[str, ...] = ()
        self._round_at = -FOREVER

    async def declare(self) -> None:
        """Declare the schedules, and retire those that the last round and this one find unclaimed."""
        app, version, declared = self._scheduling.app, self._scheduling.version, self._scheduling.declared
        found = await self._timetable.declare(app, version, declared, self._by, self._unclaimed)
        self._unclaimed = found.unclaimed
        self._round_at = self._clock.monotonic() + _ROUND * random.uniform(0.8, 1.0)
        for name in found.retired:
            _scheduler_logger.warning(
                "%s: retired, since no worker of %s has it in its code any more; "
                "its occurrences that had not begun are cancelled",
                name,
                app,
            )
        if found.returned:
            self._on_return(found.returned)

    async def turn(self) -> float:
        """Declare them again, a round after the last time: the start of the worker has declared them already."""
        if self._clock.monotonic() >= self._round_at:
            await self.declare()
        return self._round_at - self._clock.monotonic()


class Namesakes(Service):
    """Logs once which other workers have the name of this app and seem to be of another application.

    Where versions are in use, workers of one version are of one release, and it is logged at once. Otherwise workers of
    two releases look the same while one replaces the other: it is logged once both have been there for a while.
    """

    def __init__(self, ledger: Ledger, heartbeat: Heartbeat, version: int, log: RateLimitedLog, clock: Clock) -> None:
        super().__init__("namesakes", log, clock)
        self._ledger = ledger
        self._heartbeat = heartbeat
        self._version = version
        self._known: set[tuple[str, ...]] = set()
        """The sets of groups that were logged."""

    async def turn(self) -> float:
        """Read the roster."""
        heartbeat, roster = self._heartbeat, await self._ledger.roster()
        app, own = heartbeat.settings.app, heartbeat.declarer.worker
        began = next((each.started_at for each in roster.workers if each.name == own), roster.now)
        others = [
            each
            for each in roster.namesakes(app, self._version, heartbeat.settings.code or set(heartbeat.groups))
            if self._version or roster.now - max(began, each.started_at) >= SILENT_AFTER
        ]
        if news := [each for each in others if each.groups not in self._known]:
            self._known.update(each.groups for each in news)
            _logger.warning("%s: %s", *described_namesakes(app, news))
        return _COMPARE_EVERY * random.uniform(0.8, 1.0)


def described_namesakes(app: str, others: Sequence[WorkerView]) -> tuple[str, str]:
    """Return what is wrong with workers that share the name of an app, and what to do."""
    shown = "; ".join(f"{own_name(each.app, each.name)} with {', '.join(each.groups)}" for each in others[:3])
    return (
        f"live workers of {app!r} have none of the groups of this code: {shown}",
        "if that is another application, give one of the two another name",
    )


def _log_removed(standing: DeclareResult) -> None:
    for group, pattern in standing.removed:
        _logger.info("%s: no worker declares its subscription to %s any more, so it is removed", group, pattern)


class Janitor:
    """The duties of one worker. All workers do the same; each batch is bounded and skips what another has locked."""

    def __init__(
        self,
        upkeep: Upkeep,
        heartbeat: Heartbeat,
        declarations: Sequence[Declaration],
        retention: Retention,
        meter: Meter,
        log: RateLimitedLog,
        clock: Clock,
        retiring: Retiring,
        namesakes: Namesakes,
    ) -> None:
        self.retiring: Retiring = retiring
        self.reporting: Reporting = Reporting(upkeep, heartbeat.beat, log, clock, meter, heartbeat.apply_orders)
        self.subscribing: Subscribing = Subscribing(upkeep, declarations, heartbeat.declarer, log, clock)
        self._loops: tuple[Service, ...] = (
            self.reporting,
            self.subscribing,
            self.retiring,
            Rerouting(upkeep, log, clock),
            Pruning(upkeep, retention, log, clock),
            Recounting(upkeep, log, clock),
            namesakes,
        )

    def start(self, *, tended: bool) -> None:
        """Start the loops, on the running loop; if the database is ``tended``, all but the report a round later."""
        for each in self._loops:
            each.first_after = _ROUND if tended and each is not self.reporting else 0.0
            each.start()

    async def stop(self) -> None:
        """End. Waits only for the loops that would re-register the worker after it has deregistered. Idempotent."""
        for each in self._loops:
            each.end_soon()
        await asyncio.gather(self.reporting.stop(), self.subscribing.stop(), self.retiring.stop())

    def abandon(self) -> None:
        """End at once."""
        for each in self._loops:
            each.abandon()

    def reports(self) -> dict[str, LoopReport]:
        """Return a report per duty."""
        return {each.name: each.report() for each in self._loops}
