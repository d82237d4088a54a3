"""The bell: rung only for who sleeps, believed only while it is heard, back after every fall."""

import asyncio
from collections.abc import Callable

import pytest

from mainspring.model.errors import StorageUnavailable
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.script import run_async
from tests.integration.postgres.acting import DRIVERS, SESSIONS, Connection, declare, draft, publish, until

pytestmark = pytest.mark.parametrize("driver", DRIVERS)

LISTENING = """
    SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'mainspring' AND query LIKE '%pg_notify%'
"""


@pytest.fixture
async def rings(connection: Connection, postgres_schema: str) -> list[str]:
    """What any listener hears on the schema's channel."""
    heard: list[str] = []
    await connection.add_listener(f"mainspring_{postgres_schema}", lambda *said: heard.append(str(said[3])))
    return heard


async def listening(storage: PostgresStorage) -> list[str]:
    """Have the storage listen, and return what it hears once the bell has proven itself."""
    heard: list[str] = []
    storage.doorbell.listen(heard.append)
    await until(lambda: storage.doorbell.mode == "notify")
    heard.clear()
    return heard


async def settled(connection: Connection) -> None:
    """Everything committed before this has been heard on this connection."""
    await connection.execute("SELECT 1")
    await asyncio.sleep(0)


async def test_nobody_is_told_while_nobody_sleeps(
    storage: PostgresStorage, connection: Connection, rings: list[str]
) -> None:
    await declare(storage)

    for _ in range(10):
        await publish(storage)
    await settled(connection)

    assert rings == []


async def test_a_worker_that_wakes_does_not_silence_the_bell_of_one_that_sleeps(
    storage: PostgresStorage, make: Callable[[], PostgresStorage], connection: Connection, rings: list[str]
) -> None:
    await declare(storage, "mail")
    awake, asleep = make(), make()
    await listening(awake)
    heard = await listening(asleep)
    await awake.doorbell.arm(["mail"])
    await asleep.doorbell.arm(["mail"])

    await awake.doorbell.disarm(["mail"])
    await publish(storage)
    await until(lambda: bool(heard))
    await asleep.doorbell.disarm(["mail"])
    await publish(storage)
    await settled(connection)

    assert (heard, rings) == (["mail"], ["mail"])


async def test_one_notification_per_armed_group_and_transaction(
    storage: PostgresStorage, make: Callable[[], PostgresStorage], connection: Connection, rings: list[str]
) -> None:
    await declare(storage, "mail")
    await declare(storage, "audit")
    worker = make()
    heard = await listening(worker)

    await worker.doorbell.arm(["mail"])
    await publish(storage, 100)
    await until(lambda: bool(heard))
    await worker.doorbell.disarm(["mail"])
    await publish(storage, 100)
    await settled(connection)

    assert (heard, rings) == (["mail"], ["mail"])


async def test_a_bell_in_a_callers_transaction_rings_at_its_commit(
    storage: PostgresStorage, make: Callable[[], PostgresStorage], another: Connection
) -> None:
    await declare(storage)
    worker = make()
    heard = await listening(worker)
    await worker.doorbell.arm(["mail"])

    async with another.transaction():
        await run_async(EnlistedAsyncpg(another), storage.enlisted().mailbox.publish.script([draft()]))
        before = list(heard)
    await until(lambda: bool(heard))

    assert (before, heard) == ([], ["mail"])


async def test_rerouting_reviving_and_resuming_wake_who_sleeps(
    storage: PostgresStorage, make: Callable[[], PostgresStorage]
) -> None:
    await publish(storage)
    await declare(storage)
    worker = make()
    heard = await listening(worker)
    await worker.doorbell.arm(["mail"])

    await storage.upkeep.reroute(10)
    await until(lambda: heard == ["mail"])
    await storage.controls.resume("mail", "ann")
    await until(lambda: heard == ["mail", "mail"])


async def test_everyone_is_woken_by_a_ring_for_all(
    storage: PostgresStorage, make: Callable[[], PostgresStorage]
) -> None:
    workers = [make(), make()]
    heard = [await listening(each) for each in workers]

    await storage.doorbell.ring()
    await until(lambda: heard == [[""], [""]])


async def test_who_only_publishes_holds_no_connection_for_a_bell(
    storage: PostgresStorage, connection: Connection
) -> None:
    before = {pid for (pid,) in await connection.fetch(SESSIONS)}  # sessions of an earlier test may be ending

    await publish(storage)

    assert storage.doorbell.mode == "poll"
    assert len({pid for (pid,) in await connection.fetch(SESSIONS)} - before) == 1


async def test_a_bell_that_nobody_would_hear_is_not_armed(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await storage.doorbell.arm(["mail"])

    assert await connection.fetchval(f"SELECT count(*) FROM {postgres_schema}.bell") == 0


async def test_a_lost_bell_polls_comes_back_and_says_that_something_may_have_been_missed(
    storage: PostgresStorage, connection: Connection
) -> None:
    heard = await listening(storage)

    ended = await connection.fetch(f"SELECT pg_terminate_backend(pid) FROM ({LISTENING}) AS bells")
    await until(lambda: storage.doorbell.mode == "poll")
    await until(lambda: storage.doorbell.mode == "notify")

    assert len(ended) == 1
    assert heard == [""]


async def test_closing_ends_the_bell_and_everything_else(storage: PostgresStorage, connection: Connection) -> None:
    await listening(storage)

    await storage.close()
    await storage.close()

    async with asyncio.timeout(60):
        while await connection.fetch(SESSIONS):
            await asyncio.sleep(0.01)
    assert storage.doorbell.mode == "poll"
    with pytest.raises(StorageUnavailable, match="closed"):
        await storage.ping()
