"""The app's connection to its database: opened once per event loop, shared by everything inside ``async with app``."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from mainspring.app.batcher import Count, PublishBatcher, uncounted
from mainspring.model.errors import MainspringError, Misuse, NotOpen, StorageUnavailable
from mainspring.model.join import Join
from mainspring.model.message import Draft, Published, Receipt, UniqueKey
from mainspring.storage.contract import BellMode, PoolUse, Storage
from mainspring.timing.clock import Clock

if TYPE_CHECKING:
    from mainspring.brokers.contract import SendResult, WireMessage

T = TypeVar("T")

_logger = logging.getLogger("mainspring.app")
_LONGEST_PAUSE = 5.0
_ROUSE_EVERY = 0.02
"""Seconds between two wake-ups, however many transactions commit."""


class Publishes(Protocol):
    """Storage of drafts outside any caller's transaction."""

    async def publish(self, draft: Draft, *, fresh: bool) -> Receipt:
        """Store one draft; ``fresh``: its id was made here."""
        ...

    async def publish_unique(self, draft: Draft, unique_key: UniqueKey) -> Receipt:
        """Store one draft whose id was made here, unless an earlier one counts."""
        ...

    async def publish_many(self, drafts: Sequence[Draft]) -> list[Receipt]:
        """Store many drafts whose ids were made here."""
        ...

    async def join(self, join: Join, members: Sequence[Draft]) -> Published:
        """Store a join and its members as one."""
        ...


class Opened(Protocol):
    """An open database."""

    applied: list[str]

    @property
    def storage(self) -> Storage:
        """The database."""
        ...

    @property
    def batcher(self) -> Publishes:
        """The batcher."""
        ...


