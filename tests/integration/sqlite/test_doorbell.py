"""The doorbell that watches a file: it rings for work, and for nothing else."""

import asyncio
import sqlite3
from datetime import timedelta

import pytest

from mainspring.model.message import Keep
from mainspring.model.retention import Retention
from mainspring.model.verdict import DONE, Failure, Release, Retry, Settlement, Verdict
from mainspring.model.views import Beat, Declaration
from mainspring.storage.enlisted.sqlite import EnlistedSqlite
from mainspring.storage.script import run
from mainspring.storage.sqlite import SqliteStorage
from tests.integration.sqlite.acting import claim, draft, python

QUICK = timedelta(milliseconds=1)
PATIENCE = 60


class QueueWaiter:
    """Counts the rings of a storage."""

    def __init__(self, storage: SqliteStorage) -> None:
        self.rings = 0
        self._rang = asyncio.Event()
        storage._bell.every = QUICK
        storage.doorbell.listen(self._hear)

    def _hear(self, group: str) -> None:
        assert group == ""
        self.rings += 1
        self._rang.set()

    async def hears(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._rang.wait()
        self._rang.clear()

    async def settles(self) -> int:
        """How often it has rung, when it has looked many times more."""
        await asyncio.sleep(30 * QUICK.total_seconds())
        return self.rings


async def test_it_watches(storage: SqliteStorage) -> None:
    assert storage.doorbell.mode == "watch"


async def test_publishing_here_rings_once(storage: SqliteStorage) -> None:
    ear = QueueWaiter(storage)

    await storage.mailbox.publish([draft() for _ in range(10)])
    await ear.hears()

    assert await ear.settles() == 1


async def test_an_idle_worker_is_not_rung_by_its_own_doings(storage: SqliteStorage) -> None:
    ear = QueueWaiter(storage)

    for _ in range(20):
        await claim(storage)
        await storage.mailbox.upcoming(["mailer"])
        await storage.upkeep.beat(Beat("worker", "shop", "host", 1, ("mailer",), 0, "watch"))
        await storage.upkeep.reroute(10)
        await storage.upkeep.prune(Retention(), 10)

    assert await ear.settles() == 0


async def test_an_idle_worker_writes_nothing_by_looking(storage: SqliteStorage, path: str) -> None:
    aside = sqlite3.connect(path)
    version = aside.execute("PRAGMA data_version").fetchone()

    for _ in range(5):
        await claim(storage)
        await storage.mailbox.reap(["mailer"], "worker", timedelta(seconds=30))
        await storage.mailbox.upcoming(["mailer"])
        await storage.upkeep.declare([])
        await storage.upkeep.reroute(10)
        await storage.upkeep.prune(Retention(), 10)

    assert aside.execute("PRAGMA data_version").fetchone() == version
    aside.close()


@pytest.mark.parametrize("keep", ["failures", "all"])
@pytest.mark.parametrize(
    ("verdict", "rings"),
    [(DONE, 0), (Retry(timedelta(minutes=1), Failure("error", "boom")), 0), (Release(timedelta(minutes=1)), 0)],
)
async def test_claims_and_settles_of_others_do_not_ring(
    storage: SqliteStorage, path: str, verdict: Verdict, rings: int, keep: Keep
) -> None:
    other = SqliteStorage(path)
    await other.open()
    await other.mailbox.publish([draft() for _ in range(3)])
    ear = QueueWaiter(storage)

    held = await claim(other)
    await other.mailbox.settle([Settlement(each.claim, verdict, keep) for each in held], "worker")

    assert await ear.settles() == rings
    await other.close()


async def test_what_another_hands_back_at_once_rings(storage: SqliteStorage, path: str) -> None:
    other = SqliteStorage(path)
    await other.open()
    await other.mailbox.publish([draft()])
    (held,) = await claim(other)
    ear = QueueWaiter(storage)

    await other.mailbox.settle([Settlement(held.claim, Release())], "worker")

    await ear.hears()
    await other.close()


async def test_a_resumed_group_rings(storage: SqliteStorage) -> None:
    await storage.upkeep.declare([Declaration("mailer", "shop", ("orders.placed",), "handler")])
    await storage.controls.pause("mailer", "ann", "a while")
    ear = QueueWaiter(storage)

    await storage.controls.resume("mailer", "ann")

    await ear.hears()


async def test_a_callers_own_commit_rings_and_its_rollback_does_not(storage: SqliteStorage, path: str) -> None:
    ear = QueueWaiter(storage)
    mine = sqlite3.connect(path)

    run(EnlistedSqlite(mine), storage.enlisted().mailbox.publish.script([draft()]))
    mine.rollback()
    silent = await ear.settles()
    run(EnlistedSqlite(mine), storage.enlisted().mailbox.publish.script([draft()]))
    mine.commit()

    await ear.hears()
    assert silent == 0
    mine.close()


async def test_another_process_rings(storage: SqliteStorage, path: str) -> None:
    ear = QueueWaiter(storage)
    code = """
import asyncio, sys
from mainspring.storage.sqlite import SqliteStorage
from tests.integration.sqlite.acting import draft

async def main():
    storage = SqliteStorage(sys.argv[1])
    await storage.open()
    await storage.mailbox.publish([draft()])
    await storage.close()

asyncio.run(main())
"""
    process = await python(code, path)

    await ear.hears()

    assert await process.wait() == 0
    assert len(await claim(storage)) == 1


async def test_after_closing_it_is_silent(path: str) -> None:
    listening, publishing = SqliteStorage(path), SqliteStorage(path)
    await listening.open()
    await publishing.open()
    await publishing.schema.migrate()
    ear = QueueWaiter(listening)

    await listening.close()
    await publishing.mailbox.publish([draft()])

    assert await ear.settles() == 0
    await publishing.close()


async def test_listening_before_there_are_tables_hears_what_comes_later(path: str) -> None:
    storage = SqliteStorage(path)
    await storage.open()
    ear = QueueWaiter(storage)

    await storage.schema.migrate()
    await storage.mailbox.publish([draft()])

    await ear.hears()
    await storage.close()
