"""Uniqueness on PostgreSQL: who waits for whom, and what a snapshot from before may not decide."""

import asyncio

import asyncpg
import pytest

from mainspring.model.message import Draft, Receipt, UniqueKey
from mainspring.model.retention import Retention
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.gateway import SHARED_SETTINGS
from mainspring.storage.script import run_async
from tests.integration.postgres.acting import Connection, blocked, claim, declare, dial, draft
from tests.integration.postgres.plans import explain

ONE = UniqueKey(b"one")
LAST = UniqueKey(b"one", "pending", "last")


async def publish(
    storage: PostgresStorage, connection: Connection, likeness: UniqueKey = ONE, one: Draft | None = None
) -> Receipt:
    script = storage.enlisted().mailbox.publish_unique.script(one or draft(group="mail"), likeness)
    return await run_async(EnlistedAsyncpg(connection), script)


@pytest.mark.parametrize("commits", [True, False])
async def test_who_comes_second_waits_for_how_the_first_one_ends(
    storage: PostgresStorage, connection: Connection, commits: bool
) -> None:
    aside = await dial(storage)
    transaction = connection.transaction()
    await transaction.start()
    first = await publish(storage, connection)
    waiting = asyncio.create_task(storage.mailbox.publish_unique(draft(group="mail"), ONE))
    await blocked(aside)

    await (transaction.commit() if commits else transaction.rollback())
    second = await waiting

    await aside.close(timeout=5)
    assert first.status == "stored"
    if commits:
        assert second == Receipt(first.id, "duplicate")
    else:
        assert (second.status, second.id != first.id) == ("stored", True)
    assert len(await claim(storage)) == 1


async def test_a_call_sent_again_while_its_first_copy_is_being_committed_finds_it(
    storage: PostgresStorage, connection: Connection
) -> None:
    one, aside = draft(group="mail"), await dial(storage)
    transaction = connection.transaction()
    await transaction.start()
    await publish(storage, connection, LAST, one)
    again = asyncio.create_task(storage.mailbox.publish_unique(one, LAST))
    await blocked(aside)

    await transaction.commit()

    assert await again == Receipt(one.id, "stored")
    assert [each.message_id for each in await claim(storage)] == [one.id]
    await aside.close(timeout=5)


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_above_read_committed_the_commit_of_another_is_the_drivers_own_failure(
    storage: PostgresStorage, connection: Connection, isolation: str
) -> None:
    transaction = connection.transaction(isolation=isolation)  # type: ignore[arg-type]
    await transaction.start()
    await connection.fetch("SELECT 1 FROM pg_class LIMIT 1")  # from here on it has its snapshot
    await storage.mailbox.publish_unique(draft(group="mail"), ONE)

    with pytest.raises(asyncpg.SerializationError):
        await publish(storage, connection)

    await transaction.rollback()
    assert len(await claim(storage)) == 1


async def test_what_a_worker_has_just_taken_is_not_replaced(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    first = await storage.mailbox.publish_unique(draft(group="mail"), LAST)
    aside = await dial(storage)
    transaction = connection.transaction()
    await transaction.start()
    # As a claim that has not been committed yet.
    await connection.execute(
        f"UPDATE {postgres_schema}.delivery SET epoch = 1, attempt = 1, held_by = 'node' WHERE message_id = $1",
        first.id,
    )
    waiting = asyncio.create_task(storage.mailbox.publish_unique(draft(group="mail"), LAST))
    await blocked(aside)

    await transaction.commit()
    second = await waiting

    await aside.close(timeout=5)
    found = await storage.ledger.find(first.id)
    assert second.status == "stored"
    assert [each.message_id for each in await claim(storage)] == [second.id]
    assert found is not None
    assert [each.cancel_asked for each in found.deliveries] == [False]


async def test_what_is_on_its_way_to_its_groups_is_found_there(
    storage: PostgresStorage, connection: Connection
) -> None:
    first = await storage.mailbox.publish_unique(draft(), LAST)
    await declare(storage)
    aside = await dial(storage)
    transaction = connection.transaction()
    await transaction.start()
    await run_async(EnlistedAsyncpg(connection), storage.enlisted().upkeep.reroute.script(10))
    waiting = asyncio.create_task(storage.mailbox.publish_unique(draft(), LAST))
    await blocked(aside)

    await transaction.commit()
    second = await waiting

    await aside.close(timeout=5)
    assert second.status == "replaced"
    assert [each.message_id for each in await claim(storage)] == [second.id]
    assert first.id != second.id


async def test_pruning_passes_over_what_a_transaction_has_entered(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await storage.mailbox.publish_unique(draft(group="mail"), ONE)
    await connection.execute(
        f"DELETE FROM {postgres_schema}.delivery; UPDATE {postgres_schema}.likeness SET until = now() - interval '1 h'"
    )

    async with connection.transaction():
        second = await publish(storage, connection)
        pruned = await storage.upkeep.prune(Retention(), 10)

    assert pruned.likenesses == 0
    assert (await storage.mailbox.publish_unique(draft(group="mail"), ONE)) == Receipt(second.id, "duplicate")


@pytest.mark.no_schema
async def test_replacing_reads_what_it_needs_of_many_messages(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    statement = "unique_replace"
    await connection.execute(
        f"""
        INSERT INTO {postgres_schema}.delivery (message_id, group_name, priority, due_at, scheduled_for, published_at)
        SELECT md5(n::text)::uuid, 'mail', 2, now(), now(), now() FROM generate_series(1, 20000) AS n
        """
    )
    shared = await dial(storage, SHARED_SETTINGS)
    await shared.execute(f"PREPARE {statement} AS " + Names(postgres_schema).sql(statement))

    plan = await explain(shared, statement, "md5('7')::uuid, 'replaced', 'bell', NULL")

    await shared.close(timeout=5)
    assert plan.read_whole == set()
    assert plan.unbounded == []
    assert plan.buffers < 200
