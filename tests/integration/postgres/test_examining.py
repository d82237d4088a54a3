"""What the doctor finds in a PostgreSQL database that is not well, each in a state that is really so."""

import asyncio
import re
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from mainspring.model.symptom import Symptom, Tolerances
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.driver import DriverName
from tests.integration.postgres.acting import DRIVERS, Connection
from tests.services.pgbouncer import pgbouncer
from tests.services.postgres import new_database, private_server

pytestmark = pytest.mark.parametrize("driver", DRIVERS)

AT_ONCE = Tolerances(snapshot=timedelta(), skew=timedelta(hours=1), dead_rows=0)


def host() -> datetime:
    return datetime.now(UTC)


async def symptoms(
    storage: PostgresStorage, about: str, tolerances: Tolerances = AT_ONCE, clock: Callable[[], datetime] = host
) -> list[Symptom]:
    return [each for each in await storage.schema.examine(tolerances, clock) if each.about == about]


async def test_a_session_with_an_old_snapshot_is_named_with_its_age_and_state(
    storage: PostgresStorage, connection: Connection
) -> None:
    await connection.execute("SET application_name = 'nightly export'")
    async with connection.transaction(isolation="repeatable_read"):
        await connection.execute("SELECT 1")
        pid = connection.get_server_pid()

        found = await symptoms(storage, "snapshots")
        patient = await symptoms(storage, "snapshots", Tolerances(snapshot=timedelta(hours=1)))

    (mine,) = [each for each in found if f"session {pid} " in each.summary]
    assert mine.grade == "warning"
    assert re.match(
        rf"session {pid} of \w+ \(nightly export\) has had a transaction open for [\d.]+ s, idle in transaction, its "
        r"last query began [\d.]+ s ago: nothing that is settled can be removed",
        mine.summary,
    )
    role = await connection.fetchval("SELECT quote_ident(current_user)")
    database = await connection.fetchval("SELECT quote_ident(current_database())")
    assert mine.advice == (
        f"end it where it was begun, or: SELECT pg_terminate_backend({pid}); So that forgotten ones end by themselves: "
        f"ALTER ROLE {role} IN DATABASE {database} SET idle_in_transaction_session_timeout = '10min';"
    )
    assert [(each.grade, each.summary) for each in patient] == [
        ("ok", "no transaction has been open for longer than 1 h")
    ]


async def test_a_transaction_without_a_snapshot_holds_nothing_back(
    storage: PostgresStorage, connection: Connection
) -> None:
    async with connection.transaction():
        await connection.execute("SELECT 1")
        pid = connection.get_server_pid()

        found = await symptoms(storage, "snapshots")

    assert [each for each in found if f"session {pid} " in each.summary] == []


