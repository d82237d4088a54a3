"""Connections through either driver: reserved ones for claiming and settling, a few shared ones for the rest."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from mainspring.model.errors import StorageUnavailable
from mainspring.model.redaction import redacted
from mainspring.storage.contract import PoolUse
from mainspring.storage.operation import Lane
from mainspring.storage.postgres import errors
from mainspring.storage.postgres.address import Address, read_address
from mainspring.storage.postgres.dialect import Opening
from mainspring.storage.postgres.driver import Connection, Driver, Refusal, SettingsRefused
from mainspring.storage.postgres.errors import is_lasting
from mainspring.storage.postgres.tls import check_encrypted, enforced
from mainspring.storage.script import Script

_PATIENCE = 10.0


T = TypeVar("T")
Dial = Callable[[], Awaitable[Connection]]
"""Opens one connection."""
Read = Callable[[BaseException], Refusal | None]
"""Tells what an error means: ``Driver.refusal``."""
_log = logging.getLogger(__name__)
# A role or a database may have been given another isolation: our statements are written for this one. Compiling
# a statement costs more than any of ours runs for. In UTC a day has 24 hours, also when clocks are changed. The
# server notices by keepalive when this host has gone.
_ALWAYS = {
    "default_transaction_isolation": "read committed",
    "jit": "off",
    "TimeZone": "UTC",
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
# A plan that was made while a table was empty, and is kept while it grows to millions of rows, must be the plan
# for millions: by the index. So planning must never find an empty table cheap enough to read it all.
SHARED_SETTINGS = {"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_mergejoin": "off"}
# Claiming and settling have one plan that is right for every batch: it is made once.
RESERVED_SETTINGS = SHARED_SETTINGS | {"plan_cache_mode": "force_generic_plan"}


class UrlSource:
    """The URL of each new connection.

    ``ask`` is called in a thread of its own, since it may block, with a deadline. Whatever goes wrong with it is a
    ``ConnectionError``: the database cannot be reached now, and it is asked again for the next connection.
    """

    def __init__(
        self,
        dsn: str,
        ask: Callable[[], str] | None = None,
        patience: float = _PATIENCE,
        *,
        require_tls: bool = False,
    ) -> None:
        self.secrets: tuple[str, ...] = errors.secrets_of(dsn)
        """What no error may repeat: the passwords of the latest URL, and of the one before it."""
        self._require_tls = require_tls
        self._dsn = self._enforced(dsn)
        self._ask = ask
        self._patience = patience

    @property
    def renews(self) -> bool:
        """Whether credentials that are refused now may be others at the next connection."""
        return self._ask is not None

    def check(self, connection: Any) -> None:
        """Raise NotEncrypted, and end the driver's connection, if it lacks a required TLS."""
        if self._require_tls:
            check_encrypted(connection)

    def _enforced(self, dsn: str) -> str:
        return enforced(dsn) if self._require_tls else dsn

    @property
    def address(self) -> Address:
        """Where the latest URL leads."""
        return read_address(self._dsn)

    async def url(self) -> str:
        """The URL to connect to now."""
        if self._ask is None:
            return self._dsn
        try:
            return self._taken(await asyncio.wait_for(asyncio.wrap_future(self._asked(self._ask)), self._patience))
        except Exception as error:  # noqa: BLE001 - it is the caller's function
            raise self._failed(error) from None

    def url_in_thread(self) -> str:
        """The same in a thread that may block."""
        if self._ask is None:
            return self._dsn
        try:
            return self._taken(self._asked(self._ask).result(self._patience))
        except Exception as error:  # noqa: BLE001 - it is the caller's function
            raise self._failed(error) from None

    def _asked(self, ask: Callable[[], str]) -> Future[str]:
        answer: Future[str] = Future()
        answer.set_running_or_notify_cancel()  # so that giving up on it leaves the thread its place to answer

        def work() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:  # noqa: BLE001 - it is raised where it is awaited
                answer.set_exception(error)

        threading.Thread(target=work, name="mainspring-url", daemon=True).start()
        return answer

    def _taken(self, dsn: str) -> str:
        dsn = self._enforced(dsn)
        if _databases(dsn) != _databases(self._dsn):
            raise ValueError("it names another database than the one the app was opened on: open the app again")
        if dsn != self._dsn:
            self._dsn, self.secrets = dsn, (*errors.secrets_of(dsn), *self.secrets[:2])
        return dsn

    def _failed(self, error: Exception) -> ConnectionError:
        if isinstance(error, TimeoutError):
            return ConnectionError(f"the function that gives the URL has not answered for {self._patience:g} s")
        return ConnectionError(
            f"the function that gives the URL failed: {type(error).__name__}: {redacted(str(error))}"
        )