class StandIn(Opened, Protocol):
    """The tests' substitute for the database."""

    def wait_for(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await the work for a blocking caller, in any thread."""
        ...

    def relay(self, route: str, address: str, message: WireMessage) -> SendResult:
        """Record what a route would have sent there."""
        ...


@dataclass(slots=True)
class Opening:
    """A database that is open on one loop, in one process."""

    storage: Storage
    batcher: PublishBatcher
    loop: asyncio.AbstractEventLoop
    pid: int
    ready: asyncio.Task[None]
    migrating: asyncio.Task[None] | None = None
    applied: list[str] = field(default_factory=list)
    """The migrations that opening applied by itself."""
    pool: PoolUse = PoolUse()  # noqa: RUF009 - immutable
    """The use of its connections when it was opened: a file shares them with other openings."""
    roused: bool = False
    """Whether a wake-up of sleepers is scheduled."""
    rousing: asyncio.Future[None] | None = None


class Connection:
    """The database, open while any caller uses it."""

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
        self._waits_before = 0, 0.0
        """The waits for connections of openings that are over."""
        self.advice: str | None = None
        """What to write instead where it is used unopened, if that is not to open it."""
        self.published: Count = uncounted
        """Counts what is published from here."""
        self.before_open: list[Callable[[], None]] = []
        """Called before the database is opened."""
        self.before_close: list[Callable[[Storage], Awaitable[None]]] = []
        """Awaited before the database is closed. They do not raise if it is unavailable."""

    @property
    def now(self) -> datetime | None:
        """The hand-set clock of tests, None in production."""
        inside = self._stand_in or self._opening
        return None if inside is None else inside.storage.now

    @property
    def bell(self) -> BellMode | None:
        """How new work is noticed; None if nothing is open."""
        inside = self._stand_in or self._opening
        return None if inside is None else inside.storage.doorbell.mode

    @property
    def pool(self) -> PoolUse | None:
        """The use of its connections, waits since the process began; None if nothing is open."""
        if self._stand_in is not None:
            return self._stand_in.storage.pool()
        if self._opening is None:
            return None
        now, first, (waits, waited) = self._opening.storage.pool(), self._opening.pool, self._waits_before
        return now._replace(waits=now.waits - first.waits + waits, waited=now.waited - first.waited + waited)

    @property
    def is_open(self) -> bool:
        """Whether it is open in this process."""
        return self._opening is not None and self._opening.pid == os.getpid()

    @property
    def stand_in(self) -> StandIn | None:
        """The tests' substitute for the database, if any."""
        return self._stand_in

    def replace(self, stand_in: StandIn | None) -> StandIn | None:
        """Use this instead of the database, on any loop; None ends it. Return the previous one."""
        before, self._stand_in = self._stand_in, stand_in
        return before

    def rouse(self) -> bool:
        """Schedule a wake-up of sleepers after a commit. Safe from any thread. Return False if it is not open."""
        opening = self._opening
        if opening is None or opening.pid != os.getpid() or opening.loop.is_closed():
            return False
        if not opening.roused:
            opening.roused = True
            opening.loop.call_soon_threadsafe(self._rouse_later, opening)
        return True

    async def open(self) -> None:
        """Open, or add one more user."""
        if self._stand_in is not None:
            return
        self._notice_fork()
        if self._opening is not None:
            self._check_loop(self._opening, "async with app")
        self._inside += 1
        try:
            await self._opened()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close after the last user."""
        if self._stand_in is not None:
            return
        if self._notice_fork():
            return  # it is the parent's, not ours to close
        self._inside = max(self._inside - 1, 0)
        opening = self._opening
        if self._inside > 0 or opening is None:
            return
        if (pool := self.pool) is not None:
            self._waits_before = pool.waits, pool.waited
        self._opening = None
        self._inside = 0
        for task in (opening.migrating, opening.ready, opening.rousing):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
        try:
            await opening.batcher.close()
            for hook in self.before_close:
                await hook(opening.storage)
        finally:
            await opening.storage.close()

    async def __aenter__(self) -> Self:
        """Open, or add one more user."""
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close after the last user."""
        await self.close()

    async def close_now(self) -> None:
        """Close, even if in use."""
        if self._opening is not None and not self._notice_fork():
            self._inside = 1
            await self.close()

    async def opening(self, call: str) -> Opened:
        """Return the open database; raise NotOpen naming ``call``. A forked child opens its own."""
        if self._stand_in is not None:
            return self._stand_in
        opening = self._opening
        if opening is None:
            raise NotOpen(call, self.advice)
        if opening.pid != os.getpid():
            self._notice_fork()
            self._inside = 1
            return await self._opened()
        self._check_loop(opening, call)
        if not opening.ready.done():
            await asyncio.shield(opening.ready)
        return opening

    async def storage(self, call: str) -> Storage:
        """Return the open storage; raise NotOpen naming ``call``."""
        return (await self.opening(call)).storage

    async def _opened(self) -> Opening:
        opening = self._opening
        if opening is None:
            for hook in self.before_open:
                hook()
            storage = self._build()
            opening = self._opening = Opening(
                storage,
                PublishBatcher(storage, self._clock, self._wake, published=self.published),
                asyncio.get_running_loop(),
                os.getpid(),
                asyncio.create_task(self._prepare(storage), name="mainspring-open"),
                pool=storage.pool(),
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
            # An outage never stops an application from starting: migration is retried until it is over.
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
                _logger.exception("failed to migrate the schema")
            return

    def _rouse_later(self, opening: Opening) -> None:
        opening.loop.call_later(_ROUSE_EVERY, self._rouse_now, opening)

    def _rouse_now(self, opening: Opening) -> None:
        opening.roused = False
        if opening is self._opening:
            opening.rousing = asyncio.ensure_future(_rouse(opening.storage))

    def _notice_fork(self) -> bool:
        """Drop, unclosed, what the parent opened; return whether it did."""
        if self._opening is None or self._opening.pid == os.getpid():
            return False
        # Kept, never closed: its sockets and locks are the parent's, and closing would disconnect it.
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
        # Only a hint: without it sleepers poll within seconds.
        _logger.debug("failed to wake sleepers: %s", error)


_MOST = 100
"""How many calls continue without their callers: more would overload a database that is slow already."""


class ReturnOnCancel:
    """Return of a grant whose caller was cancelled before it got it.

    Such a grant would have no holder, and would keep all others out. This object knows only the connection, which
    outlives the app.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._under_way: set[asyncio.Task[None]] = set()
        connection.before_close.append(self._finish)

    async def run(self, work: Coroutine[Any, Any, T], give_back: Callable[[T], Awaitable[object]]) -> T:
        """Return the result of ``work``. It survives the caller's cancellation; its result is then given back."""
        if self._connection.stand_in is not None:
            return await work  # in a test there may be no loop, and nothing waits
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            if len(self._under_way) >= _MOST:
                task.cancel()
                raise
            returning = asyncio.create_task(_returned(task, give_back), name="mainspring-give-back")
            self._under_way.add(returning)
            returning.add_done_callback(self._under_way.discard)
            raise
        return task.result()

    async def _finish(self, _storage: Storage) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way)


async def _returned(task: asyncio.Task[T], give_back: Callable[[T], Awaitable[object]]) -> None:
    try:
        await give_back(await task)
    except MainspringError as error:
        _logger.warning("failed to give back a grant whose caller was cancelled: %s", error)
