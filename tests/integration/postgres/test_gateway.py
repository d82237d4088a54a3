"""Connections: reserved, deadlined, ended when in doubt, opened anew."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mainspring.model.errors import Conflict, StorageUnavailable
from mainspring.model.verdict import DONE, Retry, Settlement
from mainspring.model.verdict import Failure as Why
from mainspring.model.views import Declaration
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.driver import DriverName
from tests.faults.proxy import proxy_to
from tests.integration.postgres.acting import (
    DRIVERS,
    SESSIONS,
    TOPIC,
    Connection,
    blocked,
    claim,
    declare,
    draft,
    publish,
)
from tests.services.pgbouncer import pgbouncer
from tests.services.postgres import private_server

pytestmark = pytest.mark.parametrize("driver", DRIVERS)

HASTE = timedelta(seconds=3)


@pytest.fixture
async def hasty(
    postgres_url: str, postgres_schema: str, storage: PostgresStorage, driver: DriverName
) -> AsyncIterator[PostgresStorage]:
    """A storage that does not wait for long: enough for what is answered, on however busy a machine."""
    hasty = PostgresStorage(postgres_url, schema=postgres_schema, timeout=HASTE, driver=driver)
    yield hasty
    await hasty.close()


async def test_claiming_and_settling_have_connections_of_their_own(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    await publish(storage)
    async with connection.transaction():
        await connection.execute(f"LOCK TABLE {postgres_schema}.subscription")
        # Every shared connection waits for the lock now.
        publishing = [asyncio.create_task(publish(storage)) for _ in range(6)]
        await blocked(another, 4)
        [delivery] = await claim(storage)
        settled = await storage.mailbox.settle([Settlement(delivery.claim, DONE)], "node")
    await asyncio.gather(*publishing)

    assert settled.gone == frozenset()
    assert len(await connection.fetch(SESSIONS)) == 6


async def test_a_cancelled_query_ends_its_connection(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    before = await connection.fetch(SESSIONS)
    async with connection.transaction():
        await connection.execute(f"LOCK TABLE {postgres_schema}.subscription")
        publishing = asyncio.create_task(publish(storage))
        await blocked(another)
        publishing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await publishing
    await storage.ping()

    assert len(before) == 1
    async with asyncio.timeout(60):  # the server ends it when it notices
        while set(before) & set(await connection.fetch(SESSIONS)):
            await asyncio.sleep(0.01)


async def test_closing_ends_what_is_still_at_work(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    async with connection.transaction():
        await connection.execute(f"LOCK TABLE {postgres_schema}.subscription")
        publishing = asyncio.create_task(publish(storage))
        await blocked(another)
        async with asyncio.timeout(60):  # the lock is held for longer than that
            await storage.close()
            with pytest.raises(StorageUnavailable):
                await publishing


async def test_a_query_without_an_answer_is_given_up_and_its_connection_ended(
    hasty: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await hasty.ping()
    async with connection.transaction():
        await connection.execute(f"LOCK TABLE {postgres_schema}.subscription")
        with pytest.raises(StorageUnavailable):
            await publish(hasty)
    await publish(hasty)


async def test_a_server_that_accepts_and_never_answers_is_given_up(driver: DriverName) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        storage = PostgresStorage(
            f"postgresql://postgres@127.0.0.1:{port}/none", timeout=timedelta(seconds=0.2), driver=driver
        )

        with pytest.raises(StorageUnavailable):
            await storage.ping()
        await storage.close()


async def test_a_dead_network_takes_no_longer_than_the_timeout(postgres_url: str, driver: DriverName) -> None:
    with proxy_to(postgres_url) as proxy:
        storage = PostgresStorage(proxy.url, timeout=HASTE, driver=driver)
        await storage.ping()

        proxy.black_hole(also_new=True)
        async with asyncio.timeout(60):  # the system would take a quarter of an hour
            with pytest.raises(StorageUnavailable, match="in time"):
                await storage.ping()
            await storage.close()


async def test_terminated_sessions_are_unavailable_once_and_then_replaced(
    storage: PostgresStorage, connection: Connection
) -> None:
    await declare(storage)
    await publish(storage)
    await claim(storage)

    await connection.execute(f"SELECT pg_terminate_backend(pid) FROM ({SESSIONS}) AS ours")
    lost = 0
    for _ in range(10):
        try:
            await publish(storage)
        except StorageUnavailable:
            lost += 1

    assert lost <= 1
    assert len(await claim(storage)) == 10 - lost


async def test_a_failed_declaration_leaves_nothing_behind(storage: PostgresStorage) -> None:
    await declare(storage)
    both = [Declaration("fresh", "bank", (TOPIC,), "bank:fresh"), Declaration("mail", "bank", (TOPIC,), "bank:mail")]

    with pytest.raises(Conflict):
        await storage.upkeep.declare(both)

    assert [each.name for each in (await storage.ledger.roster()).groups] == ["mail"]


async def test_a_day_has_24_hours_where_the_database_has_its_clocks_changed(
    make: Callable[[], PostgresStorage], connection: Connection
) -> None:
    database = await connection.fetchval("SELECT current_database()")
    await connection.execute(f"ALTER DATABASE {database} SET timezone TO 'Europe/Berlin'")
    try:
        storage = make()
        await storage.schema.migrate()
        await declare(storage)
        storage.now = datetime(2026, 3, 28, 12, tzinfo=UTC)
        await publish(storage, delay=timedelta(days=1))

        storage.now += timedelta(hours=23, minutes=59)
        early = await claim(storage)
        storage.now += timedelta(minutes=1)
        [delivery] = await claim(storage)
    finally:
        await connection.execute(f"ALTER DATABASE {database} RESET timezone")

    assert early == []
    assert delivery.due_at.isoformat() == "2026-03-29T12:00:00+00:00"


async def test_nul_in_an_error_is_stored_spelled_out(storage: PostgresStorage) -> None:
    await declare(storage)
    await publish(storage)
    [delivery] = await claim(storage)
    failure = Why("error", "bad \x00 byte", "half \ud83d character")

    await storage.mailbox.settle([Settlement(delivery.claim, Retry(timedelta(), failure))], "node")
    [run] = await storage.ledger.runs(None, None, 10)

    assert (run.error, run.traceback) == ("bad \\x00 byte", "half \\ud83d character")


async def test_a_server_that_was_killed_and_restarted_is_found_again(tmp_path: Path, driver: DriverName) -> None:
    with private_server(tmp_path) as server:
        storage = PostgresStorage(server.url, timeout=timedelta(seconds=30), driver=driver)
        await storage.schema.migrate()
        await declare(storage)
        await publish(storage)
        server.kill()
        with pytest.raises(StorageUnavailable):
            await claim(storage)
        server.start()
        found = await claim(storage)
        await storage.close()

    assert len(found) == 1


@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_through_a_pooler_everything_works_and_polling_is_announced_once(
    storage: PostgresStorage,
    postgres_url: str,
    postgres_schema: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    mode: str,
    driver: DriverName,
) -> None:
    with pgbouncer(tmp_path, postgres_url, mode) as url, caplog.at_level(logging.WARNING):  # type: ignore[arg-type]
        pooled = PostgresStorage(url, schema=postgres_schema, driver=driver)
        pooled.doorbell.listen(lambda _: None)
        assert await pooled.schema.migrate() == []
        await declare(pooled)
        for _ in range(10):
            await asyncio.gather(*(publish(pooled, 5) for _ in range(8)))
            deliveries = await claim(pooled)
            await pooled.mailbox.extend([each.claim for each in deliveries], "node", timedelta(minutes=1))
            settled = await pooled.mailbox.settle([Settlement(each.claim, DONE) for each in deliveries], "node")
            assert (len(deliveries), settled.lost, settled.gone) == (40, frozenset(), frozenset())
        await pooled.doorbell.arm(["mail"])
        bell = pooled.doorbell.mode
        await pooled.close()

    assert bell == "poll"
    assert [record.getMessage()[:34] for record in caplog.records] == ["PostgreSQL is behind a pooler that"]


async def test_a_password_is_in_no_error_and_no_log(driver: DriverName, caplog: pytest.LogCaptureFixture) -> None:
    away = PostgresStorage(
        "postgresql://ann:canary%2Fsecret@127.0.0.1:1/shop", timeout=timedelta(seconds=1), driver=driver
    )
    away.doorbell.listen(lambda _: None)
    said: list[str] = []
    for operation in (away.ping(), away.mailbox.publish([draft()]), away.schema.migrate(), away.schema.version()):
        with pytest.raises(StorageUnavailable) as caught:
            await operation
        said.append(repr(caught.value) + repr(caught.value.__cause__))
    await asyncio.sleep(0)
    await away.close()

    assert "canary" not in " ".join(said) + caplog.text
