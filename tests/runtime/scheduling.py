"""Schedulers on memory storage by a clock in the test's hand, and the few things a test does with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from mainspring.model.schedule import Schedule
from mainspring.model.search import Filter
from mainspring.model.views import Declaration
from mainspring.model.worker import Declarer
from mainspring.runtime.janitor import Retiring
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.scheduler import Scheduler
from mainspring.runtime.schedules.declarations import Declared, Scheduling
from mainspring.storage.contract import Doorbell
from mainspring.storage.memory import MemoryStorage
from mainspring.timing.clock import HandClock

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
HOURLY = {"rhythm": "every 1h", "topic": "work", "group": "work"}


class Scene:
    """One database in memory, one clock, and any number of nodes."""

    def __init__(self) -> None:
        self.clock = HandClock(NOON)
        self.storage = MemoryStorage(self.clock)

    async def prepare(self) -> None:
        await self.storage.upkeep.declare([Declaration("work", "app", ("work",), "a test")])

    def node(
        self,
        *,
        app: str = "app",
        longest_poll: timedelta = HOUR,
        bell: Doorbell | None = None,
        version: int = 0,
        **declared: Mapping[str, Any],
    ) -> Node:
        """A node whose code has these schedules."""
        storage = self.storage.sibling()
        storage.doorbell = bell or storage.doorbell
        known = {name: Declared(dict(layer)) for name, layer in declared.items()}
        return Node(storage, self.clock, Scheduling(app, known, version), longest_poll)

    async def row(self, name: str = "report") -> Schedule:
        (row,) = (await self.storage.timetable.read([name])).schedules
        return row

    async def put(self, name: str = "report", app: str = "app", **fields: Any) -> None:
        """Write a row that is due now, made at run time."""
        given: dict[str, Any] = {"definition": HOURLY, "base_at": NOON - HOUR, "next_at": self.clock.now(), **fields}
        row = Schedule(
            name, app, given.pop("origin", "api"), given.pop("definition"), NOON - HOUR, NOON - HOUR, **given
        )
        await self.storage.timetable.rewrite([name], lambda _name, _known, _now: row)

    async def edit(self, name: str = "report", **fields: Any) -> None:
        """Change a row, as an operator on another node does."""

        def how(_name: str, known: Schedule | None, _now: datetime) -> Schedule:
            assert known is not None
            return replace(known, **fields)

        await self.storage.timetable.rewrite([name], how)

    async def due_times(self) -> list[datetime]:
        """When what is stored was due, oldest first."""
        rows = (await self.storage.ledger.browse(Filter(state="live", limit=10_000))).rows
        return sorted(row.scheduled_for for row in rows)


class Node:
    """A scheduler, and how often it has said that there is work."""

    def __init__(
        self, storage: MemoryStorage, clock: HandClock, scheduling: Scheduling, longest_poll: timedelta
    ) -> None:
        self.published = 0
        self.storage = storage
        log = RateLimitedLog(clock)
        self.scheduler = Scheduler(storage, scheduling, self._heard, longest_poll, log, clock)
        self.by = Declarer(f"{scheduling.app}/{id(self)}", "1")
        on_return = self.scheduler.reconcile_soon
        self.retiring = Retiring(storage.timetable, scheduling, self.by, on_return, log, clock)

    def _heard(self) -> None:
        self.published += 1

    async def turn(self) -> float:
        """One turn, and how long it would sleep now."""
        return await self.scheduler.turn()

    async def round(self) -> None:
        """Declare, as every few seconds, and make one turn."""
        await self.retiring.turn()
        await self.turn()

    async def stop(self) -> None:
        """Leave in good order."""
        await self.storage.upkeep.deregister(self.by.worker, self.by.start_id)

    @property
    def turns(self) -> int:
        """How many it has made by itself."""
        return self.scheduler.report().turns

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let it turn by itself, and begin when it sleeps for the first time."""
        self.scheduler.start()
        try:
            await self.until(1)
            yield
        finally:
            await self.scheduler.stop()

    async def until(self, turns: int) -> None:
        """Wait until it has made so many turns."""
        async with asyncio.timeout(60):
            while self.turns < turns:
                await asyncio.sleep(0.001)
        await self.rests()

    async def rests(self) -> None:
        """Let the loop do what it has to do."""
        for _ in range(10):
            await asyncio.sleep(0)
