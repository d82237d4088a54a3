"""The services of a worker in a test: stepped one after another, from one due instant to the next."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from mainspring.app.config import Options
from mainspring.app.connection import Connection
from mainspring.app.consume.consumer import Registration
from mainspring.app.consume.consumers import Consumers
from mainspring.app.message.catalogue import Catalogue
from mainspring.app.publisher import Publisher
from mainspring.app.storages import lent_in_place
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import EndlessWork, Misuse
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Scan
from mainspring.model.search import Filter
from mainspring.model.verdict import Release, Settlement
from mainspring.model.views import Beat, DeliveryView, GroupRuns
from mainspring.model.worker import TOKEN_BYTES, holder
from mainspring.runtime.batch import executor_of
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.executor import Executor, ExecutorContext
from mainspring.runtime.fetcher import Fetcher, FetcherContext
from mainspring.runtime.fetchers import LimitedFetcher
from mainspring.runtime.handler import Run
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.scheduler import Scheduler
from mainspring.runtime.schedules.declarations import Scheduling
from mainspring.runtime.service import FOREVER
from mainspring.runtime.settings import WorkerSettings
from mainspring.runtime.settler import Origin, Settler
from mainspring.storage.contract import Storage
from mainspring.telemetry.bus import Bus
from mainspring.testing.calls import Calls, Lending
from mainspring.testing.records import ALL, Ran, Records, in_order
from mainspring.testing.relays import rehearsed
from mainspring.testing.transaction import Own
from mainspring.timing.clock import HandClock, ReplaceableClock

if TYPE_CHECKING:
    from mainspring.app.schedule.recurring import Recurrences, Recurring

Enough = Callable[[], Awaitable[bool]]
"""Whether to stop here; evaluated once before anything runs, and after every run."""
Died = Callable[[Ran], None]
"""Called with every dead letter; may raise to end the test."""

NAME = "testing"
"""The worker that the services of a test report themselves as."""
_HOLD = timedelta(days=36_500)
"""So long that no claim lapses and no service polls, however far the clock is advanced."""
_INSTANT = timedelta(microseconds=1)
_SUCCESSES = ("done",)
_FAILURES = ("failed", "dead")
_MOST_SHOWN = 5
_PRUNED_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class AppParts:
    """The parts of an app that a test replaces, or runs."""

    connections: tuple[Connection, Connection]
    clock: ReplaceableClock
    transactions: Transactions
    consumers: Consumers
    catalogue: Catalogue
    publisher: Publisher
    bus: Bus
    options: Options
    recurrences: Callable[[], Recurrences | None]
    """Returns the schedules of its code; None until the first is requested."""


@dataclass(frozen=True, slots=True)
class Group:
    """A consumer with its own services."""

    consumer: Registration
    executor: Executor
    fetcher: Fetcher

    @property
    def size(self) -> int:
        """How many deliveries one call of its handler takes."""
        batching = self.executor.handler.batching
        return 1 if batching is None else batching.size


class Services:
    """Runs what is due up to an instant, and advances the clock to it.

    The fetchers, executors, settler and scheduler are those of a worker. Instead of their loops, this steps them: one
    delivery or batch is claimed, served and settled before the next, so that a test is deterministic and its order is
    that of due times.
    """

    def __init__(
        self,
        app: AppParts,
        storage: Storage,
        records: Records,
        clock: HandClock,
        calls: Calls,
        limit: int,
        tx: object = None,
        own: Own | None = None,
    ) -> None:
        self._app = app
        self._storage = storage
        self._records = records
        self._clock = clock
        self._calls = calls
        self._limit = limit
        self._tx = tx
        self._own = own
        self._owner = holder(NAME, secrets.token_hex(TOKEN_BYTES))
        self._log = RateLimitedLog(clock)
        self._in_hand = ClaimsInHand()
        self._settler = Settler(storage.mailbox, self._owner, self._in_hand, _ignore, self._log, clock, app.bus)
        self._verdicts = _Verdicts(self._settler, self._in_hand)
        failures = RateLimitedLog(clock, "mainspring.handlers", separate_warnings=True)
        self._shared = ExecutorContext(
            self._verdicts,
            self._in_hand,
            calls.threads,
            _ignore,
            WorkerSettings().deaths,
            failures,
            app.bus,
            timers=clock,
            stepped=True,
        )
        self._fetching = FetcherContext(storage, self._in_hand, self._owner, _HOLD, _HOLD, self._log, clock)
        self._groups: dict[str, Group] = {}
        self._scheduler: Scheduler | None = None
        self._recurrences: Recurrences | None = None
        self._scheduled: tuple[Recurring, ...] = ()
        self._tick_in: timedelta | None = None
        self._settle_in: timedelta | None = None
        """How long until verdicts on rows that another session has locked are written again."""
        self._running = False

    @property
    def running(self) -> bool:
        """Whether it is under way."""
        return self._running

    @property
    def consumers(self) -> Mapping[str, Registration]:
        """The consumers declared so far, by group."""
        return {group: each.consumer for group, each in self._groups.items()}

    async def prepare(self) -> None:
        """Declare new consumers and schedules, and route what was published before them."""
        await self._declare()
        await self._reconcile()

    async def run(self, until: datetime, died: Died, enough: Enough | None = None) -> list[Ran]:
        """Run everything due up to ``until``, and advance the clock to it; stops early when ``enough`` is true."""
        __tracebackhide__ = True
        if self._running:
            raise Misuse("the kit is running already: call drain, advance and wait_until one after another, not within")
        self._running = True
        first = len(self._records.runs)
        try:
            if not await self._through(until, died, enough):
                self._clock.advance(max(until - self._clock.now(), timedelta()))
                await self._records.keep(self._storage)
                await self._storage.upkeep.prune(self._app.options.retention, _PRUNED_AT_ONCE)
            return self._records.runs[first:]
        finally:
            self._running = False
            await self._report(self._records.runs[first:])

    def elapse(self, span: timedelta) -> None:
        """Let time pass for what runs: past its timeout it is stopped, and a coroutine is cancelled."""
        self._clock.advance(span)
        if self._calls.task.cancelled:
            raise asyncio.CancelledError

    async def _through(self, until: datetime, died: Died, enough: Enough | None) -> bool:
        __tracebackhide__ = True
        if enough is not None and await enough():
            return True
        while not await self._instant(died, enough):
            wait = await self._next()
            if wait is None or self._clock.now() + wait > until:
                return False
            self._clock.advance(wait)
        return True

    async def _instant(self, died: Died, enough: Enough | None) -> bool:
        """Run what is due now, and what that makes due now. Returns True if ``enough`` is true."""
        __tracebackhide__ = True
        first = len(self._records.runs)
        while True:
            before = len(self._records.runs)
            await self.prepare()
            await self._settle()
            more = await self._tick()
            for view in await self._due():
                ran = await self._serve(view)
                if not ran:
                    continue
                for each in ran:
                    if each.outcome == "dead":
                        died(each)
                if enough is not None and await enough():
                    return True
                if len(self._records.runs) - first >= self._limit:
                    raise _endless(self._records.runs[first:])
            if len(self._records.runs) == before and not more:
                return False

    async def _due(self) -> list[DeliveryView]:
        ready = await self._storage.ledger.browse(Filter(state="ready", limit=ALL, scan=ALL))
        declared = [view for view in ready.rows if view.group in self._groups]
        return sorted(declared if self._own is None else await self._own.of(declared), key=in_order)

    async def _next(self) -> timedelta | None:
        """Return how long until something comes due; None if nothing will."""
        waits = [await self._storage.mailbox.upcoming(list(self._groups)), self._tick_in, self._settle_in]
        for each in self._groups.values():
            if each.executor.guard is not None:
                waits.append(each.executor.guard.paused_for)
            if isinstance(each.fetcher, LimitedFetcher) and (again_in := each.fetcher.again_in) is not None:
                waits.append(again_in if again_in > timedelta() else None)
        # Never zero: seconds are rounded, and a clock that is not advanced would never get there.
        return min((max(wait, _INSTANT) for wait in waits if wait is not None), default=None)

    # --- one delivery or batch -----------------------------------------------------------------------------

    async def _serve(self, view: DeliveryView) -> list[Ran]:
        """Claim, run and settle this delivery, unless it is gone; a batch takes others with it."""
        __tracebackhide__ = True
        group = self._groups[view.group]
        room = min(group.executor.free, group.size)
        if room <= 0 or not await self._is_ready(view):
            return []
        scans = ALL_LEVELS if group.executor.handler.batching else (Scan(view.priority, None),)
        want, before = ClaimRequest(view.group, room, scans), len(self._in_hand)
        while await group.fetcher.fetch([want]) and len(self._in_hand) == before:
            pass
        began = self._clock.now()
        try:
            while await group.executor.step(self._calls.task):
                pass
            await self._tick_since(began)
        finally:
            await self._settle()  # also where the test ends here: what ran is released
            reached = self._verdicts.take()
        self._calls.end_the_test()
        await self._app.bus.settled()
        return [self._record(group.consumer, run, settlement) for run, settlement in reached]

    def _record(self, consumer: Registration, run: Run, settlement: Settlement) -> Ran:
        error = self._calls.error(run)
        return self._records.note_run(consumer, run.delivery, settlement.verdict, settlement.took, error, run.progress)

    async def _is_ready(self, view: DeliveryView) -> bool:
        # A handler that ran before it at this very instant may have cancelled it.
        found = await self._storage.ledger.find(view.message_id)
        return found is not None and any(
            each.seq == view.seq and each.state == "ready" and each.group == view.group for each in found.deliveries
        )

    async def _settle(self) -> None:
        while (pause := await self._settler.turn()) <= 0:
            pass
        self._settle_in = None if pause == FOREVER else timedelta(seconds=pause)

    # --- schedules -----------------------------------------------------------------------------------------

    async def _reconcile(self) -> None:
        recurrences = self._app.recurrences()
        scheduled = () if recurrences is None else tuple(recurrences)
        is_known = recurrences is self._recurrences and [*map(id, scheduled)] == [*map(id, self._scheduled)]
        if self._scheduler is not None and is_known:
            return
        options, self._recurrences, self._scheduled = self._app.options, recurrences, scheduled
        declared = {} if recurrences is None else recurrences.declared()
        around = self._app.publisher.around_occurrences()
        scheduling = Scheduling(options.name, declared, options.version, around)
        # Before it is awaited: calls in between prepare as well.
        self._scheduler = Scheduler(self._storage, scheduling, _ignore, _HOLD, self._log, self._clock)
        await self._scheduler.reconcile(waits=True)

    async def _tick(self) -> bool:
        """Fire what is due, and joins. Returns whether that changed anything, so that there may be more."""
        assert self._scheduler is not None, "it is prepared"
        tick = await self._scheduler.tick()
        ahead = tick.next_in is not None and not tick.frozen and tick.next_in > timedelta()
        self._tick_in = tick.next_in if ahead else None
        return bool(tick.moved or tick.released or tick.joined or tick.more)

    async def _tick_since(self, began: datetime) -> None:
        """Fire what came due while a handler ran, each at its own instant, as long as that run is unfinished."""
        now = self._clock.now()
        if now <= began or self._app.recurrences() is None:
            return
        self._clock.show(began)
        try:
            while True:
                while await self._tick():
                    pass
                if self._tick_in is None or self._clock.now() + self._tick_in > now:
                    return
                self._clock.show(self._clock.now() + self._tick_in)
        finally:
            self._clock.show(now)

    # --- consumers -----------------------------------------------------------------------------------------

    async def _declare(self) -> None:
        known = self._groups
        fresh = [
            each for each in self._app.consumers if each.group not in known or known[each.group].consumer is not each
        ]
        if not fresh:
            return
        await self._storage.upkeep.declare([each.declaration(self._app.options.name) for each in fresh])
        outermost = self._app.publisher.outermost()
        for each in fresh:
            tested = rehearsed(each, self._records.relayed)
            handler = self._calls.wrapped(tested.handler(self._app.publisher, None, outermost), self._lending(each))
            executor = executor_of(handler, self._shared)
            known[each.group] = Group(each, executor, self._fetcher(executor))
        after: str | None = None
        while (after := (await self._storage.upkeep.reroute(ALL, after)).last) is not None:
            pass
        await self._report([])

    def _fetcher(self, executor: Executor) -> Fetcher:
        if executor.handler.limits is not None:
            return LimitedFetcher(executor, self._fetching)
        return Fetcher([executor], self._fetching)

    def _lending(self, consumer: Registration) -> Lending:
        """Return what lends a transactional consumer the test's own transaction: its effects must go with the test's.

        On a connection of SQLAlchemy a factory of sessions makes its session, as in production.
        """
        source = consumer.transactional
        if source is None or self._tx is None:
            return nullcontext
        if source.is_ours and not consumer.threaded:
            return partial(nullcontext, lent_in_place(self._tx))
        return source.bound_to(self._tx) or partial(nullcontext, self._tx)

    async def _report(self, runs: Sequence[Ran]) -> None:
        """Report as the worker that serves these groups: health and tallies know no other."""
        done, failed = (
            Counter(ran.group for ran in runs if ran.outcome in outcomes) for outcomes in (_SUCCESSES, _FAILURES)
        )
        await self._storage.upkeep.beat(
            Beat(
                worker=NAME,
                app=self._app.options.name,
                host=NAME,
                pid=os.getpid(),
                groups=tuple(self._groups),
                in_hand=0,
                bell="poll",
                runs={group: GroupRuns(done[group], failed[group]) for group in sorted(done | failed)},
            )
        )


class _Verdicts:
    """``Settles`` for the executors: passes verdicts to the settler, and keeps them for the records."""

    def __init__(self, settler: Settler, in_hand: ClaimsInHand) -> None:
        self._settler = settler
        self._in_hand = in_hand
        self._reached: list[tuple[Run, Settlement]] = []

    def put(self, origin: Origin, settlement: Settlement) -> None:
        """See ``Settles.put``. A release is no attempt."""
        run = self._in_hand.get(settlement.claim)
        if run is not None and not isinstance(settlement.verdict, Release):
            self._reached.append((run, settlement))
        self._settler.put(origin, settlement)

    def written(self, origin: Origin, settlement: Settlement) -> None:
        """See ``Settles.written``. In a test no handler settles by itself: its transaction is the test's."""
        raise AssertionError(f"{origin.group} has settled {settlement.claim} in a transaction of its own")

    def take(self) -> list[tuple[Run, Settlement]]:
        """Return the verdicts reached since the last call."""
        reached, self._reached = self._reached, []
        return reached


def _ignore(*_event: object) -> None:
    """Nothing sleeps that an event or a publish would have to wake."""


def _endless(runs: Sequence[Ran]) -> EndlessWork:
    busiest = Counter(ran.group for ran in runs).most_common(_MOST_SHOWN)
    named = ", ".join(f"{group} ({count:,})" for group, count in busiest)
    return EndlessWork(
        f"{len(runs):,} runs at one instant, and there is still more to do: {named}. Handlers that publish to each "
        "other without delay= never come to an end; if that is intended, raise app.testing(limit=…)"
    )
