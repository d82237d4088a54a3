"""Fires due schedules, completes joins, and sleeps until the next is due."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta

from mainspring.model.errors import DatabaseMoved, MainspringError, StorageUnavailable
from mainspring.model.schedule import Due, ScheduleAdvance, ScheduleTick
from mainspring.runtime.offline import AWAY_POLL, Offline
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.schedules.conditions import Conditions
from mainspring.runtime.schedules.decisions import COUNTED, decide
from mainspring.runtime.schedules.declarations import Scheduling, reconcile
from mainspring.runtime.schedules.middleware import TickMiddleware
from mainspring.runtime.schedules.plan import CannotPlan, Plan, read_plan
from mainspring.runtime.service import FOREVER, Service
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

_logger = logging.getLogger("mainspring.scheduler")
_RECONCILE_EVERY = 3600.0
"""Seconds after which schedules made at run time pick up new rules of their time zones."""
_LOCKED_POLL = 1.0
"""Seconds until a row that another session has locked is reconciled."""
_LEAVE_FOR = 60.0
"""Seconds until a schedule with an invalid plan is tried again."""
_BLIND_POLL = 1.0
_SPACING = 0.005
_LONGEST_SPACING = 0.25
"""The maximum of seconds between ticks while another session, perhaps a caller's transaction, holds what is due."""
_WAITING_POLL = 1.0
"""Seconds between ticks while a delivery waits. A worker that ends its run ticks at once, unless of another app."""

_BATCH = 500
_LEAST_COUNTED = 50
_PUBLISHED = 1000
"""How many occurrences one tick publishes, before it leaves the rest to the next: on SQLite it blocks all writers."""
_PLANS = 10_000


