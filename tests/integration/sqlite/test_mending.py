"""The clock of a file that was used under a clock far ahead: it is said, and mended, and nothing is doubled or lost."""

import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import time_machine

from mainspring import Mainspring, errors, every
from mainspring.app.observe.doctor import mended
from mainspring.model.message import Draft
from mainspring.model.schedule import NEVER, Note, Occurrence
from mainspring.model.verdict import Done, Failure, Retry, Settlement
from mainspring.storage.sqlite import SqliteStorage, inspection
from mainspring.storage.sqlite.inspection import mend
from mainspring.storage.sqlite.values import instant, micros
from tests.integration.sqlite.acting import asked_aside, claim, draft

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
AHEAD = timedelta(days=730)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "queue.db")


@pytest.fixture
async def wronged(path: str) -> AsyncIterator[SqliteStorage]:
    """A storage on a file that one message was written to under a clock two years ahead."""
    storage = SqliteStorage(path)
    await storage.open()
    await storage.schema.migrate()
    with time_machine.travel(NOON + AHEAD, tick=False):
        await storage.mailbox.publish([draft()])
    yield storage
    await storage.close()


class _Rows(list[Any]):
    """Rows that were fetched already."""

    def fetchall(self) -> list[Any]:
        return self


class _With:
    """The driver, by a connection of another class."""

    def __init__(self, factory: type[sqlite3.Connection]) -> None:
        self._factory = factory

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)

    def connect(self, path: str, **options: Any) -> sqlite3.Connection:
        return sqlite3.connect(path, factory=self._factory, **options)


async def opened(path: str) -> SqliteStorage:
    storage = SqliteStorage(path)
    await storage.open()
    return storage


async def test_a_file_whose_time_stands_still_says_so_in_health_and_in_the_log(
    wronged: SqliteStorage, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "mainspring.storage")
    with time_machine.travel(NOON, tick=False):
        async with Mainspring(f"sqlite:///{path}", name="shop") as app:
            health = await app.health()

    (check,) = [each for each in health.checks if each.name == "clock"]
    assert (health.status, check.status) == ("degraded", "degraded")
    assert check.data == {"ahead": AHEAD.total_seconds()}
    assert "63,072,000 s ahead of this host's" in check.summary
    assert check.summary.endswith("mainspring doctor --mend-clock")
    assert sum("the time stands still" in line for line in caplog.messages) == 1


async def test_a_clock_that_is_corrected_by_a_minute_is_nobodys_concern(path: str) -> None:
    storage = await opened(path)
    await storage.schema.migrate()
    with time_machine.travel(NOON + MINUTE, tick=False):
        await storage.mailbox.publish([draft()])
    await storage.close()
    with time_machine.travel(NOON, tick=False):
        async with Mainspring(f"sqlite:///{path}", name="shop") as app:
            health = await app.health()

    assert "clock" not in {each.name for each in health.checks}
    assert mend(path, "mainspring", lambda: micros(NOON)) == timedelta()


async def test_a_file_that_is_in_use_is_not_mended(wronged: SqliteStorage, path: str) -> None:
    with pytest.raises(errors.StorageUnavailable, match="is in use: stop every worker"):
        mend(path, "mainspring", lambda: micros(NOON))

    assert asked_aside(path, "SELECT at FROM mainspring_clock") == [(micros(NOON + AHEAD),)]


async def test_a_file_that_was_opened_a_moment_ago_is_not_mended(wronged: SqliteStorage, path: str) -> None:
    await wronged.close()
    late: list[sqlite3.Connection] = []

    class Slow(sqlite3.Connection):
        """After each step of the mending a worker tries to come in."""

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            rows = super().execute(sql, *values)
            if not late and "PRAGMA" in sql:
                rows = _Rows(rows.fetchall())  # type: ignore[assignment]
                with suppress(sqlite3.OperationalError):
                    late.append(sqlite3.connect(path, timeout=0, isolation_level=None))
                    late[0].execute("PRAGMA journal_mode = WAL")
                    late[0].execute("SELECT at FROM mainspring_clock").fetchall()
            return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspection, "sqlite3", _With(Slow))
        with pytest.raises(errors.StorageUnavailable, match="is in use: stop every worker"):
            mend(path, "mainspring", lambda: micros(NOON))
    late[0].close()

    assert asked_aside(path, "SELECT at FROM mainspring_clock") == [(micros(NOON + AHEAD),)]