def _databases(dsn: str) -> set[str]:
    """Each name of a database in a URL: which of several counts is up to the driver. Without any, it is the user's."""
    parts = urlsplit(dsn)
    options = parse_qs(parts.query)
    named = {unquote(parts.path.removeprefix("/")), *options.get("dbname", ()), *options.get("database", ())} - {""}
    return named or {os.environ.get("PGDATABASE") or options.get("user", [unquote(parts.username or "")])[-1]}


class Line:
    """One connection, used by one script at a time.

    It is ended, never handed on, when a script was cancelled, ran out of time or failed within a transaction:
    what the server is still doing on it is unknown, and ending it makes the server forget.
    """

    def __init__(self, dial: Dial, read: Read) -> None:
        self._dial = dial
        self._read = read
        self._connection: Connection | None = None

    async def run(self, script: Script[T]) -> T:
        """Drive the script to its answer. Raises what the driver raises."""
        connection = self._connection
        if connection is None or connection.is_closed():
            connection = self._connection = await self._dial()
        opened = False
        try:
            try:
                statement = next(script)
                while True:
                    if not opened and type(statement) is Opening:
                        await connection.execute("BEGIN")
                        opened = True
                    rows: Any = await connection.fetch(statement.sql, *statement.args)
                    statement = script.send(rows)
            except StopIteration as stop:
                answer: T = stop.value
            if opened:
                await connection.execute("COMMIT")
        except BaseException as error:
            # Where the server has answered, the two of us still agree on where we are.
            if opened or is_lasting(self._read(error)):
                self.drop()
            raise
        return answer

    def drop(self) -> None:
        """End the connection at once."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def close(self) -> None:
        """End the connection in good order."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.hang_up()


class Lines:
    """A few lines, each lent to one script at a time; the one used last is lent first, so idle ones stay idle."""

    def __init__(self, dial: Dial, read: Read, size: int) -> None:
        self._all = tuple(Line(dial, read) for _ in range(size))
        self._free = list(self._all)
        self._turns = asyncio.Semaphore(size)
        self._waits = 0
        self._waited = 0.0

    @property
    def use(self) -> PoolUse:
        """How many there are and are lent, or about to be to a caller that waits; and how callers waited."""
        lent = len(self._all) - (0 if self._turns.locked() else len(self._free))
        return PoolUse(len(self._all), lent, self._waits, self._waited)

    @asynccontextmanager
    async def line(self) -> AsyncIterator[Line]:
        """Wait for a line and have it alone."""
        since = time.monotonic() if self._turns.locked() else None
        async with self._turns:
            if since is not None:
                self._waits += 1
                self._waited += time.monotonic() - since
            line = self._free.pop()
            try:
                yield line
            finally:
                self._free.append(line)

    async def close(self) -> None:
        """End them all: the idle in good order, those at work at once."""
        for line in self._all:
            if line not in self._free:
                line.drop()
        await asyncio.gather(*(line.close() for line in self._all))


def _operation(script: Script[Any]) -> str | None:
    """Return the name of the operation that a script is, as people call it."""
    name: str | None = getattr(script, "__name__", None)
    return None if name is None else name.lstrip("_")