class Scheduler(Service):
    """Fires schedules. Every worker has one, and any may advance any schedule of its app: there is no leader.

    Reconciling is retried for as long as it takes: a worker starts even if the database is unreachable.
    """

    def __init__(
        self,
        storage: Storage,
        scheduling: Scheduling,
        published: Callable[[], None],
        longest_poll: timedelta,
        log: RateLimitedLog,
        clock: Clock,
        offline: Offline | None = None,
    ) -> None:
        super().__init__("scheduler", log, clock)
        self._storage = storage
        self._doorbell = storage.doorbell
        self._offline = offline or None
        self._scheduling = scheduling
        self._timetable = storage.timetable
        self._published = published
        self._longest_poll = longest_poll.total_seconds()
        self._reconcile_at = -1.0
        self._waits = False
        self._is_reconciled = True
        self._returned: frozenset[str] = frozenset()
        self._spacing = _SPACING
        self._left: dict[str, float] = {}
        self._batch = _BATCH
        self._countable = COUNTED
        self._publishable = _PUBLISHED
        self._put_off: set[str] = set()
        self._middleware = TickMiddleware(None)
        self._plans: dict[tuple[str, datetime, int], Plan] = {}
        self._conditions = Conditions(scheduling.declared, self._log_problem)

    async def turn(self) -> float:
        """Fire what is due. Returns the seconds until more is."""
        offline = self._offline
        if offline is None:
            return await self._online_turn()
        try:
            pause = await self._offline_turn(offline) if offline.is_away else await self._online_turn()
        except DatabaseMoved:
            offline.back()  # its schedules are kept elsewhere
            raise
        except StorageUnavailable as error:
            offline.lost()
            if not offline.is_away:
                raise
            self._log.failure(self.name, error, expected=True)
            return min(offline.fire(), AWAY_POLL)
        offline.back()
        return pause

    async def report_offline(self) -> None:
        """Report the runs made without the database, if it responds by now."""
        if self._offline is not None and self._offline.has_news:
            try:
                await self._offline.report(self._storage)
            except MainspringError as error:
                self._log.failure(self.name, error, expected=True)

    async def _offline_turn(self, offline: Offline) -> float:
        """Tick, and run offline schedules until the database responds."""
        return await offline.during(self._online_turn())

    async def _online_turn(self) -> float:
        if self._offline is not None and self._offline.has_news:
            await self._offline.report(self._storage)
        tick = await self.tick()
        return min(self._pause(tick), FOREVER if self._is_reconciled else _LOCKED_POLL)

    async def reconcile(self, *, waits: bool = False) -> None:
        """Bring the rows in line with the code, if it is time."""
        now = self._clock.monotonic()
        if now >= self._reconcile_at:
            returned = self._returned
            self._is_reconciled = await reconcile(
                self._timetable, self._scheduling, self._log_problem, returned, waits=waits
            )
            if self._returned is not returned:
                return  # more have returned since: they are reconciled in the next turn
            if self._is_reconciled:
                self._returned = frozenset()
            self._reconcile_at = now + (_RECONCILE_EVERY if self._is_reconciled else _LOCKED_POLL)

    async def tick(self) -> ScheduleTick:
        """Reconcile, and fire what is due."""
        await self.reconcile()
        now = self._clock.monotonic()
        self._left = {name: until for name, until in self._left.items() if until > now}
        if self._conditions:
            # Before the tick, which locks rows: a user's function may take its time.
            unknown = await self._conditions.ask(self._timetable, self._left)
            now = self._clock.monotonic()
            self._left.update(dict.fromkeys(unknown, now + _LEAVE_FOR))
        tick = await self._advance()
        self._left.update(dict.fromkeys(tick.left, now + _LEAVE_FOR))
        for each in tick.conflicts:
            _logger.warning("%s; it does not run: give that other message another message_id", each)
        for name, advance in tick.dropped:
            if advance.missed:
                _logger.warning("schedule %s: %d occurrences were missed %s", name, advance.missed, advance.why_missed)
            if advance.skipped:
                _logger.info("schedule %s: %d occurrences are skipped: %s", name, advance.skipped, advance.why_skipped)
        if tick.fired or tick.released or tick.continuations:
            self._published()
        if tick.asked:
            await self._doorbell.ring()  # their keepers have to see it now
        self._waits = tick.waiting
        return tick

    async def _advance(self) -> ScheduleTick:
        """Fire due schedules and advance them, except those left for a while."""
        # Rows are locked during a tick: if hundreds are far behind, it does not count all of them to the end.
        self._countable, self._publishable = COUNTED, _PUBLISHED
        self._put_off.clear()
        self._middleware = TickMiddleware(self._scheduling.around)
        try:
            found = await self._timetable.tick(self._scheduling.app, self._decide, self._batch, self._left)
        except BaseException as error:
            if isinstance(error, StorageUnavailable):
                # It may have been too much for one transaction; the same batch would fail for ever.
                self._batch = max(1, self._batch // 4)
            self._middleware.leave(error)
            raise
        self._middleware.leave()
        self._batch = min(_BATCH, self._batch * 2)
        if self._put_off:
            return replace(found, left=found.left - self._put_off, more=True)
        return found

    def _decide(self, due: Due, now: datetime) -> ScheduleAdvance | None:
        if self._publishable <= 0:
            self._put_off.add(due.schedule.name)
            return None
        try:
            plan = self._plan(due)
            if self._conditions.is_unanswered(plan, due.schedule):
                self._put_off.add(due.schedule.name)  # it is due only just now
                return None
            met = self._conditions.answer(plan, due.schedule)
            advance = decide(plan, due, now, max(self._countable, _LEAST_COUNTED), met=met)
            if self._scheduling.around is not None:
                advance = replace(advance, occurrences=self._middleware.enter(advance.occurrences))
        except CannotPlan as error:
            self._log_problem(due.schedule.name, str(error))
        except Exception as error:  # noqa: BLE001 - an error in one row must not affect the others
            self._log_problem(due.schedule.name, f"it cannot be followed: {type(error).__name__}: {error}")
        else:
            self._countable -= advance.missed + advance.skipped + len(advance.occurrences)
            self._publishable -= len(advance.occurrences)
            return advance
        return None

    def _plan(self, due: Due) -> Plan:
        row = due.schedule
        # A schedule that was deleted and recreated counts its revisions from the start.
        key = row.name, row.created_at, row.revision
        plan = self._plans.get(key)
        if plan is None:
            declared = self._scheduling.declared.get(row.name)
            plan = read_plan(row.layers, None if declared is None else declared.code)
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def reconcile_soon(self, returned: Collection[str]) -> None:
        """Reconcile in the next turn: these schedules of this code were retired, and return."""
        self._returned = frozenset(returned)
        self._reconcile_at = -1.0
        self.wake()

    def freed(self) -> None:
        """Note a written end of an occurrence: another may have waited for it."""
        if self._waits:
            self.wake()

    def _pause(self, tick: ScheduleTick) -> float:
        pause = self._longest_poll if self._doorbell.mode != "poll" else min(_BLIND_POLL, self._longest_poll)
        if tick.more:
            # Counted by another worker just now, or too many for one tick; or another session has locked the join.
            pause = _SPACING if tick.moved or tick.joined else self._spacing
            self._spacing = min(2 * pause, _LONGEST_SPACING)
            return pause
        if tick.waiting:
            pause = min(pause, _WAITING_POLL)
        if tick.next_in is not None and not tick.frozen:
            until = tick.next_in.total_seconds()
            # Due, but not advanced: another node holds it, for a moment or for longer.
            pause = min(pause, max(until, 0.0 if tick.moved else self._spacing))
            self._spacing = min(2 * self._spacing, _LONGEST_SPACING) if until <= 0 and not tick.moved else _SPACING
        else:
            self._spacing = _SPACING
        return pause

    def _log_problem(self, name: str, why: str) -> None:
        self._log.log(logging.WARNING, "schedule %s: %s", name, why)