async def test_a_file_of_which_it_cannot_be_known_whether_it_is_in_use_is_not_mended(
    wronged: SqliteStorage, path: str
) -> None:
    await wronged.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as idle:
        idle.execute("PRAGMA journal_mode = DELETE")
        assert idle.execute("SELECT at FROM mainspring_clock").fetchall() == [(micros(NOON + AHEAD),)]
        with pytest.raises(errors.StorageUnavailable, match=r"has no write-ahead log, .*: start a worker on it and"):
            mend(path, "mainspring", lambda: micros(NOON))

    await (await opened(path)).close()
    assert mend(path, "mainspring", lambda: micros(NOON)) == AHEAD


async def test_the_clock_of_a_namespace_is_mended_and_no_other(path: str) -> None:
    def app(namespace: str | None) -> Mainspring:
        return Mainspring(f"sqlite:///{path}", name="shop", namespace=namespace, auto_migrate=True)

    with time_machine.travel(NOON + AHEAD, tick=False):
        for namespace in (None, "at_work", "staging"):
            async with app(namespace) as wronged:
                await wronged.publish("orders.placed", 1, delay="1h")
    tables = {"at_work": '"mainspring-at__work', "staging": '"mainspring-staging', "": '"mainspring'}

    def clocks() -> dict[str, datetime]:
        return {
            name: instant(asked_aside(path, f'SELECT at FROM {table}_clock"')[0][0]) for name, table in tables.items()
        }

    with time_machine.travel(NOON, tick=False):
        first = mended(app("at_work")), clocks()
        second = mended(app("staging")), clocks()

    said = "the clock of the file was set back by 63,072,000 s"
    assert (first[0].summary, second[0].summary) == (said, said)
    assert first[1] == {"at_work": NOON, "staging": NOON + AHEAD, "": NOON + AHEAD}
    assert second[1] == {"at_work": NOON, "staging": NOON, "": NOON + AHEAD}
    assert asked_aside(path, 'SELECT due_at FROM "mainspring-at__work_parked"') == [(micros(NOON + HOUR),)]


async def test_what_sqlite_says_of_a_file_is_a_finding(wronged: SqliteStorage, path: str) -> None:
    await wronged.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE mainspring_lease")
    with time_machine.travel(NOON, tick=False):
        found = mended(Mainspring(f"sqlite:///{path}"))

    assert (found.about, found.grade) == ("mending", "error")
    assert found.summary.startswith(
        "the database has no Mainspring schema, or not all of it (no such table: mainspring_lease)"
    )
    assert asked_aside(path, "SELECT at FROM mainspring_clock") == [(micros(NOON + AHEAD),)]


async def test_what_was_reckoned_from_the_wrong_clock_stands_to_the_right_one_as_before(
    wronged: SqliteStorage, path: str
) -> None:
    with time_machine.travel(NOON + AHEAD, tick=False):
        (held,) = await claim(wronged, hold=MINUTE)
        await wronged.mailbox.publish([draft()])
        (failing,) = await claim(wronged, hold=MINUTE)
        await wronged.mailbox.settle(
            [Settlement(failing.claim, Retry(HOUR, Failure("error", "ValueError", "")))], "worker"
        )
        await wronged.mailbox.publish([draft(delay=2 * HOUR)])
        await wronged.leases.acquire("leader", "node-1", MINUTE)
    await wronged.close()

    ahead = mend(path, "mainspring", lambda: micros(NOON))
    storage = await opened(path)
    with time_machine.travel(NOON, tick=False):
        early = await claim(storage), await storage.mailbox.reap(["mailer"], "other", MINUTE)
        before = await storage.leases.acquire("leader", "node-2", MINUTE)
    with time_machine.travel(NOON + MINUTE, tick=False):
        reaped = await storage.mailbox.reap(["mailer"], "other", MINUTE)
        after = await storage.leases.acquire("leader", "node-2", MINUTE)
    with time_machine.travel(NOON + HOUR, tick=False):
        retried = await claim(storage)
    with time_machine.travel(NOON + 2 * HOUR, tick=False):
        delayed = await claim(storage)
    await storage.close()

    assert ahead == AHEAD
    assert early == ([], None)
    assert before is None
    assert after is not None
    assert reaped is not None
    assert (reaped.id, reaped.deaths) == (held.id, 0)
    assert [each.id for each in retried] == [failing.id]
    assert [(each.scheduled_for, each.published_at) for each in delayed] == [(NOON + 2 * HOUR, NOON)]


