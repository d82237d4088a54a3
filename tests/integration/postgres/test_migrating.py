"""Migrating while others use the tables: nobody waits for long, and whoever is in the way is named."""

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import psycopg
import pytest

from mainspring.model.errors import StorageUnavailable
from mainspring.storage import migrations as steps
from mainspring.storage.migrations import Migration, migrations
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres import schema as migrating
from mainspring.storage.postgres.dialect import PACKAGE, Names
from mainspring.storage.postgres.schema import ddl
from tests.contract.acting import draft
from tests.faults.report import Report
from tests.services.pgbouncer import pgbouncer

COLUMN = Migration(9000, "9000_rehearsal", "ALTER TABLE mainspring.delivery ADD COLUMN rehearsed integer;\n", False)
INDEX = Migration(
    9001,
    "9001_rehearsal",
    "-- concurrently\nCREATE INDEX CONCURRENTLY delivery_rehearsed ON mainspring.delivery (key, seq);\n",
    False,
)


@pytest.fixture
async def storage(make: Callable[[], PostgresStorage]) -> PostgresStorage:
    """A storage of the release before: it has all migrations but those of the test."""
    storage = make()
    await storage.schema.migrate()
    return storage


@pytest.fixture
def ship(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have this release know more migrations."""

    def shipped(*more: Migration) -> None:
        every = (*migrations(PACKAGE), *more)
        monkeypatch.setattr(migrating, "migrations", lambda _package: every)

    return shipped


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    return Report(request.node)


@contextmanager
def stranger(url: str, schema: str) -> Iterator[psycopg.Connection]:
    """A session that has read the table and forgotten to commit."""
    with psycopg.connect(url, application_name="a forgotten report") as client:
        client.execute(f"SELECT FROM {schema}.delivery LIMIT 1".encode())
        yield client
        client.rollback()


class Publishers:
    """Publish all the time, and note how long each call took."""

    def __init__(self, storage: PostgresStorage) -> None:
        self._storage = storage
        self.took: list[tuple[float, float]] = []
        """When each ended, and how long it took."""

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._publish()) for _ in range(3)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _publish(self) -> None:
        while True:
            begun = time.monotonic()
            await self._storage.mailbox.publish([draft(group="mailer")])
            self.took.append((time.monotonic(), time.monotonic() - begun))
            await asyncio.sleep(0.005)


async def warned(caplog: pytest.LogCaptureFixture, times: int) -> None:
    async with asyncio.timeout(60):
        while len([each for each in caplog.records if "waits for a lock" in each.message]) < times:
            await asyncio.sleep(0.02)


async def test_publishers_go_on_while_a_migration_waits_for_a_stranger(
    storage: PostgresStorage,
    make: Callable[[], PostgresStorage],
    ship: Callable[..., None],
    postgres_url: str,
    postgres_schema: str,
    caplog: pytest.LogCaptureFixture,
    report: Report,
) -> None:
    ship(COLUMN)
    async with Publishers(storage) as publishers:
        with stranger(postgres_url, postgres_schema) as client:
            migrating_now = asyncio.create_task(make().schema.migrate())
            begun = time.monotonic()
            with caplog.at_level(logging.WARNING):
                await warned(caplog, 3)
            between = [ended for ended, _ in publishers.took if ended > begun]
            pid = client.info.backend_pid
        applied = await migrating_now
        gone_on = len(publishers.took)
        async with asyncio.timeout(30):
            while len(publishers.took) == gone_on:
                await asyncio.sleep(0.01)

    longest = max(took for _, took in publishers.took)
    report(
        "migrating behind a stranger's lock",
        f"publishes={len(publishers.took)}",
        f"longest={longest:.2f}s",
        f"lock_timeout={migrating.LOCK_TIMEOUT:g}s",
    )
    assert applied == [COLUMN.name]
    assert between  # while the lock was held, and the migration had not given up
    assert longest < 3 * migrating.LOCK_TIMEOUT + 5  # and not for as long as the stranger liked
    assert f"session {pid} of postgres (a forgotten report), idle in transaction" in caplog.text


async def test_who_is_in_the_way_for_too_long_is_named_and_nothing_is_half_done(
    storage: PostgresStorage,
    ship: Callable[..., None],
    postgres_url: str,
    postgres_schema: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Migration(8999, "8999_first", "CREATE TABLE mainspring.first (n integer);\n", False)
    ship(first, COLUMN)
    monkeypatch.setattr(migrating, "LOCKED_OUT", 0.5)
    monkeypatch.setattr(migrating, "LOCK_TIMEOUT", 0.2)

    with stranger(postgres_url, postgres_schema) as client:
        with pytest.raises(StorageUnavailable, match="migration 9000_rehearsal was not applied") as caught:
            async with asyncio.timeout(30):  # or it would wait for as long as the stranger likes
                await storage.schema.migrate()
        pid = client.info.backend_pid

    assert f"session {pid} of postgres (a forgotten report), idle in transaction, its transaction open for " in str(
        caught.value
    )
    assert f"SELECT pg_terminate_backend({pid})" in str(caught.value)
    assert await storage.schema.version() == first.number  # each in a transaction of its own
    assert await storage.schema.migrate() == [COLUMN.name]


async def test_an_index_of_a_large_table_is_made_while_others_write(
    storage: PostgresStorage,
    make: Callable[[], PostgresStorage],
    ship: Callable[..., None],
    postgres_url: str,
    postgres_schema: str,
) -> None:
    ship(INDEX)
    with psycopg.connect(postgres_url) as writer:
        # In an open transaction, which a plain CREATE INDEX would wait for, and everybody behind it.
        writer.execute(f"UPDATE {postgres_schema}.delivery SET key = key WHERE false".encode())
        building = asyncio.create_task(make().schema.migrate())
        await until(lambda: state(postgres_url, postgres_schema) == [False])  # it is there, and not finished
        await storage.mailbox.publish([draft(group="mailer")])  # no writer waits
        writer.rollback()
        assert await building == [INDEX.name]

    assert state(postgres_url, postgres_schema) == [True]


async def test_an_index_that_was_left_unfinished_is_made_again(
    storage: PostgresStorage, ship: Callable[..., None], postgres_url: str, postgres_schema: str
) -> None:
    ship(INDEX)
    with psycopg.connect(postgres_url) as writer, psycopg.connect(postgres_url, autocommit=True) as builder:
        writer.execute(f"UPDATE {postgres_schema}.delivery SET key = key WHERE false".encode())
        builder.execute("SET statement_timeout = 200")
        with pytest.raises(psycopg.errors.QueryCanceled):
            builder.execute(INDEX.sql(postgres_schema).encode())
        writer.rollback()
    assert state(postgres_url, postgres_schema) == [False]

    assert await storage.schema.migrate() == [INDEX.name]

    assert state(postgres_url, postgres_schema) == [True]


async def test_of_several_starters_one_makes_the_index_also_when_another_has_died(
    storage: PostgresStorage,
    make: Callable[[], PostgresStorage],
    ship: Callable[..., None],
    postgres_url: str,
    postgres_schema: str,
) -> None:
    ship(INDEX)
    with psycopg.connect(postgres_url) as writer:
        writer.execute(f"UPDATE {postgres_schema}.delivery SET key = key WHERE false".encode())
        dying = asyncio.create_task(make().schema.migrate())
        await until(lambda: state(postgres_url, postgres_schema) == [False])
        dying.cancel()  # its connections end, as with its process; the server may still be building
        await asyncio.wait([dying])
        others = [asyncio.create_task(make().schema.migrate()) for _ in range(3)]
        writer.rollback()
        applied = await asyncio.gather(*others)

    assert sorted(applied) == [[], [], [INDEX.name]]
    assert await storage.schema.version() == INDEX.number
    assert state(postgres_url, postgres_schema) == [True]


async def test_it_works_through_a_pooler(
    storage: PostgresStorage, ship: Callable[..., None], postgres_url: str, postgres_schema: str, tmp_path: Path
) -> None:
    ship(COLUMN, INDEX)
    with pgbouncer(tmp_path, postgres_url) as url:
        pooled = [PostgresStorage(url, schema=postgres_schema) for _ in range(3)]
        applied = await asyncio.gather(*(each.schema.migrate() for each in pooled))
        for each in pooled:
            await each.close()

    assert sorted(applied) == [[], [], [COLUMN.name, INDEX.name]]
    assert state(postgres_url, postgres_schema) == [True]


async def test_no_setting_of_a_migration_is_left_to_other_clients_of_a_pooler(
    storage: PostgresStorage, ship: Callable[..., None], postgres_url: str, postgres_schema: str, tmp_path: Path
) -> None:
    ship(COLUMN)
    with psycopg.connect(postgres_url) as client:
        usual = client.execute("SHOW lock_timeout").fetchall()
    with pgbouncer(tmp_path, postgres_url) as url, ExitStack() as stack:
        pooled = PostgresStorage(url, schema=postgres_schema)
        applied = await pooled.schema.migrate()
        await pooled.close()
        # Each is in a transaction, so that together they have every session that the migration had.
        others = [stack.enter_context(psycopg.connect(url)) for _ in range(4)]
        found = [other.execute("SHOW lock_timeout").fetchall() for other in others]

    assert applied == [COLUMN.name]
    assert found == [usual] * 4


@pytest.mark.no_schema
def test_the_script_for_administrators_is_still_one_transaction(
    monkeypatch: pytest.MonkeyPatch, postgres_url: str, postgres_schema: str
) -> None:
    every = (*migrations(PACKAGE), INDEX)
    monkeypatch.setattr(sys.modules[ddl.__module__], "migrations", lambda _package: every)

    with psycopg.connect(postgres_url, autocommit=True) as client:
        client.execute(ddl(Names(postgres_schema)).encode())

    assert state(postgres_url, postgres_schema) == [True]
    assert "delivery_rehearsed" in steps.indexes((INDEX,), "mainspring")


def state(url: str, schema: str) -> list[bool]:
    """Whether the index of the test can be used; empty where there is none."""
    with psycopg.connect(url, autocommit=True) as client:
        sql = f"SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{schema}.delivery_rehearsed')"
        return [valid for (valid,) in client.execute(sql.encode())]


async def until(question: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(question):
            await asyncio.sleep(0.02)
