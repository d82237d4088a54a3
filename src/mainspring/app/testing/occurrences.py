"""Schedules in a test: reconciled when code registers them, and let go on at each of their instants."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mainspring.model.schedule import Due, ScheduleTick
from mainspring.storage.contract import Timetable
from mainspring.timing.clock import HandClock

if TYPE_CHECKING:
    from mainspring.app.recurring import Recurrences, Recurring
    from mainspring.runtime.schedules.timekeeper import Timekeeper

_logger = logging.getLogger("mainspring.testing")
_JOINS = 500
"""How many go on by one look."""


class Occurrences:
    """Does what a worker's scheduler does, by the hand-turned clock. An app without schedules has its joins.

    ``recurrences`` answers None for as long as nobody has asked the app for a schedule.
    """

    def __init__(
        self,
        timetable: Timetable,
        clock: HandClock,
        recurrences: Callable[[], Recurrences | None],
        app: str,
        version: int,
    ) -> None:
        self._timetable = timetable
        self._clock = clock
        self._recurrences = recurrences
        self._app = app
        self._version = version
        self._timekeeper: Timekeeper | None = None
        self._declared: tuple[Recurring, ...] = ()
        self._next_in: timedelta | None = None

    @property
    def next_in(self) -> timedelta | None:
        """How long it is until the next occurrence, as of the last look; None: there is none."""
        return self._next_in

    async def prepare(self) -> None:
        """Bring the rows in line with the code, if any was registered since."""
        recurrences = self._recurrences()
        if recurrences is None:
            return
        declared = tuple(recurrences)
        if self._timekeeper is not None and _are_the_same(declared, self._declared):
            return
        from mainspring.runtime.schedules.timekeeper import Scheduling, Timekeeper

        # Before it is awaited: what is asked meanwhile prepares as well.
        self._declared = declared
        scheduling = Scheduling(self._app, recurrences.declared(), self._version)
        self._timekeeper = Timekeeper(self._timetable, scheduling, _complain)
        await self._timekeeper.reconcile()

    async def look(self) -> bool:
        """Let go on what is due now, and joins. Whether anything has happened by that, so that there may be more."""
        if self._timekeeper is None:
            look = await self._timetable.look(self._app, _leave, _JOINS)
        else:
            look = await self._timekeeper.look()
            self._next_in = _ahead(look)
        return bool(look.moved or look.released or look.joined or look.more)

    async def meanwhile(self, since: datetime) -> None:
        """Let go on what came due while a handler ran, each at its own instant, as long as that run still counts."""
        now = self._clock.now()
        if self._timekeeper is None or now <= since:
            return
        self._clock.show(since)
        try:
            while True:
                while await self.look():
                    pass
                if self._next_in is None or self._clock.now() + self._next_in > now:
                    return
                self._clock.show(self._clock.now() + self._next_in)
        finally:
            self._clock.show(now)


def _ahead(look: ScheduleTick) -> timedelta | None:
    if look.frozen or look.next_in is None:
        return None
    return look.next_in if look.next_in > timedelta() else None


def _are_the_same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


def _leave(_due: Due, _now: datetime) -> None:
    """Without a schedule in the code, those that are stored are somebody else's."""


def _complain(name: str, why: str) -> None:
    _logger.warning("schedule %s: %s", name, why)
