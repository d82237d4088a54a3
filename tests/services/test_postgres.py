"""The test servers keep what their docstrings promise."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import psycopg
import pytest

from tests.services.introspection import ask
from tests.services.pgbouncer import pgbouncer
from tests.services.postgres import private_server
from tests.services.schemas import SHAPE, Schemas

_INTEGERS = 1007  # the type int4[]


def test_a_worker_has_a_database_of_its_own(postgres_url: str, worker_id: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        row = connection.execute("SELECT current_database()").fetchone()

    assert row is not None
    assert row[0].startswith(f"mainspring_{worker_id}_")


@pytest.mark.no_schema
def test_a_schema_name_is_free_to_use(postgres_url: str, postgres_schema: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"CREATE SCHEMA {postgres_schema}")
        connection.execute(f"CREATE TABLE {postgres_schema}.thing (id int)")


def test_a_schema_is_handed_on_as_new_unless_a_test_has_changed_more_than_its_rows(
    postgres_url: str, postgres_schemas: Schemas
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        first = postgres_schemas.take()
        connection.execute(f"SELECT {first}.publish('orders.placed', '{{}}'), nextval('{first}.lease_epoch')".encode())
        connection.execute(f'CREATE SCHEMA "{first}-staging"'.encode())
        postgres_schemas.give_back(first)
        again = postgres_schemas.take()
        assert connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (f"{first}-staging",)).rowcount == 0
        rows = connection.execute(f"SELECT count(*), nextval('{first}.lease_epoch') FROM {first}.parked".encode())
        assert (again, rows.fetchall()) == (first, [(0, 1)])

        connection.execute(f"ALTER TABLE {first}.parked SET (fillfactor = 50)".encode())
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        postgres_schemas.give_back(first)
        other = postgres_schemas.take()
        assert other != first
        assert connection.execute("SELECT FROM pg_namespace WHERE nspname = %s", (first,)).rowcount == 0
        postgres_schemas.give_back(other)


def test_any_change_of_a_schema_but_of_its_rows_is_noticed(postgres_url: str, postgres_schema: str) -> None:
    changes = (
        "ALTER TABLE {}.parked ADD COLUMN more int",
        "ALTER TABLE {}.parked ALTER topic DROP NOT NULL",
        "ALTER TABLE {}.parked ADD CHECK (seq > 0)",
        "CREATE INDEX more ON {}.parked (seq)",
        "DROP INDEX {}.more",
        "CREATE FUNCTION {}.more() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER more BEFORE INSERT ON {}.parked FOR EACH ROW EXECUTE FUNCTION {}.more()",
        "ALTER TABLE {}.parked DISABLE TRIGGER more",
        "DROP FUNCTION {}.more() CASCADE",
        "GRANT SELECT ON {}.parked TO PUBLIC",
        "GRANT USAGE ON SCHEMA {} TO PUBLIC",
    )
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def shape() -> object:
            return connection.execute(SHAPE.encode(), (postgres_schema,)).fetchone()

        seen = [shape()]
        connection.execute(f"INSERT INTO {postgres_schema}.counter VALUES ('orders', 1)".encode())
        assert shape() == seen[0]
        for change in changes:
            connection.execute(change.replace("{}", postgres_schema).encode())
            seen.append(shape())

    assert [change for change, (before, after) in zip(changes, pairwise(seen), strict=True) if before == after] == []


async def test_what_asyncpg_remembers_of_types_is_what_a_server_says(postgres_url: str, postgres_schema: str) -> None:
    connection: Any = await asyncpg.connect(postgres_url)
    assert await connection.fetchval("SELECT ARRAY[1, 2]::int4[]") == [1, 2]

    for _ in range(2):
        remembered, _ = await connection._introspect_types({_INTEGERS}, 60)
        said, _ = await ask(connection, {_INTEGERS}, 60)
        assert remembered == [dict(row) for row in said] != []

    await connection.execute(f"CREATE TYPE {postgres_schema}.mood AS ENUM ('glad', 'sad')")
    assert await connection.fetchval(f"SELECT ARRAY['glad']::{postgres_schema}.mood[]") == ["glad"]
    await connection.execute(f"DROP TYPE {postgres_schema}.mood")
    await connection.close()


def test_what_was_committed_survives_a_kill_and_what_was_not_does_not(tmp_path: Path) -> None:
    with private_server(tmp_path) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept (id int)")
        address, first = server.url, server.pid
        open_connection = psycopg.connect(server.url)
        open_connection.execute("INSERT INTO kept VALUES (1)")

        server.kill()
        server.start()

        with pytest.raises(psycopg.OperationalError), open_connection:
            open_connection.commit()
        assert server.url == address
        assert server.pid != first
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT * FROM kept").fetchall() == []
            assert connection.execute("SHOW fsync").fetchone() == ("on",)


def test_a_private_server_restarts_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with private_server(tmp_path, max_connections="7") as server:
        server.restart()
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SHOW max_connections").fetchone() == ("7",)
        home, last = server.home, server.pid

    assert not home.exists()
    assert not psutil.pid_exists(last)


async def test_a_pooler_in_transaction_mode_gives_each_transaction_any_session(
    postgres_url: str, tmp_path: Path
) -> None:
    with pgbouncer(tmp_path, postgres_url) as url:
        one = await asyncpg.connect(url, statement_cache_size=0)
        two = await asyncpg.connect(url, statement_cache_size=0)
        try:
            asked = "SELECT pg_backend_pid()"
            assert await one.fetchval(asked) == await two.fetchval(asked)
            async with one.transaction():
                mine = await one.fetchval(asked)
                assert await two.fetchval(asked) != mine
        finally:
            await asyncio.gather(one.close(), two.close())
