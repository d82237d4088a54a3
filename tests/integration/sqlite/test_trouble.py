"""A disk that is full, a file that cannot be written, a file that is not ours."""

import asyncio
import logging
import sqlite3
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from mainspring.model.errors import SchemaMissing, StorageError, StorageUnavailable
from mainspring.model.message import Draft
from mainspring.storage.sqlite import SqliteStorage
from tests.integration.sqlite.acting import claim, draft, executing


async def pragma(storage: SqliteStorage, text: str) -> int:
    """Set something on the writer's own connection."""
    ((value,),) = await storage._gateway.run(executing(f"PRAGMA {text}"), "claim")
    return int(value)


def large(size: int = 50_000) -> Draft:
    return Draft(uuid4(), "orders.placed", b"x" * size, group="mailer")


async def test_a_full_disk_is_named_and_work_goes_on_when_there_is_space(storage: SqliteStorage) -> None:
    await storage.mailbox.publish([draft()])
    pages = await pragma(storage, "page_count")
    await pragma(storage, f"max_page_count = {pages + 4}")

    with pytest.raises(StorageError, match="no space left") as refused:
        await storage.mailbox.publish([large()])
    await pragma(storage, "max_page_count = 1000000")
    again = await storage.mailbox.publish([large()])

    assert not isinstance(refused.value, StorageUnavailable)
    assert len(again.stored) == 1
    assert len(await claim(storage)) == 2


async def test_what_does_not_fit_takes_nothing_acknowledged_with_it(storage: SqliteStorage) -> None:
    pages = await pragma(storage, "page_count")
    await pragma(storage, f"max_page_count = {pages + 8}")
    batch = [draft() if number % 2 else large() for number in range(20)]

    outcomes = await asyncio.gather(*(storage.mailbox.publish([each]) for each in batch), return_exceptions=True)
    await pragma(storage, "max_page_count = 1000000")

    acknowledged = {
        each.id for each, outcome in zip(batch, outcomes, strict=True) if not isinstance(outcome, Exception)
    }
    found = {delivery.message_id for delivery in await claim(storage)}
    assert found == acknowledged
    assert {type(outcome) for outcome in outcomes if isinstance(outcome, Exception)} == {StorageError}


async def test_a_file_that_may_not_be_written_is_named(storage: SqliteStorage, path: str) -> None:
    await storage._gateway.run(executing("PRAGMA query_only = 1"), "claim")

    with pytest.raises(StorageError, match="read-only") as refused:
        await storage.mailbox.publish([draft()])

    assert path in str(refused.value)


async def test_a_file_that_is_no_database_is_named(path: str) -> None:
    Path(path).write_bytes(b"this is a letter to my aunt, and by no means a database " * 100)
    storage = SqliteStorage(path)

    with pytest.raises(StorageError, match="no SQLite database"):
        await storage.open()


async def test_a_missing_directory_is_named_and_may_be_made_later(tmp_path: Path) -> None:
    storage = SqliteStorage(str(tmp_path / "data" / "shop.db"))

    with pytest.raises(StorageError, match=r"directory .*data.* does not exist"):
        await storage.open()
    (tmp_path / "data").mkdir()
    await storage.open()

    assert await storage.schema.version() == 0
    await storage.close()


async def test_without_tables_the_command_is_named(path: str) -> None:
    storage = SqliteStorage(path)
    await storage.open()

    with pytest.raises(SchemaMissing, match="mainspring migrate"):
        await storage.mailbox.publish([draft()])
    with pytest.raises(SchemaMissing, match="mainspring migrate"):
        await storage.ledger.tally()

    await storage.close()


async def test_a_directory_in_place_of_the_file_cannot_be_opened(tmp_path: Path) -> None:
    storage = SqliteStorage(str(tmp_path))

    with pytest.raises(StorageError, match="cannot be opened"):
        await storage.open()


async def test_a_ping_says_how_long_it_took(storage: SqliteStorage) -> None:
    assert timedelta() < await storage.ping() < timedelta(seconds=10)


async def test_the_wal_reset_bug_is_mentioned_once_and_quietly(
    path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 40, 1))
    storage = SqliteStorage(path)
    with caplog.at_level(logging.INFO, "mainspring.storage"):
        await storage.open()
        other = storage.sibling()
        await other.open()

    await other.close()
    await storage.close()
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "3.51.3" in record.getMessage()


async def test_a_fixed_sqlite_is_not_mentioned(
    path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 3))
    storage = SqliteStorage(path)
    with caplog.at_level(logging.INFO, "mainspring.storage"):
        await storage.open()

    await storage.close()
    assert caplog.records == []
