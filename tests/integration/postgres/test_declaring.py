"""Routes and tables under concurrent starters and older snapshots."""

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from mainspring.model.errors import Conflict, SchemaMissing, SchemaTooNew, StorageError
from mainspring.model.views import Declaration
from mainspring.model.worker import DeclareResult
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg
from mainspring.storage.migrations import migrations
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import PACKAGE, Names
from mainspring.storage.script import run_async
from tests.integration.postgres.acting import TOPIC, Connection, blocked, claim, declare, draft


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_a_publisher_that_cannot_see_the_declaration_parks_and_the_janitor_routes(
    storage: PostgresStorage, connection: Connection, isolation: str
) -> None:
    message = draft()
    async with connection.transaction(isolation=isolation):  # type: ignore[arg-type]
        await connection.execute("SELECT count(*) FROM pg_class")  # takes the snapshot
        await declare(storage)
        await run_async(EnlistedAsyncpg(connection), storage.enlisted().mailbox.publish.script([message]))

    before = await claim(storage)
    routed = (await storage.upkeep.reroute(100)).routed
    after = await claim(storage)

    assert (before, routed) == ([], 1)
    assert [each.message_id for each in after] == [message.id]


async def test_arming_bells_and_beats_do_not_fail_a_serializable_publisher(
    storage: PostgresStorage, connection: Connection
) -> None:
    await declare(storage)
    async with connection.transaction(isolation="serializable"):
        await run_async(EnlistedAsyncpg(connection), storage.enlisted().mailbox.publish.script([draft()]))
        await declare(storage, "audit")
        await storage.doorbell.ring()
        await run_async(EnlistedAsyncpg(connection), storage.enlisted().mailbox.publish.script([draft()]))

    assert len(await claim(storage)) == 2


