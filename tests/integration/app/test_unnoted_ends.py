"""Members that a worker of an older release has settled, which notes no ends: a recount counts each of them once.

Such a worker runs on a newer schema, since nothing in it breaks what it does. What it leaves is made here by settling a
member and taking the note away again.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from mainspring.model.join import Join, JoinOutcome, Recount, outcome
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Draft
from mainspring.model.schedule import Due
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import DONE, Bury, Cancel, Failure, Settlement, Verdict
from mainspring.runtime.janitor import Recounting
from mainspring.runtime.reports import RateLimitedLog
from mainspring.storage.contract import Storage
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.sqlite import SqliteStorage
from mainspring.timing.clock import HandClock

HOUR = timedelta(hours=1)
BOOM = Bury(Failure("error", "boom"))


class OnSqlite:
    """SQLite counts at once: the counts of before are put back."""

    def __init__(self, path: Path) -> None:
        self.storage = SqliteStorage(str(path))
        self._path = path
        self.counted: dict[bytes, tuple[int, int, int]] = {}

    def remember(self) -> None:
        with closing(sqlite3.connect(self._path)) as connection:
            rows = connection.execute("SELECT id, pending, done, failed FROM mainspring_joint").fetchall()
        self.counted = {id: (pending, done, failed) for id, pending, done, failed in rows}

    def forget_notes(self) -> None:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.executemany(
                "UPDATE mainspring_joint SET pending = ?, done = ?, failed = ? WHERE id = ?",
                [(*counts, id) for id, counts in self.counted.items()],
            )


class OnPostgres:
    """PostgreSQL notes now and counts later."""

    def __init__(self, url: str, schema: str) -> None:
        self.storage = PostgresStorage(url, schema=schema)
        self._url, self._schema = url, schema

    def remember(self) -> None:
        """Nothing is counted before somebody looks."""

    def forget_notes(self) -> None:
        with psycopg.connect(self._url) as connection:
            connection.execute(f"DELETE FROM {self._schema}.joint_end")


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str
) -> AsyncIterator[OnSqlite | OnPostgres]:
    on = OnSqlite(tmp_path / "queue.db") if request.param == "sqlite" else OnPostgres(postgres_url, postgres_schema)
    await on.storage.open()
    try:
        await on.storage.schema.migrate()
        yield on
    finally:
        await on.storage.close()


async def open_join(storage: Storage, members: int) -> UUID:
    id = uuid4()
    then, failed = (Draft(id, topic, b"null", group="boss") for topic in ("all.done", "some.failed"))
    await storage.mailbox.join(
        Join(id, then, failed), [Draft(uuid4(), "parts", b"{}", group="part") for _ in range(members)]
    )
    return id


async def claimed(storage: Storage, group: str = "part", limit: int = 1) -> list[Delivery]:
    return await storage.mailbox.claim([ClaimRequest(group, limit, ALL_LEVELS)], "worker", HOUR)


async def end(storage: Storage, *verdicts: Verdict) -> None:
    """End members one after the other, as a worker of this release does."""
    deliveries = await claimed(storage, limit=len(verdicts))
    settlements = [
        Settlement(each.claim, verdict, member=True) for each, verdict in zip(deliveries, verdicts, strict=True)
    ]
    await storage.mailbox.settle(settlements, "worker")


async def end_unnoted(database: OnSqlite | OnPostgres, *verdicts: Verdict) -> None:
    """End members as a worker of an older release does."""
    await look(database.storage)
    database.remember()
    await end(database.storage, *verdicts)
    database.forget_notes()


def _leave(_due: Due, _now: datetime) -> None:
    """There are no schedules."""


async def look(storage: Storage) -> int:
    return (await storage.timetable.tick("anybody's", _leave, 100)).joined


async def told(storage: Storage) -> tuple[str, JoinOutcome | None]:
    """The one continuation, as its consumer gets it."""
    (delivery,) = await claimed(storage, "boss", 10)
    return delivery.topic, outcome(delivery)


async def test_a_join_whose_last_ends_were_not_noted_goes_on_after_a_recount(database: OnSqlite | OnPostgres) -> None:
    storage = database.storage
    id = await open_join(storage, 3)
    await end(storage, DONE)
    await end_unnoted(database, DONE, DONE)
    assert await look(storage) == 0

    recounted = [await storage.upkeep.recount(None, 10) for _ in range(2)]

    assert recounted == [Recount(2), Recount()]
    assert await look(storage) == 1
    assert await told(storage) == ("all.done", JoinOutcome(id, done=3, failed=0))


async def test_what_the_runs_say_has_failed_has_failed(database: OnSqlite | OnPostgres) -> None:
    storage = database.storage
    id = await open_join(storage, 5)
    await end(storage, BOOM)
    await end_unnoted(database, BOOM, Cancel("obsolete"), DONE, DONE)

    assert await storage.upkeep.recount(None, 10) == Recount(4)

    assert await look(storage) == 1
    assert await told(storage) == ("some.failed", JoinOutcome(id, done=2, failed=3))


async def test_a_failure_that_was_noted_is_not_blamed_on_another_member(database: OnSqlite | OnPostgres) -> None:
    storage = database.storage
    id = await open_join(storage, 3)
    await end(storage, BOOM)
    # A revived one is no member any more, however often it dies.
    await storage.controls.revive(DeadSelection(), "ann", 10)
    deliveries = await claimed(storage, limit=3)
    revived = min(deliveries, key=lambda each: each.id)
    await storage.mailbox.settle([Settlement(revived.claim, BOOM, member=True)], "worker")
    await look(storage)
    database.remember()
    others = [each for each in deliveries if each is not revived]
    await storage.mailbox.settle([Settlement(each.claim, DONE, member=True) for each in others], "worker")
    database.forget_notes()

    assert await storage.upkeep.recount(None, 10) == Recount(2)

    assert await look(storage) == 1
    assert await told(storage) == ("some.failed", JoinOutcome(id, done=2, failed=1))


async def test_a_join_with_members_left_waits_for_them(database: OnSqlite | OnPostgres) -> None:
    storage = database.storage
    id = await open_join(storage, 3)
    await end_unnoted(database, DONE)

    assert await storage.upkeep.recount(None, 10) == Recount(1)
    assert await look(storage) == 0
    view = await storage.ledger.find_join(id)
    await end(storage, DONE, DONE)

    assert view is not None
    assert (view.members, view.ended, view.failed) == (3, 1, 0)
    assert await look(storage) == 1
    assert await told(storage) == ("all.done", JoinOutcome(id, done=3, failed=0))


async def test_an_end_is_counted_once_however_many_recount_at_once(database: OnSqlite | OnPostgres) -> None:
    storage = database.storage
    ids = {await open_join(storage, 4) for _ in range(10)}
    await end_unnoted(database, *[DONE] * 20)
    siblings = [storage.sibling() for _ in range(4)]
    for each in siblings:
        await each.open()

    recounts = await asyncio.gather(*(each.upkeep.recount(None, 100) for each in siblings for _ in range(3)))
    for each in siblings:
        await each.close()
    while (again := await storage.upkeep.recount(None, 100)).unnoted:
        recounts.append(again)  # what one has passed over, because another had it in hand

    assert sum(each.unnoted for each in recounts) == 20
    await end(storage, *[DONE] * 20)
    joined = 0
    while found := await look(storage):
        joined += found
    assert joined == 10
    assert {outcome(each) for each in await claimed(storage, "boss", 100)} == {JoinOutcome(id, 4, 0) for id in ids}


async def test_a_janitor_recounts_and_says_so(
    database: OnSqlite | OnPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    storage = database.storage
    await open_join(storage, 2)
    await end_unnoted(database, DONE, DONE)
    clock = HandClock(datetime(2030, 1, 1, tzinfo=UTC))
    recounting = Recounting(storage.upkeep, RateLimitedLog(clock), clock)

    await recounting.turn()
    assert await look(storage) == 0
    clock.advance(timedelta(minutes=1))
    with caplog.at_level(logging.WARNING, "mainspring.worker"):
        await recounting.turn()

    assert await look(storage) == 1
    assert [each.getMessage().partition(" had ")[0] for each in caplog.records] == ["2 members of joins"]
