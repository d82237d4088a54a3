"""The timetable in a file: idle looks write nothing, a change under its eyes stops a look, callers may join."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from mainspring.model.schedule import NEVER, Due, Note, Occurrence, Schedule, ScheduleAdvance, ScheduleTick
from mainspring.model.worker import Declarer
from mainspring.storage.enlisted.sqlite import EnlistedSqlite
from mainspring.storage.script import run
from mainspring.storage.sqlite import SqliteStorage
from tests.integration.sqlite.acting import asked_aside, claim, draft

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BY = Declarer("shop/a", "1")
NOTE = Note("ann", "edit")


def schedule(name: str = "nightly", next_at: datetime | None = NOON) -> Schedule:
    return Schedule(name, "shop", "code", {}, NOON, NOON, NOON, next_at)


def publishing(due: Due, now: datetime) -> ScheduleAdvance:
    return ScheduleAdvance(now, now + HOUR, (Occurrence(draft()),))


def _declared(row: Schedule, now: datetime) -> Schedule:
    return replace(row, declared_at=now, next_at=now + HOUR)


@pytest.fixture
def mine(storage: SqliteStorage, path: str) -> Iterator[sqlite3.Connection]:
    """A connection as an application has it."""
    with closing(sqlite3.connect(path)) as connection:
        yield connection


@pytest.fixture
async def kept(storage: SqliteStorage) -> Schedule:
    """One schedule, due at noon, which it is."""
    storage.now = NOON
    await storage.timetable.rewrite(["nightly"], lambda _name, _known, _now: schedule())
    return schedule()


async def test_an_idle_look_writes_nothing(storage: SqliteStorage, mine: sqlite3.Connection) -> None:
    running, waiting = (replace(draft(), schedule="nightly") for _ in range(2))
    await storage.timetable.rewrite(["nightly"], lambda _name, _known, now: _declared(schedule(), now))
    await storage.timetable.enter([Occurrence(running), Occurrence(waiting, NEVER)], NOTE)
    await storage.timetable.declare("shop", 0, ["nightly"], BY)
    version = mine.execute("PRAGMA data_version").fetchone()

    for _ in range(5):
        found = await storage.timetable.tick("shop", publishing, 10)
        await storage.timetable.declare("shop", 0, ["nightly"], BY, ["nightly"])
        await storage.timetable.read()

    assert (found.waiting, found.released, found.fired) == (True, 0, 0)
    assert mine.execute("PRAGMA data_version").fetchone() == version


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE mainspring_schedule SET revision = revision + 1",
        "UPDATE mainspring_schedule SET next_at = next_at - 1",
        "UPDATE mainspring_schedule SET next_at = NULL",
        "DELETE FROM mainspring_schedule",
    ],
)
async def test_a_row_that_changed_after_it_was_read_is_not_moved_and_publishes_nothing(
    storage: SqliteStorage, mine: sqlite3.Connection, path: str, kept: Schedule, change: str
) -> None:
    def decide(due: Due, now: datetime) -> ScheduleAdvance:
        with closing(sqlite3.connect(path)) as other, other:
            other.execute(change)
        return publishing(due, now)

    # No transaction before the first write: nothing but the guard is left to keep the promise (invariant 5).
    found = run(EnlistedSqlite(mine), storage.enlisted().timetable.tick.script("shop", decide, 10, ()))
    mine.commit()

    assert (found.fired, found.moved) == (0, 0)
    assert await claim(storage) == []
    assert [row.fired for row in (await storage.timetable.read()).schedules] in ([0], [])


async def test_what_is_rewritten_in_a_callers_transaction_is_decided_by_it(
    storage: SqliteStorage, mine: sqlite3.Connection, kept: Schedule
) -> None:
    timetable = storage.enlisted().timetable

    def write() -> None:
        joined = EnlistedSqlite(mine)
        run(joined, timetable.rewrite.script(["nightly", "new"], lambda name, _known, _now: schedule(name), NOTE))
        run(joined, timetable.enter.script([Occurrence(draft())], NOTE))
        run(joined, timetable.freeze.script("shop", "ann", "upgrade"))

    write()
    mine.rollback()
    undone = await storage.timetable.read()
    write()
    seen = run(EnlistedSqlite(mine), timetable.read.script(None, None))
    mine.commit()

    assert (undone.schedules, undone.freezes) == ((kept,), ())
    assert await storage.timetable.read() == seen
    assert [(row.name, row.revision) for row in seen.schedules] == [("new", 0), ("nightly", 1)]
    assert len(await claim(storage)) == 1


async def test_a_joined_rewrite_that_is_refused_has_written_nothing(
    storage: SqliteStorage, mine: sqlite3.Connection, path: str
) -> None:
    rows = {"a": schedule("a"), "b": Schedule("b", "shop", "code", {"odd": object()}, NOON, NOON, NOON)}

    with pytest.raises(TypeError):
        run(
            EnlistedSqlite(mine),
            storage.enlisted().timetable.rewrite.script(["a", "b"], lambda name, _known, _now: rows[name], NOTE),
        )
    mine.commit()

    assert (await storage.timetable.read()).schedules == ()
    assert asked_aside(path, "SELECT * FROM mainspring_audit") == []


@pytest.mark.parametrize("operation", ["rewrite", "enter", "freeze", "thaw"])
async def test_what_may_join_takes_the_write_lock_first(
    storage: SqliteStorage, mine: sqlite3.Connection, path: str, operation: str
) -> None:
    timetable = storage.enlisted().timetable
    script = {
        "rewrite": timetable.rewrite.script(["nightly"], lambda _name, known, _now: known, None),
        "enter": timetable.enter.script([Occurrence(draft())], NOTE),
        "freeze": timetable.freeze.script("shop", "ann", "upgrade"),
        "thaw": timetable.thaw.script("shop", "ann"),
    }[operation]

    EnlistedSqlite(mine).execute(next(script))

    with closing(sqlite3.connect(path, timeout=0)) as other, pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    mine.rollback()


async def test_a_clock_that_is_set_back_passes_no_occurrence_over_and_fires_none_twice(storage: SqliteStorage) -> None:
    await storage.timetable.rewrite(["nightly"], lambda _name, _known, now: schedule(next_at=now))
    host = storage._shared.dialect.clock._host
    first = await storage.timetable.tick("shop", publishing, 10)

    storage._shared.dialect.clock._host = lambda: host() - 3_600_000_000
    again = await storage.timetable.tick("shop", publishing, 10)

    assert (first.fired, again.fired) == (1, 0)
    assert again.next_in is not None
    assert timedelta() < again.next_in <= HOUR
    assert again == ScheduleTick(next_in=again.next_in)


@pytest.mark.parametrize("text", ["{", "[]", "null", '"x"'])
async def test_a_layer_that_cannot_be_read_is_one_row_s_trouble(
    storage: SqliteStorage, mine: sqlite3.Connection, kept: Schedule, text: str
) -> None:
    await storage.timetable.rewrite(["sound"], lambda _name, _known, _now: schedule("sound"))
    with mine:
        mine.execute("UPDATE mainspring_schedule SET edits = ? WHERE name = 'nightly'", (text,))

    found: dict[str, dict[str, object]] = {}

    def decide(due: Due, now: datetime) -> ScheduleAdvance:
        found[due.schedule.name] = due.schedule.layers
        return publishing(due, now)

    await storage.timetable.tick("shop", decide, 10)

    assert found == {"nightly": {"unreadable": text}, "sound": {}}
    assert len((await storage.timetable.read()).schedules) == 2
