"""The schedules that live processes have in their code; those that none has any more are retired (invariant 13)."""

from collections.abc import Collection
from datetime import timedelta

import pytest

from mainspring.model.schedule import NEVER, Standing
from mainspring.model.verdict import DONE
from mainspring.model.views import Declaration
from mainspring.model.worker import SILENT_AFTER, Declarer
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    TICK,
    claim,
    claim_one,
    declare,
    found,
    settle,
    statuses,
    turn,
)
from tests.contract.scheduling import NAME, NOTE, edit, hourly, keep, kept, look, occurrence, queue, schedule

pytestmark = pytest.mark.psycopg

OLD, NEW, HAND = Declarer("shop/old", "1"), Declarer("shop/new", "2"), Declarer("shop", "")


async def said(storage: Storage, by: Declarer, *names: str, version: int = 0, app: str = "shop") -> Standing:
    """Declare, and retire whatever no live process has."""
    first = await storage.timetable.declare(app, version, names, by)
    if not first.unclaimed:
        return first
    return await storage.timetable.declare(app, version, names, by, first.unclaimed)


async def retired(storage: Storage) -> list[str]:
    return [row.name for row in (await storage.timetable.read()).schedules if row.retired_at is not None]


async def rounds(storage: Storage, start: timedelta, end: timedelta, *each: tuple[Declarer, Collection[str]]) -> None:
    """Let time pass, in which these declare the same again, as workers do."""
    at = start
    while at <= end:
        turn(storage, at)
        for by, names in each:
            await said(storage, by, *names)
        at += 30 * SECOND


async def test_what_no_live_process_has_is_retired_at_once(storage: Storage) -> None:
    await keep(storage, schedule("kept"), schedule("gone"))
    await said(storage, OLD, "kept", "gone")
    await storage.upkeep.deregister(OLD.worker, OLD.start_id)

    turn(storage, SECOND)
    first = await storage.timetable.declare("shop", 0, ["kept"], NEW)
    second = await storage.timetable.declare("shop", 0, ["kept"], NEW, first.unclaimed)

    assert first == Standing(unclaimed=("gone",))
    assert second == Standing(retired=("gone",))
    row = await kept(storage, "gone")
    assert (row.retired_at, row.revision) == (NOON + SECOND, 1)
    assert await storage.timetable.declare("shop", 0, ["kept"], NEW, ["gone"]) == Standing()


async def test_only_what_code_of_the_same_app_has_defined_is_retired(storage: Storage) -> None:
    await keep(
        storage,
        schedule("code"),
        schedule("by hand", origin="api"),
        schedule("crm's", app="crm"),
        schedule("long gone", retired_at=NOON - DAY),
        schedule("newer", version=3),
    )

    assert (await said(storage, NEW, version=2)).retired == ("code",)


@pytest.mark.parametrize(("older", "newer"), [(0, 0), (1, 2)])
async def test_a_live_process_of_an_older_release_keeps_what_it_has(storage: Storage, older: int, newer: int) -> None:
    await keep(storage, schedule("old", version=older))

    await said(storage, OLD, "old", version=older)

    assert await said(storage, NEW, version=newer) == Standing()


async def test_a_process_of_an_older_version_neither_keeps_nor_retires_what_a_newer_one_has_declared(
    storage: Storage,
) -> None:
    await keep(storage, schedule("both", version=2), schedule("newer", version=2))

    await said(storage, OLD, "both", version=1)

    assert await retired(storage) == []
    assert (await said(storage, NEW, version=3)).retired == ("both", "newer")


async def test_a_silent_process_counts_until_another_was_there_for_all_of_its_silence(storage: Storage) -> None:
    await keep(storage, schedule("old"))
    await said(storage, OLD, "old")

    await rounds(storage, SECOND, SILENT_AFTER, (NEW, ()))
    assert await retired(storage) == []

    await rounds(storage, SILENT_AFTER, SILENT_AFTER + MINUTE, (NEW, ()))
    assert await retired(storage) == ["old"]


async def test_after_an_outage_or_a_freeze_nothing_is_retired(storage: Storage) -> None:
    await keep(storage, schedule("old"))
    await rounds(storage, SECOND, 2 * SILENT_AFTER, (OLD, ["old"]), (NEW, ()))

    turn(storage, 3 * HOUR)
    after = await said(storage, NEW)

    assert (after, await retired(storage)) == (Standing(), [])


async def test_what_is_retired_though_a_process_has_it_is_reported_to_that_process(storage: Storage) -> None:
    await keep(storage, schedule("old", retired_at=NOON), schedule("another", retired_at=NOON))
    await said(storage, NEW, version=2)

    assert await said(storage, OLD, "old", version=1) == Standing(returned=("old",))


async def test_what_a_newer_version_has_retired_is_reported_when_no_process_of_a_newer_one_is_live(
    storage: Storage,
) -> None:
    await keep(storage, schedule("newer", version=2, retired_at=NOON - HOUR), schedule("defined", version=2))
    await said(storage, NEW, "defined", version=3)

    assert (await said(storage, OLD, "newer", "defined", version=1)).returned == ()
    await storage.upkeep.deregister(NEW.worker, NEW.start_id)
    await said(storage, Declarer("crm/new", "3"), version=3, app="crm")

    assert (await said(storage, OLD, "newer", "defined", version=1)).returned == ("newer",)


