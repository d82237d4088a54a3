"""PostgreSQL through either driver: reserved connections for claiming and settling, a few shared ones for the rest."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from functools import partial
from typing import TypeVar

from mainspring.model.errors import StorageUnavailable
from mainspring.storage.operation import Lane
from mainspring.storage.postgres import faults
from mainspring.storage.postgres.driver import Connection, Driver, Refusal, SettingsRefused
from mainspring.storage.postgres.lines import Lines
from mainspring.storage.postgres.source import Source
from mainspring.storage.script import Script

T = TypeVar("T")

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


class PostgresGateway:
    """``Gateway`` for PostgreSQL. Every wait has a deadline, and every error leaves as one of ours.

    Connections are opened when first used, on the loop they are used on. A pooler that refuses our settings is
    taken as one that hands every transaction to another session: then nothing is prepared, every statement is
    planned for the table as it is, and there is no listening. Settings only help: what is right needs no session
    (invariant 12).
    """

    def __init__(self, driver: Driver, source: Source, pool_size: int, timeout: timedelta) -> None:
        self.pooled: bool = False
        self.errors: tuple[type[Exception], ...] = (*driver.errors, OSError, TimeoutError)
        self._expected: tuple[type[Exception], ...] = (*self.errors, UnicodeError)
        self._driver = driver
        self._source = source
        self._patience = timeout.total_seconds()
        self._closed = False
        reserved = partial(self.dial, RESERVED_SETTINGS)
        shared = Lines(partial(self.dial, SHARED_SETTINGS), driver.refusal, pool_size)
        self._lanes: dict[Lane, Lines] = {
            "claim": Lines(reserved, driver.refusal, 1),
            "limited": Lines(reserved, driver.refusal, 1),
            "settle": Lines(reserved, driver.refusal, 1),
            "write": shared,
            "read": shared,
        }

    async def run(self, script: Script[T], lane: Lane) -> T:
        """Drive the script to its answer on a connection of this lane. See ``Gateway.run``."""
        if self._closed:
            raise StorageUnavailable("the storage is closed")
        try:
            async with asyncio.timeout(self._patience), self._lanes[lane].line() as line:
                return await line.run(script)
        except self._expected as error:
            raise self.translated(error) from self._cause(error)

    async def dial(self, settings: dict[str, str], *, unhurried: bool = False) -> Connection:
        """Open a connection with these settings, if settings are to be had. Raises what the driver raises."""
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
        """What the server has answered; None if this is no answer."""
        return self._driver.refusal(error)

    def translated(self, error: BaseException) -> Exception:
        """The error to raise instead of the driver's."""
        refusal = self._driver.refusal(error)
        if faults.is_pooled(refusal):
            self._go_pooled()
        return faults.translated(error, refusal, self._source.secrets, renews=self._source.renews)

    def _cause(self, error: BaseException) -> BaseException | None:
        # A cause is printed along with its effect: none where it names what must not be named.
        return None if any(secret in str(error) for secret in self._source.secrets) else error

    def _go_pooled(self) -> None:
        if self.pooled:  # another connection has found out meanwhile
            return
        self.pooled = True
        _log.warning(
            "PostgreSQL is behind a pooler that takes no settings: statements are not prepared, and new work is "
            "polled for instead of being told; connect to the server itself for lower latency"
        )

    def open(self) -> None:
        """Allow connections to be opened."""
        self._closed = False

    async def close(self) -> None:
        """End every connection. Idempotent."""
        self._closed = True
        await asyncio.gather(*(lines.close() for lines in {id(each): each for each in self._lanes.values()}.values()))