class PostgresGateway:
    """``Gateway`` for PostgreSQL. Every wait has a deadline, and every error leaves as one of ours.

    Connections are opened when first used, on the loop they are used on. A pooler that refuses our settings is
    taken as one that hands every transaction to another session: then nothing is prepared, every statement is
    planned for the table as it is, and there is no listening. Settings only help: what is right needs no session
    (invariant 12). A ``sparing`` one has two connections in all: one for claiming and settling, one for the rest.
    """

    def __init__(
        self, driver: Driver, source: UrlSource, pool_size: int, timeout: timedelta, *, sparing: bool = False
    ) -> None:
        self.pooled: bool = False
        self.errors: tuple[type[Exception], ...] = (*driver.errors, OSError, TimeoutError)
        self._expected: tuple[type[Exception], ...] = (*self.errors, UnicodeError)
        self._driver = driver
        self._source = source
        self._patience = timeout.total_seconds()
        self._closed = False
        reserved = partial(self.dial, RESERVED_SETTINGS)
        shared = self._shared = Lines(partial(self.dial, SHARED_SETTINGS), driver.refusal, 1 if sparing else pool_size)
        claim = Lines(reserved, driver.refusal, 1)
        self._lanes: dict[Lane, Lines] = {
            "claim": claim,
            "limited": claim if sparing else Lines(reserved, driver.refusal, 1),
            "settle": claim if sparing else Lines(reserved, driver.refusal, 1),
            "write": shared,
            "read": shared,
        }

    @property
    def pool(self) -> PoolUse:
        """See ``Storage.pool``."""
        return self._shared.use

    async def run(self, script: Script[T], lane: Lane) -> T:
        """Drive the script to its answer on a connection of this lane. See ``Gateway.run``."""
        if self._closed:
            raise StorageUnavailable("the storage is closed")
        try:
            async with asyncio.timeout(self._patience), self._lanes[lane].line() as line:
                return await line.run(script)
        except self._expected as error:
            raise self.translated(error, _operation(script), lane) from self._cause(error)

    async def dial(self, settings: dict[str, str], *, unhurried: bool = False) -> Connection:
        """Open a connection with these settings, unless a pooler rejects them. Raises what the driver raises."""
        connection = await self._dial(settings, unhurried=unhurried)
        self._source.check(connection.raw)
        return connection

    async def _dial(self, settings: dict[str, str], *, unhurried: bool) -> Connection:
        dsn = await self._source.url()
        if self.pooled:
            return await self._driver.connect(dsn, None, self._patience)
        limit = "0" if unhurried else str(int(self._patience * 1000))
        # A process may be stopped in the midst of a transaction: others must not wait for what it has locked until it
        # goes on. None of our scripts takes longer.
        limits = {"statement_timeout": limit, "idle_in_transaction_session_timeout": limit}
        try:
            return await self._driver.connect(dsn, {**_ALWAYS, **limits, **settings}, self._patience)
        except SettingsRefused:
            connection = await self._driver.connect(dsn, None, self._patience)
        # Only now: had the settings not been the reason, this would have failed as well.
        self._go_pooled()
        return connection

    def refusal(self, error: BaseException) -> Refusal | None:
        """Return the server's error; None if it is not the server's."""
        return self._driver.refusal(error)

    def translated(self, error: BaseException, operation: str | None = None, lane: Lane | None = None) -> Exception:
        """The error to raise instead of the driver's, in this operation on this lane."""
        refusal = self._driver.refusal(error)
        if errors.is_pooled(refusal):
            self._go_pooled()
        source, where = self._source, (operation, lane)
        return errors.translated(error, refusal, source.secrets, *where, renews=source.renews, address=source.address)

    def _cause(self, error: BaseException) -> BaseException | None:
        # A cause is printed along with its effect: none where it names what must not be named.
        return None if any(secret in str(error) for secret in self._source.secrets) else error

    def _go_pooled(self) -> None:
        if self.pooled:  # another connection has found out already
            return
        self.pooled = True
        _log.warning(
            "PostgreSQL is behind a pooler that rejects settings: statements are not prepared, and new work is polled "
            "for; connect to the server itself for lower latency"
        )

    def open(self) -> None:
        """Allow connections to be opened."""
        self._closed = False

    async def close(self) -> None:
        """End every connection. Idempotent."""
        self._closed = True
        await asyncio.gather(*(lines.close() for lines in {id(each): each for each in self._lanes.values()}.values()))