async def test_a_declaration_by_hand_counts_for_some_minutes(storage: Storage) -> None:
    await keep(storage, schedule("early"))
    await said(storage, HAND, "early")

    turn(storage, SILENT_AFTER)
    assert await said(storage, NEW) == Standing()
    turn(storage, SILENT_AFTER + TICK)
    assert (await said(storage, NEW)).retired == ("early",)


async def test_a_process_of_a_release_that_lists_no_schedules_keeps_what_was_declared_in_the_last_hour(
    storage: Storage,
) -> None:
    await keep(storage, schedule("lately"), schedule("long ago", declared_at=NOON - HOUR))
    # As such a release declares its groups, and nothing else.
    await storage.upkeep.declare([Declaration("mailer", "shop", ("orders.*",), "shop:mail")], OLD)

    assert (await said(storage, NEW)).retired == ("long ago",)
    assert (await storage.timetable.declarers("lately")) == [OLD]


async def test_what_has_not_begun_is_cancelled_with_it(storage: Storage) -> None:
    await declare(storage, "mailer")
    await keep(storage, schedule(next_at=NOON))
    await look(storage, hourly("mailer"))
    begun = await claim_one(storage)
    waiting = await queue(storage, 1, 2)
    await keep(storage, schedule(next_at=NOON + HOUR))

    assert (await said(storage, NEW)).retired == (NAME,)

    assert begun.message_id == occurrence(NOON).draft.id
    for each in waiting:
        (run,) = (await found(storage, each)).runs
        assert (run.status, run.error, run.schedule) == ("cancelled", "its schedule was removed from the code", NAME)
    assert await statuses(storage, begun.message_id) == []
    assert (await look(storage)).next_in is None


@pytest.mark.parametrize("where", ["ready", "waiting", "parked"])
async def test_what_was_asked_for_by_hand_outlives_its_retirement(storage: Storage, where: str) -> None:
    await keep(storage, schedule(next_at=None))
    if where != "parked":
        await declare(storage, "mailer")
    group, due_at = None if where == "parked" else "mailer", NEVER if where == "waiting" else None
    first, of_the_rhythm = (occurrence(NOON + hour * HOUR, group=group, due_at=due_at) for hour in (0, 1))
    asked = occurrence(NOON + 2 * HOUR, group=group, due_at=due_at, manual=True)
    turn(storage, 3 * HOUR)
    if where == "waiting":
        await storage.timetable.enter([first], NOTE)
    held = await claim(storage)
    await storage.timetable.enter([of_the_rhythm], NOTE)
    await storage.timetable.enter([asked], NOTE)

    assert (await said(storage, NEW)).retired == (NAME,)

    assert await statuses(storage, of_the_rhythm.draft.id) == ["cancelled"]
    assert await statuses(storage, asked.draft.id) == []
    for each in held:
        await settle(storage, each, DONE)
    await declare(storage, "mailer")
    await storage.upkeep.reroute(100, None)
    await look(storage)
    assert (await claim_one(storage)).message_id == asked.draft.id


async def test_its_declarers_are_the_processes_that_have_said_so_lately(storage: Storage) -> None:
    await keep(storage, schedule())
    await said(storage, OLD, NAME)
    await said(storage, HAND, NAME)
    await said(storage, NEW, "another")

    assert await storage.timetable.declarers(NAME) == [HAND, OLD]
    turn(storage, SILENT_AFTER + TICK)
    assert await storage.timetable.declarers(NAME) == []


async def test_a_schedule_is_confirmed_every_few_minutes_for_releases_that_go_by_that(storage: Storage) -> None:
    await keep(storage, schedule("a"), schedule("b"), schedule("crm's", app="crm"))

    async def times() -> list[timedelta]:
        await storage.timetable.declare("shop", 0, ["a", "crm's", "of no schedule"], OLD)
        return [row.declared_at - NOON for row in (await storage.timetable.read()).schedules]

    turn(storage, 5 * MINUTE - TICK)
    assert await times() == [timedelta()] * 3
    turn(storage, 5 * MINUTE)
    assert await times() == [5 * MINUTE, timedelta(), timedelta()]
    assert {row.revision for row in (await storage.timetable.read()).schedules} == {0}


async def test_a_pause_of_an_operators_outlives_all_that_code_declares(storage: Storage) -> None:
    await keep(storage, schedule())
    await edit(storage, paused_at=NOON, paused_by="ann", pause_reason="too loud")

    turn(storage, HOUR)
    await said(storage, OLD, NAME)
    await look(storage, hourly())

    row = await kept(storage)
    assert (row.paused_at, row.paused_by, row.pause_reason, row.fired) == (NOON, "ann", "too loud", 0)
    assert (row.declared_at, row.retired_at) == (NOON + HOUR, None)
