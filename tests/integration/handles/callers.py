"""Applications as people write them: for every kind of handle, its own way to begin, commit, save and undo.

Blocking ones are written with ``async`` too, so that one test serves both; ``Kind.run`` drives them without any loop.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from mainspring import Cancelled, Mainspring, Receipt

T = TypeVar("T")
Database = Literal["PostgreSQL", "SQLite"]


class Undone(Exception):
    """What a test raises to have something rolled back."""


class Caller:
    """One application with one handle. Its transactions commit at the end, unless something is raised in them."""

    tx: Any
    blocking = True

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """A transaction of the application's own, as its library writes one."""
        raise NotImplementedError

    def savepoint(self) -> AbstractAsyncContextManager[None]:
        """A savepoint in it; undone when something is raised."""
        raise NotImplementedError

    async def undone_by_hand(self, work: Callable[[], Awaitable[Any]]) -> None:
        """A transaction that ends by a ROLLBACK the application writes, not by an exception."""
        raise NotImplementedError

    async def publish(self, app: Mainspring, key: str, **options: Any) -> Receipt:
        if self.blocking:
            return app.sync.publish("orders.placed", {"order": key}, key=key, tx=self.tx, **options)
        return await app.publish("orders.placed", {"order": key}, key=key, tx=self.tx, **options)

    async def publish_many(self, app: Mainspring, keys: list[str]) -> list[Receipt]:
        messages = [("orders.placed", {"order": key}) for key in keys]
        if self.blocking:
            return app.sync.publish_many(messages, tx=self.tx)
        return await app.publish_many(messages, tx=self.tx)

    async def cancel(self, app: Mainspring, key: str) -> Cancelled:
        if self.blocking:
            return app.sync.cancel("orders.placed", key=key, tx=self.tx)
        return await app.cancel("orders.placed", key=key, tx=self.tx)


@dataclass(frozen=True)
class Kind:
    """One kind of handle on one database. ``open`` takes a URL, or a path for SQLite."""

    handle: str
    database: Database
    open: Callable[[str], AbstractAsyncContextManager[Caller]]
    loop: bool
    tells: bool = False
    """Whether its commits can be seen."""

    def __str__(self) -> str:
        return f"{self.database}-{self.handle}".replace(" ", "_")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """To its end: on a loop of its own, or without any."""
        if self.loop:
            return asyncio.run(work)
        try:
            work.send(None)
        except StopIteration as stop:
            answer: T = stop.value
            return answer
        raise AssertionError("blocking work waited for something")


KINDS: list[Kind] = []
ADAPTERS = {
    "asyncpg.Connection",
    "psycopg.Connection",
    "psycopg.Connection in a pipeline",
    "psycopg.AsyncConnection",
    "sqlite3.Connection",
    "Session, psycopg",
    "Session, sqlite3",
    "AsyncSession, asyncpg",
    "AsyncSession, psycopg",
    "AsyncSession, aiosqlite",
    "Django connection",
}
"""One handle of every way that statements reach a driver. The others differ only in how their connection is found."""


def one_per_adapter() -> list[Kind]:
    """The kinds for tests of what a call does: test_matrix tests that every kind of handle is enlisted."""
    return [each for each in KINDS if each.handle in ADAPTERS]


def kind(handle: str, database: Database, *, loop: bool, tells: bool = False, **options: Any) -> Callable[[Any], Any]:
    """Enter a caller class into the matrix; it is made from the address and these options, and closed."""

    def enter(made: Any) -> Any:
        @asynccontextmanager
        async def opened(address: str) -> AsyncIterator[Caller]:
            async with made(address, **options) as caller:
                yield caller

        KINDS.append(Kind(handle, database, opened, loop, tells))
        return made

    return enter
