"""What is lent on PostgreSQL: connections that have ended in their sleep, and the end of the lender."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest

from mainspring.model.errors import StorageUnavailable
from mainspring.storage.postgres.driver import DriverName
from mainspring.storage.postgres.gateway import UrlSource
from mainspring.storage.postgres.lender import PostgresLender
from tests.services.postgres import end_session


class Borrower:
    """Lends of one kind, and runs a statement on what is lent."""

    def __init__(self, url: str, driver: DriverName, *, blocking: bool) -> None:
        self.url = url
        self.lender = PostgresLender(UrlSource(url), 2, 20.0, driver, lambda: False)
        self.blocking = blocking

    async def value(self, sql: str) -> Any:
        """The only value that the statement gives, in a transaction."""
        if self.blocking:
            return await asyncio.to_thread(self._value, sql)
        async with self.lender.lend() as tx:
            if hasattr(tx, "fetchval"):
                return await tx.fetchval(sql)
            return (await (await tx.execute(sql)).fetchone())[0]

    def _value(self, sql: str) -> Any:
        with self.lender.lend_blocking() as tx:
            return tx.execute(sql).fetchone()[0]

    def end(self, pid: int) -> None:
        """Let the server end this connection, and be sure that it has."""
        end_session(self.url, pid)


KINDS: list[tuple[DriverName, bool]] = [("asyncpg", False), ("psycopg", False), ("psycopg", True)]


@pytest.fixture(params=KINDS, ids=["asyncpg", "psycopg", "plain function"])
async def borrower(request: pytest.FixtureRequest, postgres_url: str) -> AsyncIterator[Borrower]:
    driver, blocking = request.param
    borrower = Borrower(postgres_url, driver, blocking=blocking)
    yield borrower
    await borrower.lender.close()


async def test_a_connection_is_lent_again(borrower: Borrower) -> None:
    first = await borrower.value("SELECT pg_backend_pid()")
    assert await borrower.value("SELECT pg_backend_pid()") == first


async def test_one_that_has_ended_in_its_sleep_is_nobodys_failure(borrower: Borrower) -> None:
    first = await borrower.value("SELECT pg_backend_pid()")
    borrower.end(first)
    assert await borrower.value("SELECT pg_backend_pid()") != first


async def test_one_that_has_ended_at_work_is_not_lent_again(borrower: Borrower) -> None:
    with pytest.raises(Exception, match=r"terminating connection|connection was closed"):
        await borrower.value("SELECT pg_terminate_backend(pg_backend_pid())")
    assert await borrower.value("SELECT 1") == 1


async def test_the_end_reaches_who_is_in_the_middle_of_a_statement(borrower: Borrower) -> None:
    """Also a thread: libpq's memory must not be freed, nor its socket become another's, while it waits there."""
    sleep = f"SELECT pg_sleep(60) AS s{uuid4().hex}"
    sleeping = asyncio.create_task(borrower.value(sleep))
    with psycopg.connect(borrower.url, autocommit=True) as client:
        while not (found := client.execute("SELECT pid FROM pg_stat_activity WHERE query = %s", (sleep,)).fetchone()):
            await asyncio.sleep(0.01)
    await borrower.lender.close()
    others = [psycopg.connect(borrower.url) for _ in range(3)]  # one of them would have its socket
    try:
        async with asyncio.timeout(30):
            with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError, psycopg.Error)):
                await sleeping
        assert [each.execute("SELECT 1").fetchone() for each in others] == [(1,)] * 3
    finally:
        for each in others:
            each.close()
        borrower.end(found[0])  # the server does not notice while it sleeps


async def test_nothing_is_lent_after_the_end(borrower: Borrower) -> None:
    await borrower.lender.close()
    with pytest.raises(StorageUnavailable, match="the worker has ended"):
        await borrower.value("SELECT 1")


async def test_who_gives_back_after_the_end_leaves_nothing_open(postgres_url: str) -> None:
    lender = PostgresLender(UrlSource(postgres_url), 1, 20.0, "psycopg", lambda: False)
    lent, given_back = threading.Event(), threading.Event()
    kept: list[psycopg.Connection[Any]] = []

    def work() -> None:
        with lender.lend_blocking() as tx:
            kept.append(tx)
            lent.set()
            given_back.wait(60)

    working = asyncio.create_task(asyncio.to_thread(work))
    await asyncio.to_thread(lent.wait, 60)
    await lender.close()
    given_back.set()
    with pytest.raises(psycopg.OperationalError):
        await working

    assert kept[0].closed
