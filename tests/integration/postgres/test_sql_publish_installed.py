"""What the migration installs: one setting, functions in a schema of any name, beside what was there."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import psycopg
import pytest

from mainspring.storage.migrations import migrations
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import PACKAGE, Names
from tests.integration.postgres.acting import TOPIC, claim, declare
from tests.integration.postgres.publishing import Client, call, count, stored

PUBLISHED_THEN = """
    WITH stored AS (
        INSERT INTO mainspring.message (id, published_at, copies, topic, content_type, payload)
        VALUES (%s, now(), 1, %s, 'application/json', '1')
    )
    INSERT INTO mainspring.delivery (due_at, scheduled_for, published_at, message_id, priority, group_name)
    VALUES (now(), now(), now(), %s, 2, 'mail')
"""


@pytest.fixture
def client(postgres_url: str) -> Iterator[Client]:
    with psycopg.connect(postgres_url, autocommit=True) as client:
        yield client


async def test_the_limit_of_payloads_is_a_setting(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    client.execute(f"UPDATE {postgres_schema}.setting SET payload_limit = 10".encode())

    call(client, postgres_schema, TOPIC, '"12345678"')
    call(client, postgres_schema, TOPIC, b"1234567890")
    with pytest.raises(psycopg.errors.ProgramLimitExceeded, match="is 11 bytes, over the limit of 10"):
        call(client, postgres_schema, TOPIC, '"1234567é"')

    assert len(stored(client, postgres_schema)["message"]) == 2


@pytest.mark.parametrize(
    "statement", ["INSERT INTO {}.setting DEFAULT VALUES", "UPDATE {}.setting SET payload_limit = 0"]
)
async def test_there_is_one_setting_and_it_is_sound(
    storage: PostgresStorage, client: Client, postgres_schema: str, statement: str
) -> None:
    with pytest.raises(psycopg.errors.IntegrityError):
        client.execute(statement.format(postgres_schema).encode())


async def test_without_a_setting_the_default_holds(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    client.execute(f"DELETE FROM {postgres_schema}.setting".encode())

    call(client, postgres_schema, TOPIC, b"x" * 262_144)
    with pytest.raises(psycopg.errors.ProgramLimitExceeded):
        call(client, postgres_schema, TOPIC, b"x" * 262_145)

    assert count(client, postgres_schema) == 2


@pytest.mark.no_schema
async def test_a_schema_of_the_first_release_gains_the_functions_and_keeps_its_messages(
    make: Callable[[], PostgresStorage], client: Client, postgres_schema: str
) -> None:
    names, first = Names(postgres_schema), migrations(PACKAGE)[0]
    client.execute(f"CREATE SCHEMA {names.quoted}; {names.sql('schema_table')}; {first.sql(names.quoted)}".encode())
    record = names.sql("schema_record").encode()
    psycopg.RawCursor(client).execute(record, (first.number, first.name, first.checksum, first.breaking))
    storage = make()
    # As the first release did: what this one declares and publishes needs tables that are not there yet.
    client.execute(f"INSERT INTO {names.quoted}.subscription VALUES (%s, 'mail', false, '')".encode(), (TOPIC,))
    published_then = PUBLISHED_THEN.replace("mainspring.", f"{names.quoted}.").encode()
    old = [uuid4(), uuid4()]
    for message_id in old:
        client.execute(published_then, (message_id, TOPIC, message_id))

    applied = await storage.schema.migrate()
    new = call(client, postgres_schema, TOPIC, "1")

    assert applied[0] == "0002_publish_one"
    assert [each.message_id for each in await claim(storage)] == [*old, new]


@pytest.mark.parametrize("schema", ["select", "a_mainspring", "mainspring_2"])
async def test_any_name_of_a_schema_serves(client: Client, schema: str, postgres_url: str) -> None:
    client.execute(PostgresStorage.ddl(schema).encode())
    storage = PostgresStorage(postgres_url, schema=schema)
    try:
        await declare(storage)
        client.execute(f"INSERT INTO \"{schema}\".bell VALUES (now() + interval '1 hour', 'mail', 'ear')".encode())
        client.execute(f'LISTEN "mainspring_{schema}"'.encode())

        made = call(client, schema, TOPIC, "1")

        assert [each.message_id for each in await claim(storage)] == [made]
        assert [each.payload for each in client.notifies(timeout=60, stop_after=1)] == ["mail"]
        with pytest.raises(psycopg.errors.ProgramLimitExceeded, match=f'UPDATE "{schema}".setting'):
            call(client, schema, TOPIC, b"x" * 300_000)
    finally:
        await storage.close()
        client.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())