async def test_a_dropped_index_is_missed_and_made_again_by_what_is_advised(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    well = await symptoms(storage, "indexes")
    await connection.execute(f"DROP INDEX {postgres_schema}.delivery_ready")

    (missing,) = await symptoms(storage, "indexes")
    await connection.execute(missing.advice)

    assert [each.grade for each in well] == ["ok"]
    assert (missing.grade, missing.summary) == (
        "error",
        "delivery_ready is missing: what needs it reads the whole table instead",
    )
    assert missing.advice.startswith(f'CREATE INDEX CONCURRENTLY delivery_ready ON "{postgres_schema}".delivery (')
    assert await symptoms(storage, "indexes") == well


async def test_an_invalid_index_is_named_and_mended_by_what_is_advised(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await connection.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass($1)", f"{postgres_schema}.delivery_held"
    )

    (broken,) = await symptoms(storage, "indexes")
    await connection.execute(broken.advice)

    assert (broken.grade, broken.advice) == (
        "error",
        f'REINDEX INDEX CONCURRENTLY "{postgres_schema}".delivery_held;',
    )
    assert broken.summary.startswith("delivery_held is invalid")
    assert [each.grade for each in await symptoms(storage, "indexes")] == ["ok"]


async def test_the_indexes_of_a_newer_schema_are_nobodys_business(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await connection.execute(f"DROP INDEX {postgres_schema}.delivery_ready")
    await connection.execute(f"INSERT INTO {postgres_schema}.migration VALUES (9999, 'x', 'x', false, now())")

    assert [each.grade for each in await symptoms(storage, "indexes")] == ["ok"]


@pytest.mark.no_schema  # one that other tests have used has dead rows of theirs
async def test_a_table_that_is_not_vacuumed_is_named_and_put_right_by_what_is_advised(
    storage: PostgresStorage, connection: Connection, postgres_schema: str
) -> None:
    await storage.schema.migrate()
    await connection.execute(f"ALTER TABLE {postgres_schema}.delivery SET (autovacuum_enabled = false)")

    (off,) = [each for each in await symptoms(storage, "autovacuum", Tolerances()) if "delivery" in each.summary]
    await connection.execute(off.advice)

    assert off.grade == "error"
    assert off.summary.startswith("it is off for delivery, which has 0 dead rows and was vacuumed never")
    assert [each for each in await symptoms(storage, "autovacuum", Tolerances()) if "delivery" in each.summary] == []


async def test_a_table_with_many_dead_rows_is_behind(
    storage: PostgresStorage, connection: Connection, another: Connection, postgres_schema: str
) -> None:
    waits = "autovacuum_vacuum_threshold = 10, autovacuum_vacuum_scale_factor = 0"
    await connection.execute(f"ALTER TABLE {postgres_schema}.audit SET ({waits})")
    async with another.transaction(isolation="repeatable_read"):
        await another.execute("SELECT 1")  # whatever is vacuumed meanwhile, these rows stay
        await connection.execute(
            f"INSERT INTO {postgres_schema}.audit (at, by_whom, action, subject, detail) "
            "SELECT now(), 'ann', 'x', 'x', 'x' FROM generate_series(1, 100)"
        )
        await connection.execute(f"DELETE FROM {postgres_schema}.audit")
        await connection.execute(f"VACUUM {postgres_schema}.audit")

        found: list[Symptom] = []
        async with asyncio.timeout(60):  # before PostgreSQL 15 the statistics come later
            while not found:
                found = [each for each in await symptoms(storage, "autovacuum") if "audit" in each.summary]

    ((grade, summary, advice),) = [(each.grade, each.summary, each.advice) for each in found]
    assert grade == "warning"
    assert re.match(r"it is behind with audit: \d{3,} dead rows, where it waits for 10; vacuumed [\d.]+ s ago", summary)
    assert advice.endswith(f'VACUUM "{postgres_schema}".audit;')


@pytest.mark.parametrize(
    ("ahead", "words"),
    [(timedelta(minutes=5), "300.\\d s ahead of"), (timedelta(minutes=-5), "(299|300).\\d s behind")],
)
async def test_a_host_whose_clock_is_wrong_is_told_by_how_much(
    storage: PostgresStorage, ahead: timedelta, words: str
) -> None:
    wrong = Tolerances(skew=timedelta(minutes=1))

    (skewed,) = await symptoms(storage, "clock", wrong, lambda: host() + ahead)
    (right,) = await symptoms(storage, "clock", wrong)

    assert (skewed.grade, right.grade) == ("warning", "ok")
    assert re.match(f"the clock of this host is {words} that of the database", skewed.summary), skewed.summary
    assert "NTP" in skewed.advice


async def test_a_pooler_is_told_from_the_server_itself(
    storage: PostgresStorage, driver: DriverName, postgres_url: str, postgres_schema: str, tmp_path: Path
) -> None:
    with pgbouncer(tmp_path, postgres_url) as address:
        behind = PostgresStorage(address, schema=postgres_schema, driver=driver)
        (pooled,) = await symptoms(behind, "pooler")
        await behind.close()
    (direct,) = await symptoms(storage, "pooler")

    assert (pooled.grade, direct.grade) == ("note", "ok")
    assert pooled.summary.startswith("a pooler such as PgBouncer is between")
    assert direct.summary == "none is between: the server itself answers"


async def test_a_role_that_may_not_look_at_others_says_so(
    storage: PostgresStorage, driver: DriverName, postgres_url: str, postgres_schema: str, connection: Connection
) -> None:
    role = f"reader_{uuid4().hex[:8]}"
    await connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    try:
        await connection.execute(f"GRANT USAGE ON SCHEMA {postgres_schema} TO {role}")
        await connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {postgres_schema} TO {role}")
        user = postgres_url.partition("//")[2].partition("@")[0]
        limited = PostgresStorage(
            postgres_url.replace(f"//{user}@", f"//{role}:x@"), schema=postgres_schema, driver=driver
        )
        found = await symptoms(limited, "snapshots", Tolerances())
        await limited.close()
    finally:
        await connection.execute(f"DROP OWNED BY {role}")
        await connection.execute(f"DROP ROLE {role}")

    ((grade, summary, advice),) = [(each.grade, each.summary, each.advice) for each in found]
    assert grade == "note"
    assert re.match(r"(1 session|\d+ sessions) of other roles cannot be looked at from here$", summary)
    assert advice == f"GRANT pg_read_all_stats TO {role}; and ask again"


async def test_prepared_transactions_and_vacuuming_for_nobody_are_found(tmp_path: Path, driver: DriverName) -> None:
    with (
        private_server(tmp_path, autovacuum="off", max_prepared_transactions="2") as server,
        new_database(server.url, "shop") as url,
        psycopg.connect(url, autocommit=True) as client,
    ):
        storage = PostgresStorage(url, schema="shop", driver=driver)
        await storage.schema.migrate()
        client.execute("BEGIN")
        client.execute("CREATE TABLE own ()")
        client.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal("it's mine")))

        (held,) = await symptoms(storage, "snapshots")
        off = await symptoms(storage, "autovacuum", Tolerances())
        client.execute(held.advice.partition("; or ")[0].encode())
        await storage.close()

    assert held.grade == "warning"
    assert held.summary.startswith('transaction "it\'s mine" of ')
    assert held.advice == "COMMIT PREPARED 'it''s mine'; or ROLLBACK PREPARED 'it''s mine';"
    assert [(each.grade, each.summary.partition(":")[0]) for each in off] == [
        ("error", "it is off for the whole server")
    ]


