"""Occurrences that no worker has taken yet: what a pause, a removal and the next occurrence make of them."""

from uuid import UUID

import pytest

from mainspring.model.retention import Retention
from mainspring.model.schedule import NEVER, Due, Occurrence
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import DONE, Bury, Release, Retry
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
    HOUR,
    MINUTE,
    NOON,
    claim,
    claim_one,
    declare,
    draft,
    failure,
    found,
    ids,
    listed,
    publish,
    settle,
    statuses,
    the_copy,
    turn,
)
from tests.contract.scheduling import (
    NAME,
    NOTE,
    edit,
    hourly,
    keep,
    look,
    occurrence,
    queue,
    remove,
    schedule,
    stopping,
)

PAUSED, DELETED = "its schedule was paused", "its schedule was deleted"


async def pause(storage: Storage) -> None:
    await edit(storage, paused_at=NOON, paused_by="ann")


async def end(storage: Storage, ending: str) -> None:
    if ending == PAUSED:
        await pause(storage)
    else:
        await remove(storage, NAME)


async def fire(storage: Storage, kind: str) -> UUID:
    """Publish one occurrence of the rhythm that stands like this."""
    if kind == "waiting":
        await publish(storage, draft(group="analytics", schedule=NAME))
        await claim_one(storage, "analytics")
        return (await queue(storage, 1))[0]
    group = None if kind == "parked" else "mailer"
    await keep(storage, schedule())
    await look(storage, hourly(group, MINUTE if kind == "jittered" else None))
    return occurrence(NOON).draft.id


async def enter(storage: Storage, *occurrences: Occurrence) -> None:
    await storage.timetable.enter(occurrences, NOTE)


@pytest.mark.parametrize("ending", [PAUSED, DELETED])
@pytest.mark.parametrize("kind", ["ready", "jittered", "waiting", "parked"])
async def test_what_has_not_begun_is_cancelled_and_says_why(storage: Storage, kind: str, ending: str) -> None:
    pending = await fire(storage, kind)
    others = draft(group="mailer", schedule="another"), draft(group="mailer")
    await publish(storage, *others)

    await end(storage, ending)

    view = await found(storage, pending)
    assert view.deliveries == ()
    (run,) = view.runs
    assert (run.status, run.error, run.schedule, run.source) == ("cancelled", ending, NAME, "schedule")
    turn(storage, HOUR)
    assert sorted(ids(await claim(storage))) == sorted(each.id for each in others)


@pytest.mark.parametrize("ending", [PAUSED, DELETED])
async def test_what_somebody_has_taken_goes_on(storage: Storage, ending: str) -> None:
    runs = [draft(group="mailer", schedule=NAME) for _ in range(4)]
    await keep(storage, schedule(next_at=None))
    await publish(storage, *runs)
    retried, handed_back, revived, held = await claim(storage)
    await settle(storage, retried, Retry(MINUTE, failure()))
    await settle(storage, handed_back, Release())
    await settle(storage, revived, Bury(failure()))
    await storage.controls.revive(DeadSelection(), "ann", 10)

    await end(storage, ending)

    assert not (await the_copy(storage, held.message_id)).cancel_asked
    assert (await settle(storage, held, DONE)).lost == frozenset()
    turn(storage, MINUTE)
    assert sorted(ids(await claim(storage))) == sorted(each.id for each in runs if each.id != held.message_id)


