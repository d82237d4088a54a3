"""One database of a fleet: an app of its own, which opens when it is used and closes after a time without use."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mainspring.app.code import Code
from mainspring.app.connection import Connection, Opened
from mainspring.app.consume.consumer import Registration
from mainspring.app.fleet.databases import Database
from mainspring.app.mainspring import Mainspring
from mainspring.app.place import HERE, Place, Side
from mainspring.app.storages import Address
from mainspring.model.errors import NotOpen
from mainspring.storage.contract import Storage

_CLOSED = "the fleet is not open, or no longer has this database: write `async with fleet:` around it"


class MemberConnection(Connection):
    """A connection that opens by itself while its fleet is open, and stays open until the fleet finds it unused."""

    admits: bool = False
    """Whether it may open by itself."""
    used_at: float = 0.0
    """When it was last used, by the monotonic clock of the process."""
    awaited: int = 0
    """How many calls are about to use it."""
    on_open: Callable[[], None] | None = None
    """Called when it has opened by itself."""
    _is_kept: bool = False
    _opener: asyncio.Task[None] | None = None

    async def opening(self, call: str) -> Opened:
        """Return the open database; opens it if needed. Raises NotOpen while the fleet is closed."""
        while True:
            self.awaited += 1
            try:
                return await self._kept(call)
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # Not the caller's: the database was closed while it opened. Another turn opens it, or raises NotOpen.
            finally:
                self.awaited -= 1

    async def _kept(self, call: str) -> Opened:
        self.used_at = time.monotonic()
        if self._stand_in is None:
            if self._opening is None and not self.admits:
                raise NotOpen(call, _CLOSED)
            if self._opening is None or self._opener is not None:
                await self._opened_by_itself()
            elif self.admits:
                await self.keep()  # a block holds it open, which may end during this call
        return await super().opening(call)

    async def keep(self) -> None:
        """Stay open when the block ends that holds it open, until it is let go."""
        if self._is_kept:
            return
        self._is_kept = True
        try:
            await self.open()
        except BaseException:
            self._is_kept = False
            raise

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[Storage]:
        """Open the database beside the app, without migrating it."""
        storage = self._build()
        await storage.open()
        try:
            yield storage
        finally:
            await storage.close()

    async def held(self, call: str) -> Opened:
        """Return the database that a block holds open."""
        return await super().opening(call)

    async def _opened_by_itself(self) -> None:
        if self._opener is None:
            # A task of no caller: when one is cancelled, the others still await it.
            self._opener = asyncio.create_task(self.open(), name="mainspring-open")
            self._opener.add_done_callback(self._note_opened)
        await asyncio.shield(self._opener)

    def _note_opened(self, opener: asyncio.Task[None]) -> None:
        self._opener = None
        is_open = not opener.cancelled() and opener.exception() is None
        self._is_kept = is_open and self._opening is not None
        if self._is_kept and self.on_open is not None:
            self.on_open()

    @property
    def is_kept(self) -> bool:
        """Whether it is open although no block holds it open."""
        return self._is_kept and self._opening is not None and self._opening.ready.done()

    async def let_go(self) -> None:
        """Close it unless a block holds it open."""
        if self.is_kept:
            self._is_kept = False
            await self.close()

    async def close_now(self) -> None:
        """Close, even if in use."""
        self._is_kept = False
        await super().close_now()


class Member:
    """A database of a fleet, and the app on it."""

    def __init__(
        self, name: str, code: Code, address: Address, own: Sequence[Registration] = (), *, is_home: bool = False
    ) -> None:
        self.name: str = name
        self.address: Address = address
        self.database: Database
        """As it is named now: its weight, and what the application keeps about it."""
        self.place: Place = Place(
            code, address, connection=MemberConnection, exported=False, sparing=True, is_home=is_home, own=own
        )
        self.app: Mainspring = Mainspring._at(self.place.front)  # noqa: SLF001 - a fleet makes apps as they do themselves

    @property
    def connection(self) -> MemberConnection:
        """Its connection on the loop of the fleet."""
        connection = self.place.front.connection
        assert isinstance(connection, MemberConnection)
        return connection

    def admit(self, *, admits: bool) -> None:
        """Let it open by itself, or no more."""
        for side in (self.place.front, self.place.back):
            if isinstance(side.connection, MemberConnection):
                side.connection.admits = admits

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run this in a task where the app that leads the fleet is the one on this database."""
        context = contextvars.copy_context()
        context.run(HERE.set, self.place)
        return asyncio.create_task(work, name=name, context=context)

    async def rest(self, idle: float) -> None:
        """Close what was not used for ``idle`` seconds."""
        before = time.monotonic() - idle
        if self.connection.used_at < before:
            await self.hang_up()
        blocking = self.place.back.connection
        is_unused = isinstance(blocking, MemberConnection) and blocking.is_open and blocking.used_at < before
        if is_unused and not _in_use(self.place.back):
            await asyncio.to_thread(self.place.background.close)

    async def hang_up(self) -> None:
        """Close what was opened by itself, unless it is in use right now."""
        if self.connection.is_kept and not self.connection.awaited and not _in_use(self.place.front):
            await self.connection.let_go()

    async def close(self) -> None:
        """Close everything, even if in use."""
        self.admit(admits=False)
        await self.connection.close_now()
        if self.place.back.connection.is_open:
            await asyncio.to_thread(self.place.background.close)


def _in_use(side: Side) -> bool:
    """Return whether a statement runs there, a lease is held, or a queue was opened."""
    pool = side.connection.pool
    parts = vars(side)
    leases = parts.get("leases")
    is_held = leases is not None and leases._operations.keeping.held > 0  # noqa: SLF001 - not public
    return is_held or "queues" in parts or (pool is not None and pool.busy > 0)