class Standby:
    """As much of a standby as a primary sees: it streams, and says what its queries still see."""

    def __init__(self, url: str, slot: str | None = None) -> None:
        self._line = psycopg.pq.PGconn.connect(f"{url}?replication=true&application_name=reports".encode())
        named = "" if slot is None else f"SLOT {slot}"
        started = self._line.exec_(f"START_REPLICATION {named} PHYSICAL 0/1000000".encode())
        assert started.status == psycopg.pq.ExecStatus.COPY_BOTH, self._line.get_error_message()

    def sees(self, transaction: int) -> None:
        # A reply of the streaming protocol: when, the oldest transaction and its epoch, the same for catalogs.
        self._line.put_copy_data(struct.pack("!cqIIII", b"h", 0, transaction, 0, 0, 0))
        self._line.flush()

    def leave(self) -> None:
        self._line.finish()


def until(client: psycopg.Connection[Any], is_so: LiteralString) -> None:
    """Wait until the server says so."""
    for _ in range(2_000):
        ((told,),) = client.execute(is_so).fetchall()
        if told:
            return
        client.execute("SELECT pg_sleep(0.005)")
    pytest.fail(f"never so: {is_so}")


async def test_standbys_and_their_slots_that_hold_back_vacuum_are_found(tmp_path: Path, driver: DriverName) -> None:
    told = Tolerances(snapshot=timedelta(hours=1), transactions=1)
    with (
        private_server(tmp_path, wal_level="logical") as server,
        new_database(server.url, "shop") as url,
        psycopg.connect(url, autocommit=True) as client,
    ):
        storage = PostgresStorage(url, schema="shop", driver=driver)
        await storage.schema.migrate()
        well = await symptoms(storage, "snapshots", told)
        client.execute("SELECT pg_create_physical_replication_slot('its_slot', true)")
        ((seen,),) = client.execute("SELECT txid_current()").fetchall()
        standby, plain = Standby(url, "its_slot"), Standby(url)
        for each in (standby, plain):
            each.sees(seen)
        until(client, "SELECT bool_and(xmin IS NOT NULL) FROM pg_replication_slots")
        until(client, "SELECT bool_or(backend_xmin IS NOT NULL) FROM pg_stat_replication")
        for _ in range(3):
            client.execute("SELECT txid_current()")

        streaming = await symptoms(storage, "snapshots", told)
        patient = await symptoms(storage, "snapshots", Tolerances(snapshot=timedelta(hours=1)))
        for each in (standby, plain):
            each.leave()
        until(client, "SELECT count(*) = 0 FROM pg_stat_replication")
        (left,) = await symptoms(storage, "snapshots", told)
        client.execute(left.advice.partition("any more: ")[2].encode())
        client.execute("SELECT pg_create_logical_replication_slot('feed', 'pgoutput')")
        for _ in range(3):
            client.execute("SELECT txid_current()")
        (logical,) = await symptoms(storage, "snapshots", told)
        client.execute(logical.advice.partition("any more: ")[2].encode())
        mended = await symptoms(storage, "snapshots", told)
        await storage.close()

    assert (
        [each.grade for each in well] == [each.grade for each in patient] == [each.grade for each in mended] == ["ok"]
    )
    summaries = sorted(re.sub(r"\d+", "#", each.summary.partition(":")[0]) for each in streaming)
    assert summaries == [
        "the standby of replication slot its_slot (walsender #) keeps rows as of # transactions ago",
        "the standby reports (walsender #) keeps rows as of # transactions ago",
    ]
    assert {each.grade for each in (*streaming, left)} == {"warning"}
    assert re.match(r"replication slot its_slot, which is unused, keeps rows as of \d+ transactions ago:", left.summary)
    assert logical.grade == "note"
    assert re.match(r"replication slot feed keeps the system catalogs as of \d+ transactions ago", logical.summary)


