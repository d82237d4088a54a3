"""What the doctor finds in a SQLite file that is not well."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta

from mainspring.model.symptom import Symptom, Tolerances
from mainspring.storage.sqlite import SqliteStorage
from tests.contract.acting import draft


def host() -> datetime:
    return datetime.now(UTC)


async def symptoms(
    storage: SqliteStorage, about: str, tolerances: Tolerances | None = None, clock: Callable[[], datetime] = host
) -> list[Symptom]:
    found = await storage.schema.examine(tolerances or Tolerances(), clock)
    return [each for each in found if each.about == about]


async def test_a_dropped_index_is_missed_and_made_again_by_what_is_advised(storage: SqliteStorage, path: str) -> None:
    well = await symptoms(storage, "indexes")
    with closing(sqlite3.connect(path)) as client:
        client.execute("DROP INDEX mainspring_delivery_ready")

        (missing,) = await symptoms(storage, "indexes")
        client.execute(missing.advice)

    assert [each.grade for each in well] == ["ok"]
    assert missing.summary == "mainspring_delivery_ready is missing: what needs it reads the whole table instead"
    assert missing.advice.startswith("CREATE INDEX mainspring_delivery_ready ON mainspring_delivery (group_name, ")
    assert await symptoms(storage, "indexes") == well


async def test_a_clock_that_was_ahead_makes_the_time_stand_still(storage: SqliteStorage) -> None:
    await storage.mailbox.publish([draft(group="mailer")])

    (behind,) = await symptoms(storage, "clock", clock=lambda: host() - timedelta(minutes=5))
    (right,) = await symptoms(storage, "clock")

    (a_little,) = await symptoms(storage, "clock", clock=lambda: host() - timedelta(seconds=30))

    assert (behind.grade, a_little.grade, right.grade) == ("error", "warning", "ok")
    assert behind.summary.startswith("this file was used under a clock ")
    assert behind.summary.endswith("the time stands still here, and nothing new falls due")
    assert behind.advice.endswith("else stop all that use the file, and: mainspring doctor --mend-clock")
    assert a_little.advice == "it goes on by itself"


async def test_a_log_that_grows_is_told_with_its_size(storage: SqliteStorage, path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM mainspring_message")
        await storage.mailbox.publish([draft(group="mailer")])

        (grown,) = await symptoms(storage, "log", Tolerances(log_bytes=1))
        (tolerated,) = await symptoms(storage, "log")

    assert (grown.grade, tolerated.grade) == ("warning", "ok")
    assert grown.summary.startswith("the write-ahead log has grown to 0.")
    assert grown.advice == f"end it (lsof {path}-wal says who has it open); the log is reused then"
