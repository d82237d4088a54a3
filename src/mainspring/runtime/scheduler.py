"""Lets schedules go on when they are due, and joins when they are complete, and sleeps until the next one is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta

from mainspring.model.errors import MainspringError, StorageUnavailable
from mainspring.model.schedule import ScheduleTick
from mainspring.runtime.executor import Executor
from mainspring.runtime.offline import Offline
from mainspring.runtime.rate_limited_log import RateLimitedLog
from mainspring.runtime.schedules.timekeeper import Scheduling, Timekeeper
from mainspring.runtime.service import FOREVER, Service
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

_logger = logging.getLogger("mainspring.scheduler")
_RECONCILE_EVERY = 3600.0
"""Seconds: schedules made at run time learn of new rules of their zones by this."""
_LOCKED_POLL = 1.0
"""Seconds until a row that another session has locked is reconciled after all."""
_DECLARE_EVERY = timedelta(minutes=5)
_SILENT_FOR = timedelta(hours=1)
_LEAVE_FOR = 60.0
"""Seconds until a schedule that could not be followed is looked at again."""
_BLIND_POLL = 1.0
_AWAY_POLL = 1.0
"""Seconds between tries while schedules are run without the database."""
_SPACING = 0.005
_LONGEST_SPACING = 0.25
"""Seconds, at the most, between looks while somebody else has in hand what is due: a caller's open transaction may."""
_WAITING_POLL = 1.0
"""Seconds between looks while a delivery waits. Who ends its run looks at once, but may be a worker of another app."""


class Scheduler(Service):
    """Every worker has one and any of them may let any schedule of its app go on: there is no leader.

    Reconciling is retried for as long as it takes: a database that is away stops nobody from starting.
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
        self._app = scheduling.app
        self._timekeeper = Timekeeper(storage.timetable, scheduling, self._complain)
        self._published = published
        self._longest_poll = longest_poll.total_seconds()
        self._watching_since = clock.monotonic()
        self._reconcile_at = self._declare_at = -1.0
        self._waits = False
        self._is_reconciled = True
        self._spacing = _SPACING
        self._left: dict[str, float] = {}

    async def turn(self) -> float:
        """Let go on what is due, and say how long it is until more will be."""
        offline = self._offline
        if offline is None:
            return await self._look()
        try:
            pause = await self._meanwhile(offline) if offline.is_away else await self._look()
        except StorageUnavailable as error:
            offline.lost()
            if not offline.is_away:
                raise
            self._log.failure(self.name, error, expected=True)
            return min(offline.fire(), _AWAY_POLL)
        offline.back()
        return pause

    @property
    def executors(self) -> Sequence[Executor]:
        """Where schedules run while the database is away."""
        return () if self._offline is None else self._offline.executors

    def fire_no_more(self) -> None:
        """The worker stops: nothing is begun any more without the database."""
        if self._offline is not None:
            self._offline.end()

    async def last_words(self) -> None:
        """Report what was run without the database, if it answers by now."""
        if self._offline is not None and self._offline.has_news:
            try:
                await self._offline.report(self._storage)
            except MainspringError as error:
                self._log.failure(self.name, error, expected=True)

    def abandon(self) -> None:
        """End at once."""
        super().abandon()
        if self._offline is not None:
            self._offline.close()

    async def _meanwhile(self, offline: Offline) -> float:
        """Look, and until the database has answered run what needs none."""
        looking = asyncio.create_task(self._look())
        try:
            while not looking.done():
                await asyncio.wait([looking], timeout=min(offline.fire(), _AWAY_POLL))
            return looking.result()
        finally:
            looking.cancel()

    async def _look(self) -> float:
        if self._offline is not None and self._offline.has_news:
            await self._offline.report(self._storage)
        now = self._clock.monotonic()
        if self._was_away(now):
            self._watching_since = now
        # Declared first: what was retired before that is seen and brought back, and after it nobody retires it.
        if now >= self._declare_at:
            await self._declare(now)
        if now >= self._reconcile_at:
            self._is_reconciled = await self._timekeeper.reconcile(waits=False)
            self._reconcile_at = now + (_RECONCILE_EVERY if self._is_reconciled else _LOCKED_POLL)
        self._left = {name: until for name, until in self._left.items() if until > now}
        look = await self._timekeeper.look(self._left)
        self._left.update(dict.fromkeys(look.left, now + _LEAVE_FOR))
        for each in look.conflicts:
            _logger.warning("%s; it does not run: give that other message another message_id", each)
        if look.fired or look.released or look.continuations:
            self._published()
        if look.asked:
            await self._doorbell.ring()  # their keepers are to hear of it now
        self._waits = look.waiting
        return min(self._pause(look), FOREVER if self._is_reconciled else _LOCKED_POLL)

    def freed(self) -> None:
        """An occurrence has ended here, and that is written: another may have waited for it."""
        if self._waits:
            self.wake()

    def _was_away(self, now: float) -> bool:
        """Whether the database was out of reach, or this process stood still: the others may have been away too."""
        return now - self._declare_at > self._longest_poll + _DECLARE_EVERY.total_seconds()

    async def _declare(self, now: float) -> None:
        await self._timekeeper.declare(_DECLARE_EVERY)
        # Who has just started, or was away, has not seen yet who else is there.
        if now - self._watching_since >= _SILENT_FOR.total_seconds():
            for name in await self._timekeeper.retire(_SILENT_FOR):
                _logger.warning("%s: retired, since no worker of %s has it any more", name, self._app)
        self._declare_at = now + _DECLARE_EVERY.total_seconds()

    def _pause(self, look: ScheduleTick) -> float:
        pause = self._longest_poll if self._doorbell.mode != "poll" else min(_BLIND_POLL, self._longest_poll)
        if look.more:
            # Counted elsewhere just now, or too many for one look; or another session has locked the join.
            pause = _SPACING if look.moved or look.joined else self._spacing
            self._spacing = min(2 * pause, _LONGEST_SPACING)
            return pause
        if look.waiting:
            pause = min(pause, _WAITING_POLL)
        if look.next_in is not None and not look.frozen:
            until = look.next_in.total_seconds()
            # Due, and yet nothing went on: another node has it in hand, for a moment or for longer.
            pause = min(pause, max(until, 0.0 if look.moved else self._spacing))
            self._spacing = min(2 * self._spacing, _LONGEST_SPACING) if until <= 0 and not look.moved else _SPACING
        else:
            self._spacing = _SPACING
        return pause

    def _complain(self, name: str, why: str) -> None:
        self._log.log(logging.WARNING, "schedule %s: %s", name, why)