async def test_tables_that_a_logical_replication_fills_are_named(tmp_path: Path, driver: DriverName) -> None:
    with (
        private_server(tmp_path, wal_level="logical") as server,
        new_database(server.url, "origin") as origin,
        new_database(server.url, "replica") as replica,
    ):
        for url in (origin, replica):
            storage = PostgresStorage(url, driver=driver)
            await storage.open()
            await storage.schema.migrate()
            await storage.close()
        async with await psycopg.AsyncConnection.connect(origin, autocommit=True) as connection:
            await connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
            await connection.execute("SELECT pg_create_logical_replication_slot('copied', 'pgoutput')")
        async with await psycopg.AsyncConnection.connect(replica, autocommit=True) as connection:
            options: LiteralString = "create_slot = false, slot_name = 'copied', enabled = false, copy_data = false"
            await connection.execute(
                sql.SQL("CREATE SUBSCRIPTION copied CONNECTION {} PUBLICATION everything WITH ({})").format(
                    sql.Literal(origin), sql.SQL(options)
                )
            )
        found: dict[str, list[Symptom]] = {}
        for name, url in (("origin", origin), ("replica", replica)):
            storage = PostgresStorage(url, driver=driver)
            await storage.open()
            found[name] = await symptoms(storage, "server")
            await storage.close()
        async with await psycopg.AsyncConnection.connect(replica, autocommit=True) as connection:
            await connection.execute("ALTER SUBSCRIPTION copied SET (slot_name = NONE)")
            await connection.execute("DROP SUBSCRIPTION copied")
        async with await psycopg.AsyncConnection.connect(origin, autocommit=True) as connection:
            await connection.execute("SELECT pg_drop_replication_slot('copied')")

    assert found["origin"] == []
    (symptom,) = found["replica"]
    assert symptom.grade == "error"
    assert symptom.summary.startswith("a logical replication writes into these tables: sequences")
    assert symptom.advice.startswith('leave the schema "mainspring" out of the publication')
