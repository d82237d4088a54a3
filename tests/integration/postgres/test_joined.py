"""Publishing and settling in a caller's own asyncpg transaction."""

import asyncio
import threading

import asyncpg
import pytest

from mainspring.model.errors import BadHandle, SchemaMissing
from mainspring.model.verdict import DONE, Settlement
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg, refuse_autocommit
from mainspring.storage.operation import HandSet, Nowhere
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.script import run_async
from tests.integration.postgres.acting import HOLD, Connection, claim, declare, draft, publish


async def join(storage: PostgresStorage, connection: Connection) -> None:
    refuse_autocommit(connection)
    await run_async(EnlistedAsyncpg(connection), storage.enlisted().mailbox.publish.script([draft()]))


async def test_what_is_committed_is_delivered(storage: PostgresStorage, connection: Connection) -> None:
    await declare(storage)

    async with connection.transaction():
        await join(storage, connection)
        before = await claim(storage)
    after = await claim(storage)

    assert (len(before), len(after)) == (0, 1)


async def test_what_is_rolled_back_never_happened(storage: PostgresStorage, connection: Connection) -> None:
    await declare(storage)

    transaction = connection.transaction()
    await transaction.start()
    await join(storage, connection)
    await transaction.rollback()

    assert await claim(storage) == []


async def test_what_a_savepoint_undoes_never_happened_and_the_rest_did(
    storage: PostgresStorage, connection: Connection
) -> None:
    await declare(storage)

    async with connection.transaction():
        await join(storage, connection)
        savepoint = connection.transaction()
        await savepoint.start()
        await join(storage, connection)
        await savepoint.rollback()

    assert len(await claim(storage)) == 1


async def test_a_settle_is_written_with_the_callers_own_rows_or_not_at_all(
    storage: PostgresStorage, connection: Connection
) -> None:
    await declare(storage)
    await publish(storage)
    [delivery] = await claim(storage)
    settle = storage.enlisted().mailbox.settle.script

    transaction = connection.transaction()
    await transaction.start()
    await run_async(EnlistedAsyncpg(connection), settle([Settlement(delivery.claim, DONE)], "node"))
    await transaction.rollback()
    undone = (await storage.ledger.tally()).groups[0].running
    async with connection.transaction():
        await run_async(EnlistedAsyncpg(connection), settle([Settlement(delivery.claim, DONE)], "node"))

    assert (undone, (await storage.ledger.tally()).groups[0].running) == (1, 0)


async def test_a_pools_connection_is_accepted(storage: PostgresStorage, postgres_url: str) -> None:
    await declare(storage)

    async with asyncpg.create_pool(postgres_url, min_size=1, max_size=1) as pool:
        async with pool.acquire() as connection, connection.transaction():
            await join(storage, connection)  # type: ignore[arg-type]
        with pytest.raises(BadHandle, match="back in its pool"):
            refuse_autocommit(connection)

    assert len(await claim(storage)) == 1


async def test_a_connection_that_would_commit_by_itself_is_refused(connection: Connection) -> None:
    with pytest.raises(BadHandle, match=r"connection\.transaction"):
        refuse_autocommit(connection)


async def test_a_closed_connection_is_refused(connection: Connection) -> None:
    await connection.close()

    with pytest.raises(BadHandle, match="closed"):
        refuse_autocommit(connection)


async def test_a_connection_of_another_loop_is_refused(connection: Connection) -> None:
    refused: list[BadHandle] = []

    async def elsewhere() -> None:
        try:
            refuse_autocommit(connection)
        except BadHandle as error:
            refused.append(error)

    async with connection.transaction():
        thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
        thread.start()
        await asyncio.to_thread(thread.join)

    assert "another event loop" in str(refused[0])


async def test_missing_tables_are_said_in_our_words(connection: Connection) -> None:
    scripts = PostgresMailbox(Names("not_there"), Nowhere(), HandSet())

    with pytest.raises(SchemaMissing):
        async with connection.transaction():
            await run_async(EnlistedAsyncpg(connection), scripts.publish.script([draft()]))


async def test_a_serialization_failure_is_the_drivers_own(storage: PostgresStorage, connection: Connection) -> None:
    await declare(storage)
    await publish(storage)
    [delivery] = await claim(storage)

    transaction = connection.transaction(isolation="repeatable_read")
    await transaction.start()
    await connection.execute("SELECT count(*) FROM pg_class")  # takes the snapshot
    await storage.mailbox.extend([delivery.claim], "node", HOLD)
    settle = storage.enlisted().mailbox.settle.script([Settlement(delivery.claim, DONE)], "node")

    with pytest.raises(asyncpg.SerializationError):
        await run_async(EnlistedAsyncpg(connection), settle)
    await transaction.rollback()