async def test_a_copy_that_has_not_begun_is_cancelled_beside_one_that_has(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    await keep(storage, schedule())
    await look(storage, hourly(group=None))
    held = await claim_one(storage)

    await pause(storage)

    view = await found(storage, held.message_id)
    assert [(copy.group, copy.cancel_asked) for copy in view.deliveries] == [("mailer", False)]
    assert [(run.group, run.status) for run in view.runs] == [("analytics", "cancelled")]


async def test_what_somebody_asked_for_outlives_a_pause_and_takes_its_turn(storage: Storage) -> None:
    await keep(storage, schedule(next_at=None))
    asked = [occurrence(NOON + hours * HOUR, due_at=NEVER, manual=True) for hours in (1, 2)]
    trigger = Occurrence(draft(group="mailer", schedule=NAME, manual=True), NOON + MINUTE)
    await enter(storage, *asked)
    await enter(storage, trigger)

    await pause(storage)

    first = await claim_one(storage)
    assert first.message_id == asked[0].draft.id
    await settle(storage, first, DONE)
    turn(storage, MINUTE)
    assert (await look(storage)).released == 0  # the trigger has not ended
    by_hand = await claim_one(storage)
    assert by_hand.message_id == trigger.draft.id
    await settle(storage, by_hand, DONE)
    assert (await look(storage)).released == 1
    assert ids(await claim(storage)) == [asked[1].draft.id]


@pytest.mark.psycopg
async def test_nothing_that_was_asked_of_a_schedule_outlives_it_unless_it_has_begun(storage: Storage) -> None:
    await keep(storage, schedule(next_at=None))
    asked = [occurrence(NOON + hours * HOUR, due_at=NEVER, manual=True) for hours in (1, 2)]
    await enter(storage, *asked)
    held = await claim_one(storage)

    await remove(storage, NAME)

    assert await statuses(storage, asked[1].draft.id) == ["cancelled"]
    assert (await settle(storage, held, DONE, keep="all")).lost == frozenset()
    assert await statuses(storage, asked[0].draft.id) == ["done"]


async def test_a_pause_that_is_there_already_cancels_nothing_more(storage: Storage) -> None:
    await keep(storage, schedule())
    await pause(storage)
    await enter(storage, occurrence(NOON))

    await edit(storage, paused_at=NOON, pause_reason="still")

    assert await listed(storage, "ready") == [occurrence(NOON).draft.id]


async def test_the_next_occurrence_ends_earlier_ones_of_the_rhythm_and_nothing_that_was_asked_for(
    storage: Storage,
) -> None:
    by_hand, of_the_rhythm = (draft(group="mailer", schedule=NAME, manual=manual) for manual in (True, False))
    await publish(storage, by_hand, of_the_rhythm)
    await claim(storage)
    (replaced,) = await queue(storage, 1)
    asked = [occurrence(NOON + hours * HOUR, due_at=NEVER, manual=True) for hours in (2, 3)]
    await enter(storage, *asked)
    await edit(storage, next_at=NOON)

    seen = await look(storage, stopping)

    assert (seen.fired, seen.asked, seen.released, seen.waiting) == (1, 1, 0, True)
    assert not (await the_copy(storage, by_hand.id)).cancel_asked
    assert (await the_copy(storage, of_the_rhythm.id)).cancel_asked
    (run,) = (await found(storage, replaced)).runs
    assert run.error == "replaced by the next occurrence of its schedule"
    newest = occurrence(NOON).draft.id
    assert sorted(await listed(storage, "scheduled")) == sorted([*(each.draft.id for each in asked), newest])


async def test_what_was_asked_for_is_unfinished_for_the_next_occurrence(storage: Storage) -> None:
    await keep(storage, schedule())
    await enter(storage, occurrence(NOON + HOUR, manual=True), occurrence(NOON + 2 * HOUR, due_at=NEVER, manual=True))
    asked: list[Due] = []

    await look(storage, lambda due, _now: asked.append(due))

    assert [(due.unfinished, due.waiting) for due in asked] == [(1, 1)]


async def test_the_messages_of_what_was_cancelled_are_pruned_when_their_runs_are(storage: Storage) -> None:
    pending = [await fire(storage, "jittered"), *await queue(storage, 1, 2)]
    await pause(storage)

    turn(storage, 8 * DAY)
    for _ in range(3):
        await storage.upkeep.prune(Retention(), 1000)
        turn(storage, 16 * DAY)

    assert [await storage.ledger.find(each) for each in pending] == [None] * 3
