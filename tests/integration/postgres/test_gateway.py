"""Connections: reserved, deadlined, ended when in doubt, opened anew."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from mainspring.model.errors import Conflict, StorageUnavailable
from mainspring.model.verdict import DONE, Retry, Settlement
from mainspring.model.verdict import Failure as Why
from mainspring.model.views import Declaration
from mainspring.storage.postgres import PostgresStorage
from tests.integration.postgres.acting import TOPIC, Connection, blocked, claim, declare, draft, publish
from tests.services.pgbouncer import pgbouncer
from tests.services.postgres import private_server

SESSIONS = """
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'mainspring' ORDER BY pid
"""


@pytest.fixture
async def hasty(postgres_url: str, postgres_schema: str, storage: PostgresStorage) -> AsyncIterator[PostgresStorage]:
    """A storage that waits for a third of a second at the most."""
    hasty = PostgresStorage(postgres_url, schema=postgres_schema, timeout=timedelta(seconds=0.3))
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
        settled = await storage.mailbox.settle([Settlement(delivery.claim, DONE)])
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
    after = await connection.fetch(SESSIONS)

    assert len(before) == 1
    assert not set(before) & set(after)


async def test_a_query_without_an_answer_is_given_up_and_its_connection_ended(
    hasty: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await hasty.ping()
    async with connection.transaction():
        await connection.execute(f"LOCK TABLE {postgres_schema}.subscription")
        with pytest.raises(StorageUnavailable):
            await publish(hasty)
    await publish(hasty)


async def test_a_server_that_accepts_and_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        storage = PostgresStorage(f"postgresql://postgres@127.0.0.1:{port}/none", timeout=timedelta(seconds=0.2))

        with pytest.raises(StorageUnavailable):
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


async def test_nul_in_an_error_is_stored_spelled_out(storage: PostgresStorage) -> None:
    await declare(storage)
    await publish(storage)
    [delivery] = await claim(storage)
    failure = Why("error", "bad \x00 byte", "half \ud83d character")

    await storage.mailbox.settle([Settlement(delivery.claim, Retry(timedelta(), failure))])
    [run] = await storage.ledger.runs(None, None, 10)

    assert (run.error, run.traceback) == ("bad \\x00 byte", "half \\ud83d character")


async def test_a_server_that_was_killed_and_restarted_is_found_again(tmp_path: Path) -> None:
    with private_server(tmp_path) as server:
        storage = PostgresStorage(server.url, timeout=timedelta(seconds=5))
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
) -> None:
    with pgbouncer(tmp_path, postgres_url, mode) as url, caplog.at_level(logging.WARNING):  # type: ignore[arg-type]
        pooled = PostgresStorage(url, schema=postgres_schema)
        pooled.doorbell.listen(lambda _: None)
        assert await pooled.schema.migrate() == []
        await declare(pooled)
        for _ in range(10):
            await asyncio.gather(*(publish(pooled, 5) for _ in range(8)))
            deliveries = await claim(pooled)
            await pooled.mailbox.extend([each.claim for each in deliveries], timedelta(minutes=1))
            settled = await pooled.mailbox.settle([Settlement(each.claim, DONE) for each in deliveries])
            assert (len(deliveries), settled.lost, settled.gone) == (40, frozenset(), frozenset())
        await pooled.doorbell.arm(["mail"])
        bell = pooled.doorbell.mode
        await pooled.close()

    assert bell == "poll"
    assert [record.getMessage()[:34] for record in caplog.records] == ["PostgreSQL is behind a pooler that"]


async def test_a_password_is_in_no_error_and_no_log(postgres_url: str, caplog: pytest.LogCaptureFixture) -> None:
    away = PostgresStorage("postgresql://ann:canary%2Fsecret@127.0.0.1:1/shop", timeout=timedelta(seconds=1))
    away.doorbell.listen(lambda _: None)
    said: list[str] = []
    for operation in (away.ping(), away.mailbox.publish([draft()]), away.schema.migrate(), away.schema.version()):
        with pytest.raises(StorageUnavailable) as caught:
            await operation
        said.append(repr(caught.value) + repr(caught.value.__cause__))
    await asyncio.sleep(0)
    await away.close()

    assert "canary" not in " ".join(said) + caplog.text
