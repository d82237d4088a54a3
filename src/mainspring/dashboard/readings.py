"""Shared readings: what several screens request at the same time is read once, such as health."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from mainspring.app.fleet.fleet import Fleet
from mainspring.app.fleet.health import FleetExaminer
from mainspring.app.mainspring import Mainspring
from mainspring.app.observe.custom_checks import LIVE, READY
from mainspring.app.schedule.view import ScheduleView
from mainspring.model.health import Health, HealthLimits
from mainspring.model.measures import MeasuresView, Window

if TYPE_CHECKING:
    from mainspring.app.broker.brokers import BrokerCheck

T = TypeVar("T")

_PATIENCE = 15.0
_COMING = 8
_AGES: Mapping[Window, float] = {"15m": 0.5, "2h": 2.0, "24h": 10.0, "7d": 20.0}
"""Seconds for which a reading of a window is reused."""
_KEPT = 64
"""How many readings of windows are kept."""


class Cached(Generic[T]):
    """One value, read again when it is older than ``seconds``; concurrent callers share one reading."""

    def __init__(self, read: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._at = float("-inf")
        self._value: T | None = None
        self._reading: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """Return the value, fresh enough."""
        if self._value is not None and time.monotonic() - self._at < self._seconds:
            return self._value
        if self._reading is None or self._reading.done() or self._reading.get_loop() is not asyncio.get_running_loop():
            self._reading = asyncio.ensure_future(self._fetch())
            self._reading.add_done_callback(_noticed)
        # A cancelled caller must not cancel the reading of the others.
        return await asyncio.shield(self._reading)

    async def _fetch(self) -> T:
        async with asyncio.timeout(_PATIENCE):  # or later callers would wait for it, too
            value = await self._read()
        self._value, self._at = value, time.monotonic()
        return value


def _noticed(reading: asyncio.Task[Any]) -> None:
    """Retrieve the exception, which callers have got by now, so that asyncio does not log it."""
    if not reading.cancelled():
        reading.exception()


class Probed(Protocol):
    """The health of an app or of a fleet, as probes report it."""

    ready_now: Callable[[], Awaitable[Health]]
    ready: Callable[[], Awaitable[Health]]
    live: Callable[[], Awaitable[Health]]
    now: Callable[[], Awaitable[Health]]
    lately: Callable[[], Awaitable[Health]]


class Readings:
    """The shared readings. Health is cached for seconds for screens, and briefly for anonymous callers."""

    def __init__(
        self,
        app: Mainspring,
        limits: HealthLimits | None = None,
        seen: Callable[[Health], Health] = lambda found: found,
    ) -> None:
        """Create them; ``seen`` returns the health to show, of what is found."""

        async def read() -> Health:
            return seen(await app.health(limits))

        async def ready() -> Health:
            return seen(await app.health(limits, tags=[READY]))

        async def live() -> Health:
            return seen(await app.health(limits, tags=[LIVE]))

        def brokers() -> Awaitable[Sequence[BrokerCheck]]:
            return app.brokers.check()

        self.ready_now: Callable[[], Awaitable[Health]] = ready
        self.ready: Callable[[], Awaitable[Health]] = Cached(ready, 1.0).get
        self.live: Callable[[], Awaitable[Health]] = Cached(live, 1.0).get
        self.now: Callable[[], Awaitable[Health]] = read
        self.lately: Callable[[], Awaitable[Health]] = Cached(read, 1.0).get
        self.shown: Callable[[], Awaitable[Health]] = Cached(read, 5.0).get
        self.coming: Callable[[], Awaitable[list[ScheduleView]]] = Cached(lambda: _coming(app), 2.0).get
        self.brokers: Callable[[], Awaitable[Sequence[BrokerCheck]]] = Cached(brokers, 1.0).get
        self._app = app
        self._measures: dict[tuple[Window, str | None], Cached[MeasuresView]] = {}

    def measures(self, window: Window, group: str | None = None) -> Awaitable[MeasuresView]:
        """Return what ended within a window, of one group or all; longer windows are cached longer."""
        key = (window, group)
        # Least recently used first, so that requests with unknown names do not fill the memory.
        found = self._measures.pop(key, None) or Cached(partial(self._app.stats.measures, *key), _AGES[window])
        self._measures[key] = found
        if len(self._measures) > _KEPT:
            del self._measures[next(iter(self._measures))]
        return found.get()


class FleetReadings:
    """The shared readings of a fleet's health: no probe opens a database, the survey reads them in turns."""

    def __init__(self, fleet: Fleet) -> None:
        examiner = FleetExaminer(fleet)
        self.ready_now: Callable[[], Awaitable[Health]] = examiner.ready
        self.ready: Callable[[], Awaitable[Health]] = Cached(examiner.ready, 1.0).get
        self.live: Callable[[], Awaitable[Health]] = Cached(examiner.live, 1.0).get
        self.now: Callable[[], Awaitable[Health]] = examiner.all
        self.lately: Callable[[], Awaitable[Health]] = Cached(examiner.all, 1.0).get


def readings_of(shown: Mainspring | Fleet, limits: HealthLimits | None) -> Probed:
    """Return the readings of an app or a fleet."""
    return FleetReadings(shown) if isinstance(shown, Fleet) else Readings(shown, limits)


async def _coming(app: Mainspring) -> list[ScheduleView]:
    """Return the schedules that are due next, soonest first."""
    views = [each for each in await app.schedules.list() if each.state == "active" and each.next_at is not None]
    return sorted(views, key=lambda each: (each.next_at, each.name))[:_COMING]
