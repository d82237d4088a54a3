"""Publishing from triggers and other people's transactions: all of it happens, or nothing of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

import psycopg
import pytest

from mainspring import Context, Mainspring
from mainspring.storage.postgres import PostgresStorage
from tests.integration.app.shop import Seen
from tests.integration.postgres.acting import TOPIC, claim, declare
from tests.integration.postgres.publishing import Client, call, count, stored
from tests.services.pgbouncer import pgbouncer

TRIGGER = """
    CREATE TABLE "{schema}".orders (id bigint PRIMARY KEY, total numeric);
    CREATE FUNCTION "{schema}".on_order() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM "{schema}".publish('orders.placed', {payload}, key => {key});
        RETURN NEW;
    END
    $$;
    CREATE TRIGGER tell {when} ON "{schema}".orders {rows} EXECUTE FUNCTION "{schema}".on_order();
"""

REPEATED = uuid5(NAMESPACE_URL, "an order that is sent again")


@pytest.fixture
def client(postgres_url: str) -> Iterator[Client]:
    with psycopg.connect(postgres_url, autocommit=True) as client:
        yield client


def install(
    client: Client,
    schema: str,
    when: str = "AFTER INSERT",
    rows: str = "FOR EACH ROW",
    payload: str = "to_jsonb(NEW)",
    key: str = "'order:' || NEW.id",
) -> None:
    script = TRIGGER.format(schema=schema, when=when, rows=rows, payload=payload, key=key)
    client.execute(script.encode())


def place(client: Client, schema: str, *numbers: int) -> None:
    with client.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {schema}.orders VALUES (%s, 9.5)".encode(), [(each,) for each in numbers])


async def test_a_trigger_publishes_and_a_python_worker_handles_it(
    client: Client, postgres_url: str, postgres_schema: str
) -> None:
    app, seen = Mainspring(postgres_url, schema=postgres_schema), Seen[tuple[Any, ...]]()
    await app.migrate()
    install(client, postgres_schema)

    @app.consumer(TOPIC)
    async def receipt(order: dict[str, Any], ctx: Context) -> None:
        seen.add((order, ctx.topic, ctx.key, ctx.attempt))

    async with app.worker():
        place(client, postgres_schema, 1)
        with client.transaction(force_rollback=True):
            place(client, postgres_schema, 2)
        place(client, postgres_schema, 3)
        handled = await seen.count(2)

    assert sorted(handled, key=lambda each: each[0]["id"]) == [
        ({"id": 1, "total": 9.5}, TOPIC, "order:1", 1),
        ({"id": 3, "total": 9.5}, TOPIC, "order:3", 1),
    ]


@pytest.mark.parametrize("when", ["BEFORE INSERT", "AFTER INSERT"])
async def test_a_row_trigger_publishes_once_for_every_row(
    storage: PostgresStorage, client: Client, postgres_schema: str, when: str
) -> None:
    await declare(storage)
    install(client, postgres_schema, when)

    client.execute(f"INSERT INTO {postgres_schema}.orders SELECT n, n FROM generate_series(1, 500) AS n".encode())

    claimed = await claim(storage)
    assert [each.key for each in claimed] == [f"order:{number}" for number in range(1, 501)]
    assert len({each.message_id for each in claimed}) == 500


async def test_a_statement_trigger_publishes_once_for_all_rows(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    await declare(storage)
    install(
        client,
        postgres_schema,
        rows="REFERENCING NEW TABLE AS placed FOR EACH STATEMENT",
        payload="(SELECT json_agg(placed.id ORDER BY placed.id) FROM placed)",
        key="TG_TABLE_NAME",
    )

    client.execute(f"INSERT INTO {postgres_schema}.orders SELECT n, n FROM generate_series(1, 3) AS n".encode())

    assert [(each.payload, each.key) for each in await claim(storage)] == [(b"[1, 2, 3]", "orders")]


async def test_a_refused_message_undoes_the_statement_that_triggered_it(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    install(client, postgres_schema, key="repeat('k', 201)")

    with pytest.raises(psycopg.errors.InvalidParameterValue, match="key must be 1 to 200 characters"):
        place(client, postgres_schema, 1)

    assert client.execute(f"SELECT count(*) FROM {postgres_schema}.orders".encode()).fetchone() == (0,)
    assert count(client, postgres_schema) == 0


async def test_what_a_savepoint_undoes_never_happened_and_the_rest_did(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    await declare(storage)

    with client.transaction():
        call(client, postgres_schema, TOPIC, "1")
        with client.transaction(force_rollback=True):
            call(client, postgres_schema, TOPIC, "2")
        before = await claim(storage)
    after = await claim(storage)

    assert (before, [each.payload for each in after]) == ([], [b"1"])


async def test_a_transaction_tried_again_after_a_lost_reply_publishes_once(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    identity = uuid5(NAMESPACE_URL, "order:42")
    await declare(storage)

    for _ in range(3):
        with client.transaction():
            call(client, postgres_schema, TOPIC, "1", message_id=identity)

    assert [each.message_id for each in await claim(storage)] == [identity]


async def test_serializable_publishers_fail_neither_each_other_nor_for_what_workers_do(
    storage: PostgresStorage, client: Client, postgres_url: str, postgres_schema: str
) -> None:
    await declare(storage)
    with psycopg.connect(postgres_url) as one, psycopg.connect(postgres_url) as other:
        for each in (one, other):
            each.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
            call(each, postgres_schema, TOPIC, "1")
        await declare(storage, "audit")
        await storage.doorbell.arm(["mail"])
        for each in (one, other):
            call(each, postgres_schema, TOPIC, "2")
            each.commit()

    assert len(await claim(storage)) == 4


@pytest.mark.parametrize("other", ["POSIX", "ucs_basic"])
async def test_columns_of_any_collation_may_be_published(
    storage: PostgresStorage, client: Client, postgres_schema: str, other: str
) -> None:
    await declare(storage)
    client.execute(
        f"""
        CREATE TABLE {postgres_schema}.words (topic text COLLATE "POSIX", key text COLLATE "{other}", payload text);
        INSERT INTO {postgres_schema}.words VALUES ('orders.placed', 'k', '1'), ('Orders.placed', 'k', '2');
        SELECT {postgres_schema}.publish(topic, payload, key => key, correlation_id => key) FROM {postgres_schema}.words
        """.encode()
    )

    assert [(each.payload, each.key) for each in await claim(storage)] == [(b"1", "k")]


async def test_nobodys_search_path_changes_what_is_called(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    await declare(storage)
    client.execute(
        f"""
        CREATE SCHEMA {postgres_schema}_trap;
        CREATE FUNCTION {postgres_schema}_trap.octet_length(bytea) RETURNS integer LANGUAGE sql AS 'SELECT 1 / 0';
        CREATE FUNCTION {postgres_schema}_trap.coalesce_texts(text, text) RETURNS text LANGUAGE sql AS 'SELECT ''x''';
        CREATE OPERATOR {postgres_schema}_trap.|| (
            LEFTARG = text, RIGHTARG = text, FUNCTION = {postgres_schema}_trap.coalesce_texts
        );
        CREATE TEMPORARY TABLE subscription (pattern text);
        SET search_path = {postgres_schema}_trap, pg_catalog
        """.encode()
    )
    try:
        call(client, postgres_schema, TOPIC, "1")
    finally:
        client.execute(f"DROP SCHEMA {postgres_schema}_trap CASCADE".encode())

    assert [each.topic for each in await claim(storage)] == [TOPIC]


async def test_old_string_escapes_change_nothing(
    storage: PostgresStorage, client: Client, postgres_schema: str
) -> None:
    client.execute(b"SET standard_conforming_strings = off; SET escape_string_warning = off")

    with pytest.raises(psycopg.errors.InvalidParameterValue, match="white space"):
        call(client, postgres_schema, "orders\u3000placed", "1")
    call(client, postgres_schema, TOPIC, "[" + '"\\\\[\\"",' * 200 + "1]")

    assert count(client, postgres_schema) == 2


async def test_a_role_that_may_only_publish_publishes_and_reads_nothing(
    storage: PostgresStorage, client: Client, postgres_url: str, postgres_schema: str
) -> None:
    role = f"role_{postgres_schema}"
    await declare(storage)
    client.execute(
        f"""
        CREATE ROLE {role} LOGIN;
        GRANT USAGE ON SCHEMA {postgres_schema} TO {role};
        SET search_path = {postgres_schema};
        GRANT SELECT ON subscription, bell, setting TO {role};
        GRANT INSERT, SELECT (id, published_at, copies) ON message TO {role};
        GRANT INSERT, SELECT (group_name) ON delivery TO {role};
        GRANT INSERT ON parked TO {role}
        """.encode()
    )
    try:
        with psycopg.connect(postgres_url.replace("postgres@", f"{role}@"), autocommit=True) as limited:
            for topic in (TOPIC, "nobody.cares"):
                call(limited, postgres_schema, topic, "1")
            with limited.transaction():
                ids = [call(limited, postgres_schema, TOPIC, "2", message_id=REPEATED) for _ in range(2)]
                ids.append(call(limited, postgres_schema, "other.topic", "3", message_id=REPEATED))
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                stored(limited, postgres_schema)
    finally:
        client.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())

    assert ids == [REPEATED] * 3
    assert len(await claim(storage)) == 2


async def test_a_database_that_is_not_utf8_hands_out_utf8(postgres_url: str) -> None:
    name = f"latin_{uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(
            f"CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0".encode()
        )
        try:
            with psycopg.connect(postgres_url, dbname=name, client_encoding="utf8") as latin:
                latin.execute(PostgresStorage.ddl("mainspring").encode())
                call(latin, "mainspring", "bestellung.größe", '"größe"', headers={"maß": "größe"})
                with pytest.raises(psycopg.errors.InvalidParameterValue, match="white space"), latin.transaction():
                    call(latin, "mainspring", "bestellung\u00a0größe", "1")
                [row] = stored(latin, "mainspring")["message"]
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    assert (row["topic"], row["payload"]) == ("bestellung.größe", '"größe"'.encode())
    assert row["headers"] == '{"maß":"größe"}'


async def test_it_needs_no_session_of_its_own(
    storage: PostgresStorage, tmp_path: Path, postgres_url: str, postgres_schema: str
) -> None:
    await declare(storage)

    with pgbouncer(tmp_path, postgres_url) as pooled, psycopg.connect(pooled, prepare_threshold=None) as client:
        for _ in range(20):
            call(client, postgres_schema, TOPIC, "1")
            client.commit()

    assert len(await claim(storage)) == 20
