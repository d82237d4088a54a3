"""Occurrences that wait for an earlier run of their schedule: released one after the other, when it has ended."""

import asyncio

import pytest

from mainspring.model.schedule import NEVER, ScheduleTick
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import DONE, Bury, Cancel, Release, Retry, Verdict
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
    HOUR,
    MINUTE,
    NOON,
    claim,
    claim_one,
    counts,
    declare,
    draft,
    failure,
    found,
    ids,
    listed,
    publish,
    reap,
    settle,
    siblings,
    statuses,
    the_copy,
    turn,
)
from tests.contract.scheduling import NAME, NOTE, edit, keep, kept, look, occurrence, queue, remove, schedule

NOTHING = ScheduleTick()


async def running(storage: Storage, name: str = NAME) -> None:
    """An earlier run, that nobody holds yet."""
    await publish(storage, draft(group="mailer", schedule=name))


async def test_what_waits_is_never_due(storage: Storage) -> None:
    await running(storage)
    (waiting,) = await queue(storage, 1)
    earlier = await claim_one(storage)

    turn(storage, 365 * DAY)

    copy = await the_copy(storage, waiting)
    assert (copy.state, copy.due_at, copy.scheduled_for) == ("scheduled", NEVER, NOON + HOUR)
    assert await claim(storage) == []
    reaped = await reap(storage)
    assert reaped is not None
    assert reaped.message_id == earlier.message_id


@pytest.mark.parametrize(
    "verdict", [DONE, Bury(failure()), Cancel("obsolete")], ids=lambda verdict: type(verdict).__name__
)
async def test_what_waits_is_released_in_order_when_the_earlier_run_is_over(storage: Storage, verdict: Verdict) -> None:
    await running(storage)
    first, second = await queue(storage, 1, 2)
    earlier = await claim_one(storage)
    before = await look(storage)

    turn(storage, MINUTE)
    await settle(storage, earlier, verdict)
    after = await look(storage)

    assert before == ScheduleTick(waiting=True)
    assert after == ScheduleTick(released=1, waiting=True)
    (delivery,) = await claim(storage)
    assert (delivery.message_id, delivery.due_at) == (first, NOON + MINUTE)
    assert await look(storage) == ScheduleTick(waiting=True)
    await settle(storage, delivery, verdict)
    assert await look(storage) == ScheduleTick(released=1)
    assert (await claim_one(storage)).message_id == second
    assert await look(storage) == NOTHING


async def test_a_cancelled_run_lets_the_next_one_start(storage: Storage) -> None:
    await running(storage)
    (waiting,) = await queue(storage, 1)
    (earlier,) = await listed(storage, "ready")

    await storage.mailbox.cancel(earlier, "obsolete")

    assert (await look(storage)).released == 1
    assert (await claim_one(storage)).message_id == waiting


async def test_a_run_in_retry_or_held_or_lapsed_is_not_over(storage: Storage) -> None:
    await running(storage)
    await queue(storage, 1)

    assert await look(storage) == ScheduleTick(waiting=True)  # ready
    held = await claim_one(storage)
    assert await look(storage) == ScheduleTick(waiting=True)
    turn(storage, HOUR)  # long lapsed
    assert await look(storage) == ScheduleTick(waiting=True)
    await settle(storage, held, Retry(HOUR, failure()))
    assert await look(storage) == ScheduleTick(waiting=True)
    turn(storage, 2 * HOUR)
    await settle(storage, await claim_one(storage), Release(MINUTE))
    assert await look(storage) == ScheduleTick(waiting=True)


async def test_a_revived_run_is_unfinished_again(storage: Storage) -> None:
    await running(storage)
    await settle(storage, await claim_one(storage), Bury(failure()))
    await storage.controls.revive(DeadSelection(), "ann", 10)
    (waiting,) = await queue(storage, 1)

    revived = await claim_one(storage)

    assert await look(storage) == ScheduleTick(waiting=True)
    await settle(storage, revived, DONE)
    assert (await look(storage)).released == 1
    assert (await claim_one(storage)).message_id == waiting


