"""Schedules that keep firing during an outage of the database, from memory, and are reported afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar, assert_never

from mainspring.model.message import Delivery, Draft, unstored
from mainspring.model.schedule import Rewrite, Schedule
from mainspring.model.text import described
from mainspring.model.verdict import Bury, Cancel, Done, Failure, Release, Retry, Settlement, Snooze, Verdict
from mainspring.model.views import RunStatus, RunView
from mainspring.runtime.batch import executor_of
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.executor import Executor, ExecutorContext
from mainspring.runtime.handler import Batching, Handler, Run
from mainspring.runtime.offload import Threads
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.schedules.decisions import occurrence
from mainspring.runtime.schedules.declarations import Scheduling
from mainspring.runtime.schedules.plan import CannotPlan, Plan, read_plan
from mainspring.runtime.service import FOREVER
from mainspring.runtime.settler import Origin
from mainspring.storage.contract import Storage
from mainspring.telemetry.bus import Bus
from mainspring.timing.clock import Clock

T = TypeVar("T")

_logger = logging.getLogger("mainspring.scheduler")
AWAY_POLL = 1.0
"""Seconds between attempts while schedules run without the database."""
_PATIENCE = timedelta(seconds=10)
"""A shorter outage is left to the misfire policy: nothing runs twice because of it."""
_STOPPED = "its worker stopped"
_UNREPORTED = 10_000
"""The maximum number of runs kept for the report."""


class Offline:
    """Runs the schedules marked ``offline=True`` by this host's clock, once per node, without retries.

    ``lost`` notes an outage; it fires once that has lasted. ``report`` stores the runs, and advances the rows past
    them, so that none is made up for. A schedule whose function for days fails is logged, and skipped until it returns.
    """

    def __init__(
        self,
        scheduling: Scheduling,
        handlers: Sequence[Handler],
        threads: Threads,
        node: str,
        failures: RateLimitedLog,
        bus: Bus,
        clock: Clock,
    ) -> None:
        self._app = scheduling.app
        self._node = node
        self._clock = clock
        self._in_hand = ClaimsInHand()
        self._declared = {name: each for name, each in scheduling.declared.items() if each.offline}
        groups = {each.definition["group"] for each in self._declared.values()}
        shared = ExecutorContext(self, self._in_hand, threads, _ignore, 1, failures, bus)
        self._executors = {each.group: executor_of(_alone(each), shared) for each in handlers if each.group in groups}
        self._plans: dict[str, Plan] = {}
        self._since: datetime | None = None
        self._fired: dict[str, tuple[datetime, datetime | None]] = {}
        """By schedule, its last occurrence and the one after it."""
        self._problems: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._runs: list[RunView] = []
        self._number = 0
        self._ending = False

    def __bool__(self) -> bool:
        """Return whether any schedule is marked so."""
        return bool(self._declared)

    @property
    def executors(self) -> Sequence[Executor]:
        """Its executors, separate from those of claimed deliveries."""
        return tuple(self._executors.values())

    @property
    def is_away(self) -> bool:
        """Whether the outage has lasted long enough to run schedules without the database."""
        return self._since is not None and self._clock.now() - self._since >= _PATIENCE

    @property
    def has_news(self) -> bool:
        """Whether there are runs that are not stored yet."""
        return bool(self._fired or self._runs)

    def lost(self) -> None:
        """Note that the database did not respond."""
        if self._since is None and self._executors:
            self._since = self._clock.now()

    def back(self) -> None:
        """Note that the database has responded."""
        self._since = None

    def fire(self) -> float:
        """Run what is due by this host's clock. Returns the seconds until the next is due."""
        now = self._clock.now()
        if self._ending or self._since is None or now - self._since < _PATIENCE:
            return FOREVER
        waits = [self._fire(name, now) for name in self._declared]
        return min((wait for wait in waits if wait is not None), default=FOREVER)

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for this work, which waits for the database, and run what is due until then."""
        waiting = asyncio.create_task(work)
        try:
            while not waiting.done():
                await asyncio.wait([waiting], timeout=min(self.fire(), AWAY_POLL))
            return waiting.result()
        finally:
            waiting.cancel()

    async def report(self, storage: Storage) -> None:
        """Store the runs, and advance the rows past them."""
        runs, fired, counts = self._runs[:], dict(self._fired), dict(self._counts)
        if fired:
            await storage.timetable.rewrite(sorted(fired), self._passed(fired, counts))
            # Only after the advance, which prevents the runs from being made up for.
            self._fired = {name: times for name, times in self._fired.items() if fired.get(name) != times}
            counted = {name: count - counts.get(name, 0) for name, count in self._counts.items()}
            self._counts = {name: count for name, count in counted.items() if count}
        await storage.upkeep.record(runs)
        del self._runs[: len(runs)]
        _logger.warning("%d runs were made while the database was away", len(runs))

    def end(self) -> None:
        """Fire nothing more: the worker stops. Current runs end with all others."""
        self._ending = True

    def close(self) -> None:
        """Log how many runs stay unreported."""
        if self._runs:
            _logger.warning("%d runs made while the database was away are lost to the history", len(self._runs))

    def put(self, origin: Origin, settlement: Settlement) -> None:
        """Record a run that has ended."""
        run = self._in_hand.drop(settlement.claim)
        if self._ending and isinstance(settlement.verdict, Release):
            settlement = settlement._replace(verdict=Cancel(_STOPPED))  # it cannot be released
        is_kept = settlement.keep == "all" or isinstance(settlement.verdict, Retry | Bury | Cancel)
        if run is not None and is_kept and len(self._runs) < _UNREPORTED:
            self._runs.append(self._view(run.delivery, settlement))
        origin.settled()

    def written(self, origin: Origin, settlement: Settlement) -> None:
        """Never called: such consumers are rejected, since without a database there is no transaction."""
        raise AssertionError(f"{origin.group} has settled {settlement.claim} in a database that is away")

    def _fire(self, name: str, now: datetime) -> float | None:
        try:
            following = self._advance(name, now)
        except CannotPlan as error:
            self._log_problem(name, str(error))
            return None
        except Exception as error:  # noqa: BLE001 - an error in one schedule must not affect the others
            self._log_problem(name, f"it cannot be followed: {described(error)}")
            return None
        self._problems.pop(name, None)
        return None if following is None else (following - now).total_seconds()

    def _advance(self, name: str, now: datetime) -> datetime | None:
        """Start its occurrence that is due, if any. Returns the next one."""
        declared = self._declared[name]
        executor = self._executors.get(declared.definition["group"])
        plan = self._plans.get(name) or self._plans.setdefault(
            name, read_plan({**declared.definition, **declared.overrides}, declared.code)
        )
        assert self._since is not None, "it fires in an outage only"
        due, following = plan.previous(now), plan.next(now)
        last, _ = self._fired.get(name, (self._since, None))
        if executor is not None and due is not None and due > last:
            # Made before anything is noted: each of these may call a user's function, which may fail.
            draft = occurrence(plan, Schedule(name, self._app, "code", {}, now, now, now), due).draft
            self._fired[name] = due, following
            if executor.free > 0 and not any(run.delivery.topic == plan.fields.topic for run in executor.running()):
                self._counts[name] = self._counts.get(name, 0) + 1
                self._start(draft, due, now, executor)
        return following

    def _start(self, draft: Draft, due: datetime, now: datetime, executor: Executor) -> None:
        self._number -= 1
        delivery = unstored(draft, executor.group, due, now, id=self._number)
        run = Run(delivery, executor.handler, FOREVER)
        self._in_hand.take(run)
        executor.put([run])

    def _log_problem(self, name: str, why: str) -> None:
        """Log it, once for as long as it stays the same."""
        if self._problems.get(name) != why:
            self._problems[name] = why
            _logger.warning("schedule %s: while the database is away, %s", name, why)

    def _view(self, delivery: Delivery, settlement: Settlement) -> RunView:
        status, failure, output, reason = _run_result(settlement.verdict)
        ended = self._clock.now()
        return RunView(
            id=0,
            message_id=delivery.message_id,
            group=delivery.group,
            topic=delivery.topic,
            attempt=1,
            status=status,
            started_at=ended - settlement.took,
            finished_at=ended,
            node=self._node,
            kind=None if failure is None else failure.kind,
            error=reason if failure is None else failure.error,
            traceback=None if failure is None else failure.traceback,
            output=output,
            source="offline",
            schedule=delivery.schedule,
            scheduled_for=delivery.scheduled_for,
        )

    def _passed(self, fired: dict[str, tuple[datetime, datetime | None]], counts: dict[str, int]) -> Rewrite:
        def rewrite(name: str, row: Schedule | None, _now: datetime) -> Schedule | None:
            at, following = fired[name]
            if row is None or row.next_at is None or row.next_at > at:
                return row
            return replace(row, base_at=at, next_at=following, fired=row.fired + counts.get(name, 0))

        return rewrite


def _run_result(verdict: Verdict) -> tuple[RunStatus, Failure | None, str | None, str | None]:
    """Convert a verdict into a run's status, failure, output and reason of cancellation.

    Without the database nothing is retried.
    """
    match verdict:
        case Done(output):
            return "done", None, output, None
        case Retry(failure=failure) | Bury(failure):
            return "failed", failure, None, None
        case Snooze() | Release():
            return "snoozed", None, None, None
        case Cancel(reason):
            return "cancelled", None, None, reason
        case _:
            assert_never(verdict)


def _alone(handler: Handler) -> Handler:
    """Return a batch consumer with a batch size of one: an occurrence does not wait for others."""
    return handler if handler.batching is None else replace(handler, batching=Batching(1, 0.0))


def _ignore(_group: str) -> None:
    """Do nothing: no fetcher waits for a free slot."""
