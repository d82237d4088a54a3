"""The timetable on PostgreSQL: rows that others look at, rows that change, rows that two add at once."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from mainspring.model.message import ALL_LEVELS, ClaimRequest
from mainspring.model.schedule import Due, Note, Occurrence, Schedule, ScheduleAdvance, ScheduleTick, Standing
from mainspring.model.verdict import Done, Settlement
from mainspring.model.views import Declaration
from mainspring.model.worker import Declarer
from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg
from mainspring.storage.operation import HandSet
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.script import Row, Statement, run_async
from tests.integration.postgres.acting import Connection, blocked, claim, draft

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
NOTE = Note("ann", "edit")


def schedule(name: str = "nightly") -> Schedule:
    return Schedule(name, "shop", "code", {}, NOON, NOON, NOON, NOON)


def publishing(_due: Due, now: datetime) -> ScheduleAdvance:
    return ScheduleAdvance(now, now + HOUR, (Occurrence(draft(group="mail")),))


def adding(name: str, known: Schedule | None, _now: datetime) -> Schedule:
    return known or schedule(name)


def paused(_name: str, known: Schedule | None, now: datetime) -> Schedule | None:
    return known and replace(known, paused_at=now)


@pytest.fixture
async def kept(storage: PostgresStorage) -> Schedule:
    """One schedule, due at noon, which it is."""
    storage.now = NOON
    await storage.timetable.rewrite(["nightly"], adding)
    return schedule()


async def test_a_row_that_another_looks_at_is_passed_over_and_not_waited_for(
    storage: PostgresStorage, postgres_schema: str, connection: Connection, kept: Schedule
) -> None:
    async with connection.transaction():
        await connection.execute(f'SELECT FROM "{postgres_schema}".schedule FOR UPDATE')
        passed = await storage.timetable.tick("shop", publishing, 10)

    assert passed == ScheduleTick(next_in=timedelta())
    assert (await storage.timetable.tick("shop", publishing, 10)).fired == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE {}.schedule SET revision = revision + 1",
        "UPDATE {}.schedule SET next_at = next_at - interval '1 microsecond'",
        "UPDATE {}.schedule SET next_at = NULL",
        "DELETE FROM {}.schedule",
    ],
)
async def test_a_row_that_changed_after_it_was_read_is_not_moved_and_publishes_nothing(
    storage: PostgresStorage,
    postgres_url: str,
    postgres_schema: str,
    connection: Connection,
    kept: Schedule,
    change: str,
) -> None:
    def decide(due: Due, now: datetime) -> ScheduleAdvance:
        with psycopg.connect(postgres_url) as other:
            other.execute(change.format(postgres_schema).encode())
        return publishing(due, now)

    # Every statement its own transaction: nothing but the guard is left to keep the promise (invariant 5).
    script = storage.enlisted().timetable.tick.script("shop", decide, 10, ())
    found = await run_async(EnlistedAsyncpg(connection), script)

    assert (found.fired, found.moved) == (0, 0)
    assert await claim(storage) == []
    assert [row.fired for row in (await storage.timetable.read()).schedules] in ([0], [])


async def test_what_another_process_declares_just_before_the_lock_is_not_retired(
    storage: PostgresStorage, make: Callable[[], PostgresStorage], connection: Connection, kept: Schedule
) -> None:
    other = make()
    other.now = NOON
    await other.open()

    class Beaten(EnlistedAsyncpg):
        """Before it locks the row, a worker that has the schedule in its code starts."""

        async def execute(self, statement: Statement) -> Sequence[Row]:
            if "FOR UPDATE" in statement.sql:
                await other.timetable.declare("shop", 0, ["nightly"], Declarer("shop/other", "2"))
            return await super().execute(statement)

    script = storage.enlisted().timetable.declare.script("shop", 0, [], Declarer("shop/this", "1"), ["nightly"])
    async with connection.transaction():
        found = await run_async(Beaten(connection), script)
    await other.close()

    assert found == Standing(unclaimed=("nightly",))
    assert [row.retired_at for row in (await storage.timetable.read()).schedules] == [None]


async def test_what_is_frozen_after_a_first_glance_at_it_stands_still(
    storage: PostgresStorage, make: Callable[[], PostgresStorage], connection: Connection, kept: Schedule
) -> None:
    class Freezing(EnlistedAsyncpg):
        """When its first statement has been answered, an operator freezes the app."""

        def __init__(self) -> None:
            super().__init__(connection)
            self._glanced = False

        async def execute(self, statement: Statement) -> Sequence[Row]:
            rows = await super().execute(statement)
            if not self._glanced:
                self._glanced = True
                await make().timetable.freeze("shop", "ann", "upgrade")
            return rows

    found = await run_async(
        Freezing(), storage.enlisted(clock=HandSet(NOON)).timetable.tick.script("shop", publishing, 10)
    )

    assert found == ScheduleTick(next_in=timedelta(), frozen=True)
    assert await claim(storage) == []


async def test_what_a_worker_takes_while_a_pause_waits_for_it_goes_on(
    storage: PostgresStorage, make: Callable[[], PostgresStorage], connection: Connection, another: Connection,
    kept: Schedule, postgres_schema: str,
) -> None:  # fmt: skip
    taken, left = (replace(draft(group=group), schedule="nightly") for group in ("mail", "post"))
    await storage.mailbox.publish([taken, left])
    transaction = connection.transaction()
    await transaction.start()
    claiming = storage.enlisted().mailbox.claim.script([ClaimRequest("mail", 1, ALL_LEVELS)], "worker", HOUR)
    (delivery,) = await run_async(EnlistedAsyncpg(connection), claiming)

    pausing = asyncio.create_task(make().timetable.rewrite(["nightly"], paused, NOTE))
    await blocked(another)
    await transaction.commit()
    await pausing

    assert await connection.fetchval(f'SELECT cancel_asked FROM "{postgres_schema}".delivery') is False
    assert (await storage.mailbox.settle([Settlement(delivery.claim, Done())], "worker")).lost == frozenset()
    (run,) = await storage.ledger.runs(None, None, 10, "nightly")
    assert (run.message_id, run.status, run.error) == (left.id, "cancelled", "its schedule was paused")


async def test_what_gets_away_to_its_groups_while_a_pause_waits_for_it_is_cancelled_there(
    storage: PostgresStorage, make: Callable[[], PostgresStorage], connection: Connection, another: Connection,
    kept: Schedule,
) -> None:  # fmt: skip
    parked = replace(draft("nobody.hears"), schedule="nightly")
    await storage.mailbox.publish([parked])
    await storage.upkeep.declare([Declaration("late", "shop", ("nobody.hears",), "a test")])
    transaction = connection.transaction()
    await transaction.start()
    await run_async(EnlistedAsyncpg(connection), storage.enlisted().upkeep.reroute.script(10))

    pausing = asyncio.create_task(make().timetable.rewrite(["nightly"], paused, NOTE))
    await blocked(another)
    await transaction.commit()
    await pausing

    (run,) = await storage.ledger.runs(None, None, 10, "nightly")
    assert (run.message_id, run.group, run.status) == (parked.id, "late", "cancelled")
    assert await storage.mailbox.claim([ClaimRequest("late", 1, ALL_LEVELS)], "worker", HOUR) == []


async def test_of_two_who_add_a_row_the_later_sees_the_others_and_its_own_stand(
    storage: PostgresStorage, make: Callable[[], PostgresStorage], connection: Connection, another: Connection
) -> None:
    theirs = replace(schedule("b"), edits={"by": "them"})
    transaction = connection.transaction()
    await transaction.start()
    joined = EnlistedAsyncpg(connection)
    await run_async(joined, storage.enlisted().timetable.rewrite.script(["b"], lambda *_: theirs, None))

    ours = asyncio.create_task(make().timetable.rewrite(["c", "b", "a"], adding, NOTE))
    await blocked(another)
    await transaction.commit()

    assert await ours == [schedule("c"), theirs, schedule("a")]
    assert (await storage.timetable.read()).schedules == (schedule("a"), theirs, schedule("c"))
    assert [note.subject for note in await storage.ledger.audit(None, 10)] == ["c", "a"]


async def test_what_is_rewritten_in_a_callers_transaction_is_decided_by_it(
    storage: PostgresStorage, connection: Connection, kept: Schedule
) -> None:
    timetable = storage.enlisted().timetable

    async def write() -> None:
        joined = EnlistedAsyncpg(connection)
        wanted = timetable.rewrite.script(["nightly", "new"], lambda name, _known, _now: schedule(name), NOTE)
        await run_async(joined, wanted)
        await run_async(joined, timetable.enter.script([Occurrence(draft(group="mail"))], NOTE))
        await run_async(joined, timetable.freeze.script("shop", "ann", "upgrade"))

    transaction = connection.transaction()
    await transaction.start()
    await write()
    await transaction.rollback()
    undone = await storage.timetable.read()
    async with connection.transaction():
        await write()
        seen = await run_async(EnlistedAsyncpg(connection), timetable.read.script(None, None))

    assert (undone.schedules, undone.freezes) == ((kept,), ())
    assert await storage.timetable.read() == seen
    assert [(row.name, row.revision) for row in seen.schedules] == [("new", 0), ("nightly", 1)]
    assert len(await claim(storage)) == 1


@pytest.mark.parametrize("text", ["{", "[]", "null", '"x"'])
async def test_a_layer_that_cannot_be_read_is_one_row_s_trouble(
    storage: PostgresStorage, postgres_schema: str, connection: Connection, kept: Schedule, text: str
) -> None:
    await storage.timetable.rewrite(["sound"], adding)
    await connection.execute(f"""UPDATE "{postgres_schema}".schedule SET edits = $1 WHERE name = 'nightly'""", text)

    found: dict[str, dict[str, object]] = {}

    def decide(due: Due, now: datetime) -> ScheduleAdvance:
        found[due.schedule.name] = due.schedule.layers
        return publishing(due, now)

    await storage.timetable.tick("shop", decide, 10)

    assert found == {"nightly": {"unreadable": text}, "sound": {}}
    assert len((await storage.timetable.read()).schedules) == 2
