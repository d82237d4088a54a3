"""The clock of a file, when the host's is set back."""

from datetime import UTC, datetime, timedelta

import time_machine

from mainspring.storage.sqlite import SqliteStorage
from mainspring.storage.sqlite.values import micros
from tests.integration.sqlite.acting import asked_aside, claim, draft

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


async def test_a_clock_set_back_a_minute_hides_nothing_and_time_never_goes_back(storage: SqliteStorage) -> None:
    with time_machine.travel(NOON, tick=False):
        await storage.mailbox.publish([draft()])
    with time_machine.travel(NOON - MINUTE, tick=False):
        (taken,) = await claim(storage)
        roster = await storage.ledger.roster()

    assert taken.claimed_at == NOON
    assert roster.now == NOON


async def test_another_process_and_a_restart_know_the_time_too(storage: SqliteStorage, path: str) -> None:
    with time_machine.travel(NOON, tick=False):
        await storage.mailbox.publish([draft()])
    restarted = SqliteStorage(path)
    await restarted.open()

    with time_machine.travel(NOON - MINUTE, tick=False):
        (taken,) = await claim(restarted)

    await restarted.close()
    assert taken.claimed_at == NOON


async def test_a_process_that_begins_with_a_write_does_not_set_the_time_back(storage: SqliteStorage, path: str) -> None:
    with time_machine.travel(NOON, tick=False):
        await storage.mailbox.publish([draft()])
    restarted = SqliteStorage(path)
    await restarted.open()

    with time_machine.travel(NOON - MINUTE, tick=False):
        await restarted.timetable.freeze("shop", "ann", "upgrade")
        sheet = await restarted.timetable.read()

    await restarted.close()
    assert [each.at for each in sheet.freezes] == [NOON]
    assert asked_aside(path, "SELECT at FROM mainspring_clock") == [(micros(NOON),)]


async def test_a_delay_counts_from_the_time_that_is_told(storage: SqliteStorage) -> None:
    with time_machine.travel(NOON, tick=False):
        await storage.mailbox.publish([draft()])
        await claim(storage)
    with time_machine.travel(NOON - MINUTE, tick=False):
        await storage.mailbox.publish([draft()])
        (taken,) = await claim(storage)

    assert taken.due_at == NOON


async def test_a_hand_set_clock_leaves_the_mark_alone(storage: SqliteStorage, path: str) -> None:
    before = asked_aside(path, "SELECT at FROM mainspring_clock")

    storage.now = NOON
    await storage.mailbox.publish([draft()])
    (taken,) = await claim(storage)

    assert taken.claimed_at == NOON
    assert asked_aside(path, "SELECT at FROM mainspring_clock") == before
