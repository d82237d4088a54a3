"""The inbox within transactions of callers: who comes second waits for the first's end, and is told the truth."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest

from mainspring import Admission, Mainspring
from mainspring.model.errors import StorageUnavailable
from mainspring.model.inbox import InboxFilter, InboxKey
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.gateway import SHARED_SETTINGS
from mainspring.storage.script import run_async
from tests.integration.postgres.acting import Connection, blocked, dial
from tests.integration.postgres.plans import Plan, explain

KEY = InboxKey("shop", "stripe", "evt_1")
CALLERS = 40


@pytest.fixture
def app(storage: PostgresStorage, postgres_url: str, postgres_schema: str) -> Mainspring:
    return Mainspring(postgres_url, name="shop", schema=postgres_schema)


@pytest.fixture
async def watcher(postgres_url: str) -> AsyncIterator[Connection]:
    """A client that is in no transaction: within one, what others do is seen as it first was."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close(timeout=5)


async def admit(storage: PostgresStorage, tx: Connection) -> Admission:
    """As a transactional consumer does: the script itself, on whatever gateway."""
    return await run_async(EnlistedAsyncpg(tx), storage.enlisted().inbox.admit.script(KEY, None, "done", None))


async def test_who_comes_second_waits_for_a_commit_and_is_not_let_in(
    storage: PostgresStorage, connection: Connection, another: Connection, watcher: Connection
) -> None:
    async with another.transaction():
        transaction = connection.transaction()
        await transaction.start()
        assert await admit(storage, connection)
        inside = asyncio.ensure_future(admit(storage, another))
        alone = asyncio.ensure_future(storage.inbox.admit(KEY, None, "processing", None))
        await blocked(watcher, 2)
        await transaction.commit()

        assert [(bool(each), each.status, each.attempts) for each in (await inside, await alone)] == [
            (False, "done", 1),
            (False, "done", 1),
        ]


async def test_who_comes_second_waits_for_a_rollback_and_is_let_in(
    storage: PostgresStorage, connection: Connection, another: Connection, watcher: Connection
) -> None:
    transaction = connection.transaction()
    await transaction.start()
    assert await admit(storage, connection)
    async with another.transaction():
        second = asyncio.ensure_future(admit(storage, another))
        await blocked(watcher)
        await transaction.rollback()
        answer = await second

    assert (bool(answer), answer.status, answer.attempts) == (True, "done", 1)
    assert len(await storage.inbox.browse(InboxFilter())) == 1


async def test_who_fails_in_a_transaction_lets_in_whoever_waits_for_its_end(
    storage: PostgresStorage, connection: Connection, watcher: Connection
) -> None:
    first = await storage.inbox.admit(KEY, None, "processing", None)
    transaction = connection.transaction()
    await transaction.start()
    marking = storage.enlisted().inbox.mark.script(KEY, first.attempts, "seen", "x", first.admitted_at)
    await run_async(EnlistedAsyncpg(connection), marking)
    second = asyncio.ensure_future(storage.inbox.admit(KEY, None, "processing", None))
    await blocked(watcher)
    await transaction.commit()

    assert ((await second).admitted, (await second).attempts) == (True, 2)


