"""Opening and closing the database: once per loop, however many times the app is entered."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeVar

from mainspring.app.counted import Count, uncounted
from mainspring.app.publisher import Publisher
from mainspring.model.errors import MainspringError, Misuse, NotOpen, StorageUnavailable
from mainspring.model.join import Join
from mainspring.model.message import Draft, Published, Receipt
from mainspring.model.unique import UniqueKey
from mainspring.storage.contract import BellMode, Storage
from mainspring.timing.clock import Clock

T = TypeVar("T")

_logger = logging.getLogger("mainspring.app")
_LONGEST_PAUSE = 5.0
_ROUSE_EVERY = 0.02
"""Seconds between two looks at who sleeps, however many transactions commit."""


class Publishes(Protocol):
    """What stores drafts outside any caller's transaction."""

    async def publish(self, draft: Draft, *, fresh: bool) -> Receipt:
        """Store one draft; ``fresh`` says that its id was made here."""
        ...

    async def publish_unique(self, draft: Draft, likeness: UniqueKey) -> Receipt:
        """Store one draft whose id was made here, unless an earlier one counts."""
        ...

    async def publish_many(self, drafts: Sequence[Draft]) -> list[Receipt]:
        """Store many drafts whose ids were made here."""
        ...

    async def join(self, join: Join, members: Sequence[Draft]) -> Published:
        """Store a join with its members, as one."""
        ...


class Inside(Protocol):
    """What is behind an open door."""

    applied: list[str]

    @property
    def storage(self) -> Storage:
        """The database."""
        ...

    @property
    def publisher(self) -> Publishes:
        """What stores drafts."""
        ...