async def test_what_was_asked_for_later_by_the_right_clock_is_left_alone(path: str) -> None:
    storage = await opened(path)
    await storage.schema.migrate()
    with time_machine.travel(NOON, tick=False):
        await storage.mailbox.publish([draft(delay=HOUR), draft(delay=3 * AHEAD)])
    with time_machine.travel(NOON + AHEAD, tick=False):
        await storage.mailbox.publish([Draft(uuid4(), "other", b"{}")])
    await storage.close()

    mend(path, "mainspring", lambda: micros(NOON + MINUTE))

    due = asked_aside(path, "SELECT due_at FROM mainspring_delivery ORDER BY due_at")
    assert due == [(micros(NOON + HOUR),), (micros(NOON + 3 * AHEAD),)]


async def test_what_the_right_clock_has_told_of_a_message_is_kept(path: str) -> None:
    storage = await opened(path)
    await storage.schema.migrate()
    with time_machine.travel(NOON, tick=False):
        parked = replace(draft(delay=HOUR), group=None)
        await storage.mailbox.publish([replace(draft(delay=HOUR), expires_in=2 * HOUR), parked])
    with time_machine.travel(NOON + AHEAD, tick=False):
        await storage.mailbox.publish([draft("other")])
    await storage.close()

    mend(path, "mainspring", lambda: micros(NOON + MINUTE))

    due = (micros(NOON + HOUR), micros(NOON + HOUR))
    assert asked_aside(path, "SELECT due_at, scheduled_for FROM mainspring_delivery WHERE group_name = 'mailer'") == [
        due
    ]
    assert asked_aside(path, "SELECT due_at, scheduled_for FROM mainspring_parked") == [due]
    expiry = "SELECT expires_at FROM mainspring_message WHERE expires_at IS NOT NULL"
    assert asked_aside(path, expiry) == [(micros(NOON + 2 * HOUR),)]


async def test_what_waits_for_an_earlier_run_starts_when_that_is_over(path: str) -> None:
    storage = await opened(path)
    await storage.schema.migrate()
    running, waiting = (replace(draft(), schedule="nightly") for _ in range(2))
    with time_machine.travel(NOON + AHEAD, tick=False):
        await storage.timetable.enter([Occurrence(running), Occurrence(waiting, NEVER)], Note("ann", "trigger"))
    await storage.close()

    mend(path, "mainspring", lambda: micros(NOON))
    storage = await opened(path)
    with time_machine.travel(NOON, tick=False):
        (held,) = await claim(storage)
        await storage.mailbox.settle([Settlement(held.claim, Done())], "worker")
        found = await storage.timetable.tick("shop", lambda _due, _now: None, 10)
        (next_one,) = await claim(storage)
    await storage.close()

    assert held.message_id == running.id
    assert found.released == 1
    assert next_one.message_id == waiting.id


@pytest.mark.parametrize("later", [MINUTE, 2 * HOUR, 25 * HOUR], ids=["a minute", "two hours", "a day"])
async def test_a_schedule_goes_on_from_the_right_time_however_late_it_is_declared(path: str, later: timedelta) -> None:
    def started() -> Mainspring:
        app = Mainspring(f"sqlite:///{path}", name="shop", auto_migrate=True)

        @app.recurring(every("1h"))
        async def hourly() -> None:
            pass

        return app

    with time_machine.travel(NOON + AHEAD, tick=False):
        async with started() as app:
            await app.declare()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE mainspring_schedule SET base_at = next_at")  # as if it had occurred then
        connection.commit()
    mend(path, "mainspring", lambda: micros(NOON))
    with time_machine.travel(NOON + later, tick=False):
        async with started() as app:
            await app.declare()
            (schedule,) = await app.schedules.list()

    assert schedule.next_at is not None
    assert NOON + later < schedule.next_at <= NOON + later + HOUR


async def test_every_instant_that_is_stored_has_its_place_in_the_mending(wronged: SqliteStorage, path: str) -> None:
    await wronged.close()
    with closing(sqlite3.connect(path)) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        instants = {
            (table.removeprefix("mainspring_"), column[1])
            for table in tables
            if table.startswith("mainspring_")
            for column in connection.execute(f"PRAGMA table_info({table})")
            if column[1].endswith("_at") or column[1] in ("at", "until", "since", "scheduled_for")
        }

    lists = (*inspection._MOVED.items(), *inspection._HELD_BACK.items())
    named = {(table, column) for table, columns in lists for column in columns}
    named |= {(table, column) for table, column, _ in inspection._DELIVERIES}
    assert instants - _KEPT - named == set()


_KEPT = {("clock", "at"), ("migration", "applied_at"), ("measure", "at"), ("schedule", "next_at")}
"""Set by itself, of no consequence, removed, and reckoned again by the next worker."""