async def test_duplicates_in_two_transactions_do_not_wait_for_each_other_nor_write(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    await storage.inbox.admit(KEY, b"hash", "done", None)
    place = f"SELECT ctid::text, xmin::text, xmax::text FROM {postgres_schema}.inbox"
    before = await connection.fetch(place)

    async with connection.transaction(), another.transaction():
        assert not await admit(storage, connection)
        assert not await admit(storage, another)

    assert await connection.fetch(place) == before


async def test_of_forty_transactions_at_once_one_effect_is_left_though_every_other_rolls_back(
    storage: PostgresStorage, postgres_url: str
) -> None:
    effects: list[int] = []
    begun = asyncio.Barrier(CALLERS)

    async def call(number: int) -> Admission:
        tx = await asyncpg.connect(postgres_url)
        try:
            transaction = tx.transaction()
            await transaction.start()
            await begun.wait()
            admission = await admit(storage, tx)
            if admission and number % 2:
                await transaction.rollback()
            else:
                await transaction.commit()
                effects.extend([number] * bool(admission))
            return admission
        finally:
            await tx.close()

    answers = await asyncio.gather(*map(call, range(CALLERS)))

    assert len(effects) == 1
    assert sum(map(bool, answers)) >= 1
    assert {each.attempts for each in answers} == {1}


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_above_read_committed_the_drivers_own_failure_says_to_try_again(
    app: Mainspring, connection: Connection, another: Connection, isolation: Any
) -> None:
    async def attempt() -> Admission:
        async with another.transaction(isolation=isolation):
            await another.fetchval("SELECT 1")  # the snapshot is taken here
            if not others:
                async with connection.transaction():
                    others.append(await app.inbox.admit("evt_1", "stripe", tx=connection))
            return await app.inbox.admit("evt_1", "stripe", tx=another)

    others: list[Admission] = []
    with pytest.raises(asyncpg.SerializationError):
        await attempt()

    assert [bool(each) for each in others] == [True]
    assert not await attempt()


async def test_psycopg_says_it_in_its_own_words_too(app: Mainspring, connection: Connection, postgres_url: str) -> None:
    def play() -> None:
        with psycopg.connect(postgres_url) as tx:
            tx.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            tx.execute("SELECT 1")
            with psycopg.connect(postgres_url) as faster:
                assert app.sync.inbox.admit("evt_1", "stripe", tx=faster)
            app.sync.inbox.admit("evt_1", "stripe", tx=tx)

    with pytest.raises(psycopg.errors.SerializationFailure):
        await asyncio.to_thread(play)


async def test_one_that_waits_too_long_is_told_to_try_again(
    storage: PostgresStorage, connection: Connection, postgres_url: str, postgres_schema: str
) -> None:
    impatient = PostgresStorage(postgres_url, schema=postgres_schema, timeout=timedelta(seconds=0.5))
    async with connection.transaction():
        assert await admit(storage, connection)

        with pytest.raises(StorageUnavailable):
            await impatient.inbox.admit(KEY, None, "processing", None)

    await impatient.close()


NONE = ", NULL"
FILL = """
INSERT INTO {0}.inbox (first_seen_at, changed_at, attempts, status, message_id, source, group_name)
SELECT now(), now() - n * interval '1 second', 1, CASE WHEN n % 100 = 0 THEN 'processing' ELSE 'done' END,
    'evt_' || n, 'stripe', 'shop'
FROM generate_series(1, 50000) AS n
"""


STATEMENTS = [
    ("inbox_browse", f"NULL, NULL, NULL, NULL, NULL, 50{NONE * 4}", {"inbox_processing", "inbox_over"}),
    ("inbox_browse", f"NULL, NULL, NULL, interval '13 hours', NULL, 50{NONE * 4}", {"inbox_processing"}),
    ("inbox_find", f"NULL, NULL, NULL, NULL, NULL, 50{NONE * 4}, 'evt_7'", {"inbox_pkey"}),
    ("inbox_mark", "'shop', 'stripe', 'evt_100', 1, 'done', NULL, NULL, NULL", {"inbox_pkey"}),
    ("prune_inbox", "interval '13 hours', 50, NULL", {"inbox_over", "inbox_pkey"}),
]


@pytest.mark.no_schema
async def test_every_statement_costs_what_it_takes_not_what_lies_around(
    storage: PostgresStorage, postgres_schema: str
) -> None:
    shared = await dial(storage, SHARED_SETTINGS)
    costly: list[tuple[str, str, Plan]] = []
    try:
        await shared.execute(FILL.format(postgres_schema))
        await shared.execute(f"ANALYZE {postgres_schema}.inbox")
        await shared.execute("SET plan_cache_mode = force_generic_plan")
        for statement, arguments, indexes in STATEMENTS:
            await shared.execute(f"PREPARE asked AS {Names(postgres_schema).sql(statement)}")
            plan = await explain(shared, "asked", arguments)
            await shared.execute("DEALLOCATE asked")
            if plan.read_whole or plan.indexes != indexes or plan.buffers >= 1500:
                costly.append((statement, arguments, plan))
    finally:
        await shared.close(timeout=5)

    assert costly == []