class StandIn(Inside, Protocol):
    """What tests put in the place of the database."""

    def wait_for(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await the work for a caller who blocks, in whatever thread."""
        ...


@dataclass(slots=True)
class Opening:
    """One time of being open: on one loop, in one process."""

    storage: Storage
    publisher: Publisher
    loop: asyncio.AbstractEventLoop
    pid: int
    ready: asyncio.Task[None]
    migrating: asyncio.Task[None] | None = None
    applied: list[str] = field(default_factory=list)
    """The migrations that opening applied by itself."""
    roused: bool = False
    """Whether sleepers will be told soon of what was committed."""
    rousing: asyncio.Future[None] | None = None


class Door:
    """Keeps the database open while anyone is inside."""

    def __init__(
        self, build: Callable[[], Storage], clock: Clock, wake: Callable[[], None], *, auto_migrate: bool
    ) -> None:
        self._build = build
        self._clock = clock
        self._wake = wake
        self._auto_migrate = auto_migrate
        self._opening: Opening | None = None
        self._inside = 0
        self._abandoned: list[Opening] = []
        self._stand_in: StandIn | None = None
        self.published: Count = uncounted
        """Counts what is published from here on."""
        self.greetings: list[Callable[[], None]] = []
        """Called before the database is opened."""
        self.farewells: list[Callable[[Storage], Awaitable[None]]] = []
        """Awaited before the database is closed. They raise nothing for a database that is away."""

    @property
    def now(self) -> datetime | None:
        """The hand-set clock of tests, None in production."""
        inside = self._stand_in or self._opening
        return None if inside is None else inside.storage.now

    @property
    def bell(self) -> BellMode | None:
        """How new work is noticed; None where nothing is open."""
        inside = self._stand_in or self._opening
        return None if inside is None else inside.storage.doorbell.mode

    @property
    def is_open(self) -> bool:
        """Whether somebody is inside, in this process."""
        return self._opening is not None and self._opening.pid == os.getpid()

    @property
    def stand_in(self) -> StandIn | None:
        """What tests have put in the place of the database, if they have."""
        return self._stand_in

    def replace(self, stand_in: StandIn | None) -> StandIn | None:
        """Lead everyone to this instead of the database, on any loop; None ends it. Returns the one before."""
        before, self._stand_in = self._stand_in, stand_in
        return before

    def rouse(self) -> bool:
        """Soon, have whoever sleeps told of what was committed. Safe from any thread; False: nobody is inside."""
        opening = self._opening
        if opening is None or opening.pid != os.getpid() or opening.loop.is_closed():
            return False
        if not opening.roused:
            opening.roused = True
            opening.loop.call_soon_threadsafe(self._rouse_later, opening)
        return True

    async def enter(self) -> None:
        """Open, or join those who have."""
        if self._stand_in is not None:
            return
        self._notice_fork()
        if self._opening is not None:
            self._check_loop(self._opening, "async with app")
        self._inside += 1
        try:
            await self._open()
        except BaseException:
            await self.leave()
            raise

    async def leave(self) -> None:
        """Close behind the last one."""
        if self._stand_in is not None:
            return
        if self._notice_fork():
            return  # it was the parent's, and is not ours to close
        self._inside = max(self._inside - 1, 0)
        opening = self._opening
        if self._inside > 0 or opening is None:
            return
        self._opening = None
        self._inside = 0
        for task in (opening.migrating, opening.ready, opening.rousing):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        try:
            await opening.publisher.close()
            for farewell in self.farewells:
                await farewell(opening.storage)
        finally:
            await opening.storage.close()

    async def shut(self) -> None:
        """Close, whoever is inside."""
        if self._opening is not None and not self._notice_fork():
            self._inside = 1
            await self.leave()

    async def opening(self, call: str) -> Inside:
        """What is open now; raises NotOpen naming ``call``. In a forked child it is opened anew."""
        if self._stand_in is not None:
            return self._stand_in
        opening = self._opening
        if opening is None:
            raise NotOpen(call)
        if opening.pid != os.getpid():
            self._notice_fork()
            self._inside = 1
            return await self._open()
        self._check_loop(opening, call)
        if not opening.ready.done():
            await asyncio.shield(opening.ready)
        return opening

    async def storage(self, call: str) -> Storage:
        """The open storage; raises NotOpen naming ``call``."""
        return (await self.opening(call)).storage

    async def _open(self) -> Opening:
        opening = self._opening
        if opening is None:
            for greeting in self.greetings:
                greeting()
            storage = self._build()
            opening = self._opening = Opening(
                storage,
                Publisher(storage, self._clock, self._wake, published=self.published),
                asyncio.get_running_loop(),
                os.getpid(),
                asyncio.create_task(self._prepare(storage), name="mainspring-open"),
            )
        await asyncio.shield(opening.ready)
        return opening

    async def _prepare(self, storage: Storage) -> None:
        await storage.open()
        if not (self._auto_migrate or storage.migrates_itself):
            return
        try:
            applied = await storage.schema.migrate()
            if self._opening is not None:
                self._opening.applied = applied
        except StorageUnavailable as error:
            # An outage never stops an application from starting: the tables are seen to when it is over.
            _logger.warning("the schema is not checked yet: %s", error)
            if self._opening is not None:
                self._opening.migrating = asyncio.create_task(self._keep_migrating(storage))

    async def _keep_migrating(self, storage: Storage) -> None:
        pause = 0.1
        while True:
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, _LONGEST_PAUSE)
            try:
                await storage.schema.migrate()
            except StorageUnavailable:
                continue
            except MainspringError:
                _logger.exception("the schema cannot be brought up to date")
            return

    def _rouse_later(self, opening: Opening) -> None:
        opening.loop.call_later(_ROUSE_EVERY, self._rouse_now, opening)

    def _rouse_now(self, opening: Opening) -> None:
        opening.roused = False
        if opening is self._opening:
            opening.rousing = asyncio.ensure_future(_rouse(opening.storage))

    def _notice_fork(self) -> bool:
        """Whether what was open is the parent's; it is left alone then."""
        if self._opening is None or self._opening.pid == os.getpid():
            return False
        # Kept, never closed: its sockets and locks are the parent's, and closing would say goodbye for it.
        self._abandoned.append(self._opening)
        self._opening = None
        self._inside = 0
        return True

    def _check_loop(self, opening: Opening, call: str) -> None:
        if opening.loop is not asyncio.get_running_loop():
            raise Misuse(
                f"{call}: the app was opened on another event loop, and a connection cannot change loops: open it "
                "where it is used, or hand the call over with asyncio.run_coroutine_threadsafe"
            )


async def _rouse(storage: Storage) -> None:
    try:
        await storage.doorbell.rouse()
    except MainspringError as error:
        # Only a hint: without it the sleepers look by themselves within seconds.
        _logger.debug("sleepers were not roused: %s", error)
