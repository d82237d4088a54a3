"""A caller's own sqlite3 connection: its transaction decides, and its settings stay."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mainspring.model.errors import BadHandle, SchemaMissing, StorageUnavailable
from mainspring.model.message import Published
from mainspring.model.verdict import DONE, Settlement
from mainspring.storage.enlisted.sqlite import EnlistedSqlite, refuse_autocommit
from mainspring.storage.script import run
from mainspring.storage.sqlite import SqliteStorage
from tests.integration.sqlite.acting import asked_aside, claim, draft


@pytest.fixture
def mine(storage: SqliteStorage, path: str) -> Iterator[sqlite3.Connection]:
    """A connection as an application has it, with a table of its own."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id integer)")
        connection.commit()
        yield connection


def publish(connection: sqlite3.Connection, storage: SqliteStorage) -> Published:
    return run(EnlistedSqlite(connection), storage.enlisted().mailbox.publish.script([draft()]))


async def test_committed_with_the_callers_own_writes(storage: SqliteStorage, mine: sqlite3.Connection) -> None:
    mine.execute("INSERT INTO orders VALUES (1)")
    published = publish(mine, storage)
    unseen = (await storage.ledger.tally()).groups
    mine.commit()

    assert unseen == ()
    assert len(published.stored) == 1
    assert len(await claim(storage)) == 1


async def test_rolled_back_with_the_callers_own_writes(
    storage: SqliteStorage, mine: sqlite3.Connection, path: str
) -> None:
    mine.execute("INSERT INTO orders VALUES (1)")
    publish(mine, storage)
    mine.rollback()

    assert await claim(storage) == []
    assert asked_aside(path, "SELECT * FROM orders") == []


async def test_publishing_first_begins_the_callers_transaction(
    storage: SqliteStorage, mine: sqlite3.Connection
) -> None:
    publish(mine, storage)

    assert mine.in_transaction
    mine.rollback()
    assert await claim(storage) == []


async def test_a_savepoint_of_the_callers_decides_too(storage: SqliteStorage, mine: sqlite3.Connection) -> None:
    mine.isolation_level = None
    mine.execute("BEGIN")
    kept = publish(mine, storage)
    mine.execute("SAVEPOINT inner")
    publish(mine, storage)
    mine.execute("ROLLBACK TO inner")
    mine.execute("COMMIT")

    assert {delivery.message_id for delivery in await claim(storage)} == kept.stored


async def test_a_settle_commits_with_the_handlers_writes(
    storage: SqliteStorage, mine: sqlite3.Connection, path: str
) -> None:
    await storage.mailbox.publish([draft()])
    (held,) = await claim(storage)

    mine.execute("INSERT INTO orders VALUES (1)")
    settled = run(
        EnlistedSqlite(mine), storage.enlisted().mailbox.settle.script([Settlement(held.claim, DONE)], "worker")
    )
    mine.commit()

    assert not settled.lost
    assert asked_aside(path, "SELECT count(*) FROM mainspring_delivery") == [(0,)]


async def test_a_transaction_begun_by_reading_waits_for_the_lock_as_it_is_told_to(
    storage: SqliteStorage, mine: sqlite3.Connection, path: str
) -> None:
    mine.isolation_level = None
    mine.execute("BEGIN")
    await storage.mailbox.publish([draft()])

    # Nothing was read yet, so what others have committed since BEGIN does no harm.
    publish(mine, storage)
    mine.execute("COMMIT")

    assert len(await claim(storage)) == 2


async def test_a_lock_that_is_not_given_up_is_unavailable(storage: SqliteStorage, path: str) -> None:
    with closing(sqlite3.connect(path)) as other, closing(sqlite3.connect(path, timeout=0.01)) as mine:
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StorageUnavailable, match="locked"):
            publish(mine, storage)


@pytest.mark.parametrize("level", ["DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
async def test_every_isolation_level_that_begins_by_itself_is_accepted(
    storage: SqliteStorage, path: str, level: str
) -> None:
    with closing(sqlite3.connect(path)) as mine:
        mine.isolation_level = level  # type: ignore[assignment]
        publish(mine, storage)
        mine.commit()

    assert len(await claim(storage)) == 1


async def test_what_would_commit_by_itself_is_refused(storage: SqliteStorage, path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as mine:
        with pytest.raises(BadHandle, match="isolation_level=None"):
            publish(mine, storage)
        mine.execute("BEGIN")
        publish(mine, storage)
        mine.execute("COMMIT")

    assert len(await claim(storage)) == 1


@pytest.mark.parametrize("autocommit", [True, False])
async def test_the_autocommit_of_newer_pythons_counts_before_the_level(
    storage: SqliteStorage, path: str, autocommit: bool
) -> None:
    class Newer(sqlite3.Connection):
        """As Python 3.12 has it: the level says nothing any more."""

    setattr(Newer, "autocommit", autocommit)  # noqa: B010
    with closing(sqlite3.connect(path, factory=Newer)) as mine:
        if autocommit:
            with pytest.raises(BadHandle, match="autocommit=True"):
                refuse_autocommit(mine)
        else:
            refuse_autocommit(mine)


async def test_a_closed_connection_is_refused(storage: SqliteStorage, mine: sqlite3.Connection) -> None:
    joined = EnlistedSqlite(mine)
    mine.close()

    with pytest.raises(BadHandle, match=r"is closed.*publish before you let go of it"):
        refuse_autocommit(mine)
    with pytest.raises(BadHandle, match=r"is closed.*publish before you let go of it"):
        run(joined, storage.enlisted().mailbox.publish.script([draft()]))


async def test_another_threads_connection_is_refused(storage: SqliteStorage, mine: sqlite3.Connection) -> None:
    with pytest.raises(BadHandle, match="check_same_thread"):
        await asyncio.to_thread(publish, mine, storage)


async def test_another_file_is_named(storage: SqliteStorage, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as mine:
        mine.text_factory = bytes

        with pytest.raises(SchemaMissing, match=r"other\.db.*another file than the app's, connect to") as refused:
            publish(mine, storage)

    assert refused.value.found == 0


async def test_the_callers_factories_are_neither_used_nor_changed(
    storage: SqliteStorage, mine: sqlite3.Connection
) -> None:
    mine.row_factory = sqlite3.Row
    mine.text_factory = bytes
    await storage.mailbox.publish([draft()])

    publish(mine, storage)
    mine.commit()

    assert mine.row_factory is sqlite3.Row
    assert mine.text_factory is bytes
    assert isinstance(mine.execute("SELECT 'text'").fetchone()[0], bytes)


async def test_the_text_factory_is_back_after_an_error_too(tmp_path: Path, storage: SqliteStorage) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as mine:
        mine.text_factory = bytes
        with pytest.raises(SchemaMissing):
            publish(mine, storage)

        assert mine.text_factory is bytes
