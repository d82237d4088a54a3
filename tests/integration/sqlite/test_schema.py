"""The tables of SQLite: made once, recognised, refused when they are another's."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mainspring.model.errors import SchemaMissing, SchemaTooNew, StorageError, StorageUnavailable
from mainspring.storage.sqlite import SqliteStorage
from tests.integration.sqlite.acting import asked_aside, claim, draft, executing

ALL = [
    "0001_mailbox",
    "0002_breakers",
    "0003_schedules",
    "0004_joins",
    "0005_open_joins",
    "0006_inbox",
    "0007_topics",
    "0008_leases",
    "0009_unique",
    "0010_progress",
    "0011_limits",
    "0012_fanout",
    "0013_measures",
    "0014_steering",
    "0015_roster",
    "0016_declarations",
    "0017_keyless",
    "0018_correlation",
    "0019_repeats",
    "0020_declared_schedules",
    "0021_history",
    "0022_links",
    "0023_moves",
]
SHAPE = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"


async def test_a_new_file_is_at_version_zero_until_it_is_migrated(path: str) -> None:
    storage = SqliteStorage(path)
    await storage.open()

    before = await storage.schema.version()
    with pytest.raises(SchemaMissing):
        await storage.schema.check()
    applied = await storage.schema.migrate()
    again = await storage.schema.migrate()
    await storage.schema.check()

    assert (before, await storage.schema.version()) == (0, int(ALL[-1][:4]))
    assert (applied, again) == (ALL, [])
    await storage.close()


async def test_many_starters_in_one_process_are_safe(path: str) -> None:
    starters = [SqliteStorage(path) for _ in range(8)]

    async def start(storage: SqliteStorage) -> list[str]:
        await storage.open()
        return await storage.schema.migrate()

    applied = await asyncio.gather(*map(start, starters))

    assert sorted(applied) == [*[[]] * 7, ALL]
    for storage in starters:
        await storage.close()


async def test_the_printed_script_makes_the_same_tables_and_is_recognised(
    storage: SqliteStorage, path: str, tmp_path: Path
) -> None:
    printed = str(tmp_path / "printed.db")
    with closing(sqlite3.connect(printed)) as connection:
        connection.executescript(SqliteStorage.ddl())

    made = SqliteStorage(printed)
    await made.open()
    await made.schema.check()
    await made.close()

    assert asked_aside(printed, SHAPE) == asked_aside(path, SHAPE)


async def test_two_prefixes_live_side_by_side(storage: SqliteStorage, path: str) -> None:
    other = SqliteStorage(path, prefix="shop")
    await other.open()
    await other.schema.migrate()

    await other.mailbox.publish([draft()])

    assert await claim(storage) == []
    assert len(await claim(other)) == 1
    await other.close()


async def test_another_builds_migration_is_refused(storage: SqliteStorage) -> None:
    await storage._gateway.run(executing("UPDATE mainspring_migration SET checksum = 'other'"), "write")

    with pytest.raises(StorageError, match="another build"):
        await storage.schema.migrate()


async def test_a_newer_schema_is_fine_unless_it_breaks(storage: SqliteStorage) -> None:
    newer = "INSERT INTO mainspring_migration VALUES (99, '0099_later', 'x', 0, 0)"
    await storage._gateway.run(executing(newer), "write")
    await storage.schema.check()

    await storage._gateway.run(executing("UPDATE mainspring_migration SET breaking = 1 WHERE number = 99"), "write")

    with pytest.raises(SchemaTooNew):
        await storage.schema.check()
    with pytest.raises(SchemaTooNew):
        await storage.schema.migrate()


async def test_the_file_is_in_wal_mode_and_durable_when_asked(path: str) -> None:
    storage = SqliteStorage(path, durable=True)
    await storage.open()

    async def asked(pragma: str) -> object:
        ((value,),) = await storage._gateway.run(executing(f"PRAGMA {pragma}"), "claim")
        return value

    settings = [await asked(each) for each in ("journal_mode", "synchronous", "foreign_keys")]

    assert settings == ["wal", 2, 0]
    await storage.close()


async def test_migrating_waits_for_a_writer_no_longer_than_any_write_does(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    storage = SqliteStorage(str(path))
    await storage.open()
    with closing(sqlite3.connect(path, isolation_level=None)) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageUnavailable, match="another connection has been writing for over 5 s"):
            await storage.schema.migrate()
        stranger.execute("ROLLBACK")
    applied = await storage.schema.migrate()
    await storage.close()

    assert applied == ALL
