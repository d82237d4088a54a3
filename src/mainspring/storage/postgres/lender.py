"""Connections to PostgreSQL that are lent to handlers: the driver's own, each in a transaction."""

from __future__ import annotations

import asyncio
import select
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from mainspring.model.errors import MissingExtra, StorageUnavailable
from mainspring.storage.postgres.driver import NAME, DriverName
from mainspring.storage.postgres.gateway import UrlSource

if TYPE_CHECKING:
    import psycopg

SETTINGS = {
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
"""The server notices when this host has gone. Nothing but that: plans, zones and limits are the application's own."""
_HERE = {"keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
"""And this host when the server has: a thread that waits for an answer cannot be cancelled."""
_ENDED = "the worker has ended, and lends no connections any more"
_PLAIN = "a plain function that is transactional"


class PostgresLender:
    """``Lender`` for PostgreSQL. A coroutine is lent the driver's connection, a plain function psycopg's.

    Connections are opened when they are needed, on the loop or thread that needs them, and kept; the one used last is
    lent first. One whose transaction was cut short by the network is not lent again, and one that has ended in its
    sleep is no attempt's failure. Every transaction is READ COMMITTED, whatever the role's own is: a handler that wants
    another brings a factory.
    """

    def __init__(
        self, source: UrlSource, size: int, patience: float, driver: DriverName | None, pooled: Callable[[], bool]
    ) -> None:
        self.size = size
        self._source = source
        self._patience = patience
        self._driver = driver
        self._pooled = pooled
        self._turns = asyncio.Semaphore(size)
        self._free: list[Any] = []
        self._all: set[Any] = set()
        self._threads = threading.Semaphore(size)
        self._lock = threading.Lock()
        self._free_blocking: list[psycopg.Connection[Any]] = []
        self._all_blocking: set[psycopg.Connection[Any]] = set()
        self._closed = False

    def check(self, *, blocking: bool) -> None:
        if blocking:
            _psycopg(_PLAIN)
        else:
            self._opener()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Any]:
        async with self._turns:
            connection, block = await self._begun()
            try:
                try:
                    yield connection
                except BaseException as error:
                    # Only its own error is news: a connection that cannot even undo is ended below.
                    with suppress(Exception):
                        await self._soon(block.__aexit__(type(error), error, error.__traceback__))
                    raise
                await self._soon(block.__aexit__(None, None, None))
            finally:
                if _is_usable(connection) and not self._closed:
                    self._free.append(connection)
                else:
                    self._end(connection)

    @contextmanager
    def lend_blocking(self) -> Iterator[Any]:
        with self._threads:
            connection, block = self._begun_blocking()
            try:
                try:
                    yield connection
                except BaseException as error:
                    with suppress(Exception):
                        block.__exit__(type(error), error, error.__traceback__)
                    raise
                block.__exit__(None, None, None)
            finally:
                with self._lock:
                    if _is_usable(connection) and not self._closed:
                        self._free_blocking.append(connection)
                    else:
                        self._end_blocking(connection)

    async def close(self) -> None:
        """See ``Lender.close``. A thread that is at work hears of it, and ends its connection itself."""
        self._closed = True
        self._free.clear()
        while self._all:
            self._all.pop().terminate()
        with self._lock:
            while self._free_blocking:
                self._end_blocking(self._free_blocking.pop())
            for connection in self._all_blocking:
                _shut(connection)

    async def _begun(self) -> tuple[Any, Any]:
        """A connection that has begun a transaction, and the transaction."""
        while True:
            kept = bool(self._free)
            connection = self._free.pop() if kept else await self._opened()
            if kept and _has_ended(connection):
                self._end(connection)
                continue
            try:
                block = _block(connection)
                await self._soon(block.__aenter__())
            except BaseException as error:
                self._end(connection)
                if not kept or not isinstance(error, Exception):
                    raise
                while self._free:  # what has befallen one of those that slept has befallen them all
                    self._end(self._free.pop())
            else:
                return connection, block

    def _begun_blocking(self) -> tuple[psycopg.Connection[Any], Any]:
        while True:
            with self._lock:
                kept = self._free_blocking.pop() if self._free_blocking else None
            connection = self._opened_blocking() if kept is None else kept
            if kept is not None and _has_ended(kept):
                with self._lock:
                    self._end_blocking(kept)
                continue
            try:
                block = connection.transaction()
                block.__enter__()
            except BaseException as error:
                with self._lock:
                    self._end_blocking(connection)
                    if kept is None or not isinstance(error, Exception):
                        raise
                    while self._free_blocking:
                        self._end_blocking(self._free_blocking.pop())
            else:
                return connection, block

    def _end(self, connection: Any) -> None:
        self._all.discard(connection)
        connection.terminate()  # without a goodbye: a handler may be in the middle of a statement

    def _end_blocking(self, connection: psycopg.Connection[Any]) -> None:
        self._all_blocking.discard(connection)
        connection.close()

    async def _soon(self, work: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(self._patience) as limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"PostgreSQL has not answered for {self._patience:g} s") from None
            raise

    async def _opened(self) -> Any:
        connection = await self._soon(self._opener()(await self._source.url()))
        self._source.check(connection)
        if self._closed:
            connection.terminate()
            raise StorageUnavailable(_ENDED)
        self._all.add(connection)
        return connection

    def _opened_blocking(self) -> psycopg.Connection[Any]:
        driver = _psycopg(_PLAIN)
        dsn = self._source.url_in_thread()
        opened: psycopg.Connection[Any] = driver.connect(dsn, connect_timeout=int(self._patience), **self._libpq(dsn))
        self._source.check(opened)
        opened.isolation_level = driver.IsolationLevel.READ_COMMITTED
        with self._lock:
            if self._closed:
                opened.close()
                raise StorageUnavailable(_ENDED)
            self._all_blocking.add(opened)
        return opened

    def _opener(self) -> Callable[[str], Awaitable[Any]]:
        if self._driver != "psycopg":
            try:
                import asyncpg
            except ModuleNotFoundError:
                if self._driver is not None:
                    raise
            else:
                # A pooler that takes no settings has its transactions in any session: then nothing is prepared.
                pooled = self._pooled()
                cache: dict[str, Any] = {"statement_cache_size": 0} if pooled else {}
                settings = {"application_name": NAME, **({} if pooled else SETTINGS)}
                return lambda dsn: asyncpg.connect(dsn, server_settings=settings, **cache)
        psycopg = _psycopg("transactional=True")
        from mainspring.storage.postgres.psycopg_driver import Wire

        async def connect(dsn: str) -> Any:
            connection = await Wire.connect(dsn, **self._libpq(dsn))
            await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
            return connection

        return connect

    def _libpq(self, dsn: str) -> dict[str, Any]:
        from psycopg.conninfo import conninfo_to_dict

        from mainspring.storage.postgres.psycopg_driver import with_settings

        chosen = conninfo_to_dict(dsn)
        # Never a transaction that psycopg begins by itself: one that was ended by hand must not have a successor.
        ours = {"application_name": NAME, "autocommit": True}
        ours |= {name: value for name, value in _HERE.items() if name not in chosen}
        if self._pooled():
            return {**ours, "prepare_threshold": None}
        return {**ours, "options": with_settings(dsn, SETTINGS)}


def _psycopg(what: str) -> Any:
    try:
        import psycopg
    except ModuleNotFoundError:
        raise MissingExtra("psycopg", "psycopg", what) from None
    return psycopg


def _block(connection: Any) -> Any:
    """A transaction on it, READ COMMITTED."""
    if hasattr(connection, "info"):
        return connection.transaction()
    return connection.transaction(isolation="read_committed")


def _is_usable(connection: Any) -> bool:
    """Whether it is open and between two transactions."""
    if not hasattr(connection, "info"):  # asyncpg's
        return not connection.is_closed() and not connection.is_in_transaction()
    return not connection.closed and connection.info.transaction_status == 0


def _has_ended(connection: Any) -> bool:
    """Whether an idle connection has ended: input on it nearly always means that."""
    if not hasattr(connection, "info"):
        return bool(connection.is_closed())
    with suppress(Exception):  # it cannot even be asked
        unread = select.poll()
        unread.register(connection.pgconn.socket, select.POLLIN)
        while not connection.closed and unread.poll(0):
            connection.pgconn.consume_input()
    return bool(connection.closed)


def _shut(connection: psycopg.Connection[Any]) -> None:
    from mainspring.storage.postgres.psycopg_driver import shut

    shut(connection)