async def test_all_groups_of_an_occurrence_are_released_together_and_waited_for(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    await running(storage)
    first, second = await queue(storage, 1, 2, group=None)
    await settle(storage, await claim_one(storage), DONE)

    assert (await look(storage)).released == 2
    mailed, counted = await claim_one(storage), await claim_one(storage, "analytics")
    assert ids([mailed, counted]) == [first, first]
    await settle(storage, mailed, DONE)
    assert (await look(storage)).released == 0
    await settle(storage, counted, DONE)
    assert (await look(storage)).released == 2
    assert ids([*await claim(storage), *await claim(storage, "analytics")]) == [second, second]


async def test_other_schedules_do_not_keep_it_waiting_and_only_its_own_app_releases_it(storage: Storage) -> None:
    for name in ("a", "b"):
        await running(storage, name)
    (first,) = await queue(storage, 1, name="a")
    await queue(storage, 1, name="b")
    await edit(storage, "a", app="crm")
    of_a, _ = await claim(storage)

    await settle(storage, of_a, DONE)

    assert await look(storage, app="yet another") == NOTHING
    assert await look(storage, app="shop") == ScheduleTick(waiting=True)
    assert await look(storage, app="crm") == ScheduleTick(released=1)
    assert ids(await claim(storage)) == [first]


async def test_what_waits_of_a_schedule_that_is_gone_is_released_by_whoever_looks(storage: Storage) -> None:
    await running(storage)
    earlier = await claim_one(storage)
    late = occurrence(NOON, due_at=NEVER, manual=True)  # entered while somebody removed the schedule
    await storage.timetable.enter([late], NOTE)
    before = await look(storage, app="any")

    await settle(storage, earlier, DONE)

    assert before == ScheduleTick(waiting=True)
    assert await look(storage, app="any") == ScheduleTick(released=1)
    assert ids(await claim(storage)) == [late.draft.id]


async def test_what_a_stranger_has_put_off_for_ever_is_not_ours_to_release(storage: Storage) -> None:
    await publish(storage, draft(group="analytics", at=NEVER))
    alone = await look(storage)
    await running(storage)
    await queue(storage, 1)
    await settle(storage, await claim_one(storage), DONE)

    beside = await look(storage)

    assert (alone, beside) == (NOTHING, ScheduleTick(released=1))
    assert await claim(storage, "analytics") == []


async def test_many_nodes_release_it_once(storage: Storage) -> None:
    await running(storage)
    first, _ = await queue(storage, 1, 2)
    await settle(storage, await claim_one(storage), DONE)

    async with siblings(storage, 4) as doors:
        seen = await asyncio.gather(*map(look, doors))

    assert sum(each.released for each in seen) == 1
    assert ids(await claim(storage)) == [first]


async def test_a_parked_occurrence_waits_for_no_run(storage: Storage) -> None:
    await running(storage)
    await keep(storage, schedule())
    entered = occurrence(NOON, group=None, due_at=NEVER)

    await storage.timetable.enter([entered], NOTE)
    await declare(storage, "analytics")
    await storage.upkeep.reroute(10)

    assert ids(await claim(storage, "analytics")) == [entered.draft.id]


@pytest.mark.parametrize("ending", ["paused", "deleted"])
async def test_what_waits_is_cancelled_when_its_schedule_is_paused_or_deleted(storage: Storage, ending: str) -> None:
    await running(storage)
    waiting = await queue(storage, 1, 2)
    held = await claim_one(storage)
    await running(storage, "another")
    (others,) = await queue(storage, 1, name="another")

    if ending == "paused":
        await edit(storage, paused_at=NOON, paused_by="ann")
    else:
        await remove(storage, NAME)

    for message_id in waiting:
        (run,) = (await found(storage, message_id)).runs
        assert (run.status, run.schedule) == ("cancelled", NAME)
        assert run.error == f"its schedule was {ending}"
    assert not (await the_copy(storage, held.message_id)).cancel_asked
    assert (await the_copy(storage, others)).due_at == NEVER


async def test_what_waits_stays_when_a_paused_schedule_is_edited(storage: Storage) -> None:
    await running(storage)
    await claim_one(storage)
    (waiting,) = await queue(storage, 1)
    await edit(storage, edits={"jitter": 1})
    assert (await the_copy(storage, waiting)).due_at == NEVER
    await edit(storage, paused_at=NOON)
    await storage.timetable.enter([occurrence(NOON + 5 * HOUR, due_at=NEVER)], NOTE)

    await edit(storage, edits={"jitter": 2})

    assert (await look(storage)).waiting


async def test_what_is_entered_by_hand_starts_at_once_or_waits_its_turn(storage: Storage) -> None:
    await keep(storage, schedule(next_at=None))
    first, second = occurrence(NOON, manual=True), occurrence(NOON + MINUTE, due_at=NEVER, manual=True)

    published = await storage.timetable.enter([first, second], NOTE)

    assert published.stored == {first.draft.id, second.draft.id}
    delivery = await claim_one(storage)
    assert delivery.message_id == first.draft.id
    assert (await storage.timetable.enter([first], NOTE)).stored == frozenset()
    assert (await kept(storage)).fired == 0
    assert [(note.by, note.action, note.subject, note.detail) for note in await storage.ledger.audit(None, 9)] == [
        ("ann", "edit", NAME, "because")
    ] * 2
    await settle(storage, delivery, DONE, keep="all")
    assert (await look(storage)).released == 1
    assert await statuses(storage, first.draft.id) == ["done"]


async def test_what_is_entered_to_wait_with_nothing_unfinished_is_released_at_once(storage: Storage) -> None:
    entered = occurrence(NOON, due_at=NEVER, manual=True)

    await storage.timetable.enter([entered], NOTE)

    assert ids(await claim(storage)) == [entered.draft.id]


async def test_what_waits_counts_as_scheduled_and_is_upcoming_in_the_year_9999(storage: Storage) -> None:
    await running(storage)
    await queue(storage, 1)
    await claim(storage)

    until = await storage.mailbox.upcoming(["mailer"])

    assert until == NEVER - NOON
    assert (await counts(storage)).scheduled == 1