async def test_a_cancel_that_waited_for_the_janitor_finds_what_was_routed_meanwhile(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    message = draft()
    await storage.mailbox.publish([message])
    await declare(storage)
    transaction = connection.transaction()
    await transaction.start()
    routed = await connection.fetchval(Names(postgres_schema).sql("reroute"), 10, "channel", None, "", 10, 10)
    waiting = asyncio.create_task(storage.mailbox.cancel(message.id, "why"))
    await blocked(another)
    await transaction.commit()
    answer = await waiting

    assert (routed, answer.cancelled) == (1, 1)
    assert await claim(storage) == []


async def test_two_apps_that_declare_one_group_at_once_leave_one_owner(make: Callable[[], PostgresStorage]) -> None:
    one, other = make(), make()
    await one.schema.migrate()

    for round in range(10):
        group = f"group{round}"
        answers = await asyncio.gather(
            one.upkeep.declare([Declaration(group, "shop", (TOPIC,), "shop:mail")]),
            other.upkeep.declare([Declaration(group, "bank", (TOPIC,), "bank:mail")]),
            return_exceptions=True,
        )
        assert [type(each) for each in answers if not isinstance(each, DeclareResult)] == [Conflict]


async def test_an_older_version_that_has_read_before_a_newer_one_wrote_describes_nothing(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    older = Declaration("mail", "shop", (TOPIC,), "shop:old", {}, 1)
    newer = (["mail"], ["shop"], ["shop:new"], ["{}"], [2], None)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(Names(postgres_schema).sql("declare_groups"), *newer)
    waiting = asyncio.create_task(storage.upkeep.declare([older]))
    await blocked(another)
    await transaction.commit()
    await waiting

    [group] = (await storage.ledger.roster()).groups
    assert (group.handler, group.patterns) == ("shop:new", (TOPIC,))


async def test_many_starters_declare_the_same_groups_at_once(make: Callable[[], PostgresStorage]) -> None:
    storages = [make() for _ in range(6)]
    await storages[0].schema.migrate()
    groups = [Declaration(f"group{n}", "shop", ("orders.*", f"topic{n}"), "shop:mail") for n in range(20)]

    await asyncio.gather(*(each.upkeep.declare(groups if n % 2 else groups[::-1]) for n, each in enumerate(storages)))
    roster = await storages[0].ledger.roster()

    assert {each.name: each.patterns for each in roster.groups} == {
        f"group{n}": ("orders.*", f"topic{n}") for n in range(20)
    }


async def test_the_same_declaration_again_writes_nothing(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await declare(storage)
    written = f"SELECT array_agg(xmin::text || xmax::text) FROM {postgres_schema}.groups"
    before = await connection.fetchval(written)

    await declare(storage)

    assert await connection.fetchval(written) == before


@pytest.mark.no_schema
async def test_many_starters_migrate_at_once_and_one_of_them_does_it(make: Callable[[], PostgresStorage]) -> None:
    storages = [make() for _ in range(6)]

    applied = await asyncio.gather(*(each.schema.migrate() for each in storages))

    every = [each.name for each in migrations(PACKAGE)]
    assert sorted(applied) == [[], [], [], [], [], every]
    assert await storages[0].schema.version() == int(every[-1][:4]) > 1


@pytest.mark.no_schema
async def test_without_tables_every_operation_says_what_to_run(make: Callable[[], PostgresStorage]) -> None:
    storage = make()

    for operation in (storage.schema.check(), storage.mailbox.publish([draft()]), storage.ledger.tally()):
        with pytest.raises(SchemaMissing, match="mainspring migrate"):
            await operation
    assert await storage.schema.version() == 0


async def test_a_newer_schema_is_worked_with_unless_it_is_breaking(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    record = f"INSERT INTO {postgres_schema}.migration VALUES ($1, 'later', '', $2, now())"

    await connection.execute(record, 9998, False)
    await storage.schema.check()
    await connection.execute(record, 9999, True)

    with pytest.raises(SchemaTooNew):
        await storage.schema.check()


async def test_a_migration_that_was_changed_is_refused(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await connection.execute(f"UPDATE {postgres_schema}.migration SET checksum = 'other'")

    with pytest.raises(StorageError, match="other content"):
        await storage.schema.migrate()


@pytest.mark.no_schema
async def test_the_script_for_administrators_makes_the_same_schema(
    make: Callable[[], PostgresStorage], connection: Connection, postgres_schema: str
) -> None:
    await connection.execute(PostgresStorage.ddl(postgres_schema))
    storage = make()

    assert await storage.schema.migrate() == []
    await storage.schema.check()
    await declare(storage)


async def test_a_role_without_the_right_to_create_works_on_a_schema_that_is_there(
    storage: PostgresStorage, connection: Connection, postgres_url: str, postgres_schema: str
) -> None:
    role = f"role_{postgres_schema}"
    await connection.execute(
        f"""
        CREATE ROLE {role} LOGIN;
        GRANT USAGE ON SCHEMA {postgres_schema} TO {role};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {postgres_schema} TO {role};
        """
    )
    limited = PostgresStorage(postgres_url.replace("postgres@", f"{role}@"), schema=postgres_schema)
    try:
        assert await limited.schema.migrate() == []
        await declare(limited)
        await limited.mailbox.publish([draft()])
        assert len(await claim(limited)) == 1
        with pytest.raises(StorageError, match="permission denied"):
            await PostgresStorage(limited._dsn, schema="elsewhere").schema.migrate()
    finally:
        await limited.close()
        await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_people_read_payloads_that_are_text_and_are_not_stopped_by_those_that_are_not(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    for payload in (b'{"order": 7}', b"\xff\xfe\x00", b"plain", b'{"nul": "\\u0000"}'):
        await storage.mailbox.publish([draft(payload=payload)])

    rows = await connection.fetch(
        f"SELECT payload, json FROM {postgres_schema}.readable ORDER BY length(payload), payload"
    )

    assert {row["payload"]: row["json"] for row in rows} == {
        '{"order": 7}': '{"order": 7}',
        "\\377\\376\\000": None,
        "plain": None,
        '{"nul": "\\u0000"}': None,
    }


async def test_a_driver_error_never_crosses_the_door(storage: PostgresStorage) -> None:
    with pytest.raises(StorageError) as caught:
        await storage.mailbox.publish([draft(key="nul\x00")])

    assert isinstance(caught.value.__cause__, asyncpg.PostgresError)
