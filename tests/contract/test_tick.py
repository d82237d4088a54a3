"""A look at the timetable: what is due goes on, with what it publishes, exactly once (invariant 5)."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from mainspring.model.schedule import Due, ScheduleAdvance, ScheduleTick
from mainspring.model.verdict import DONE
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOUR,
    MINUTE,
    NOON,
    NOW,
    TICK,
    TOPIC,
    claim,
    claim_one,
    declare,
    draft,
    ids,
    listed,
    publish,
    settle,
    siblings,
    the_copy,
    turn,
)
from tests.contract.scheduling import (
    NAME,
    edit,
    hourly,
    keep,
    kept,
    leaving,
    look,
    occurrence,
    occurrence_id,
    queue,
    schedule,
    stopping,
)


async def test_what_is_due_is_published_and_goes_on(storage: Storage) -> None:
    await keep(storage, schedule(fired=7, missed=1, skipped=2))

    found = await look(storage)

    assert found == ScheduleTick(fired=1, moved=1, next_in=HOUR)
    row = await kept(storage)
    assert (row.base_at, row.next_at, row.fired, row.missed, row.skipped) == (NOON, NOON + HOUR, 8, 1, 2)
    (delivery,) = await claim(storage)
    assert (delivery.message_id, delivery.scheduled_for) == (occurrence_id(NAME, NOON), NOON)


async def test_what_the_policies_let_go_is_counted(storage: Storage) -> None:
    await keep(storage, schedule(missed=1))

    advance = ScheduleAdvance(NOON, None, missed=3, skipped=2)
    found = await look(storage, lambda _due, _now: advance)

    assert found == ScheduleTick(moved=1, dropped=((NAME, advance),))
    row = await kept(storage)
    assert (row.next_at, row.fired, row.missed, row.skipped) == (None, 0, 4, 2)


async def test_who_decides_is_told_what_is_stored_and_what_time_it_is(storage: Storage) -> None:
    row = schedule(definition={"cron": "* * * * *"}, overrides={"tz": "UTC"}, edits={"jitter": 5}, version=3)
    await keep(storage, row)
    asked: list[tuple[Due, datetime]] = []

    turn(storage, MINUTE)
    await look(storage, lambda due, now: asked.append((due, now)))

    assert asked == [(Due(row, unfinished=0, waiting=0), NOON + MINUTE)]


async def test_nothing_is_due_before_its_time(storage: Storage) -> None:
    await keep(storage, schedule(next_at=NOON + TICK), schedule("never", next_at=None))

    assert await look(storage) == ScheduleTick(next_in=TICK)

    turn(storage, TICK)
    assert (await look(storage)).fired == 1


async def test_an_empty_timetable_has_nothing_to_wait_for(storage: Storage) -> None:
    assert await look(storage) == ScheduleTick()


async def test_the_oldest_go_first_and_the_limit_says_how_many(storage: Storage) -> None:
    times = {"c": NOON - 2 * HOUR, "b": NOON - HOUR, "a": NOON - HOUR, "d": NOON}
    await keep(storage, *(schedule(name, next_at=at) for name, at in times.items()))

    first = await look(storage, limit=2)
    second = await look(storage, limit=10)

    assert (first.fired, first.moved, first.next_in) == (2, 2, -HOUR)
    # The two that went on are late by an hour and due again, and stand in line with the others.
    assert second.moved == 4
    assert ids(await claim(storage))[:2] == [occurrence_id("c", times["c"]), occurrence_id("a", times["a"])]


async def test_several_occurrences_are_published_in_their_order(storage: Storage) -> None:
    await keep(storage, schedule())
    missed = tuple(occurrence(NOON - hours * HOUR) for hours in (3, 2, 1))

    found = await look(storage, lambda _due, _now: ScheduleAdvance(NOON, NOON + HOUR, missed))

    assert (found.fired, found.moved) == (3, 1)
    assert ids(await claim(storage)) == [each.draft.id for each in missed]
    assert (await kept(storage)).fired == 3


async def test_many_nodes_that_look_at_once_publish_each_occurrence_once(storage: Storage) -> None:
    names = [f"job-{number}" for number in range(10)]
    await keep(storage, *(schedule(name) for name in names))

    async with siblings(storage, 4) as doors:
        seen = await asyncio.gather(*(look(door, limit=limit) for door in doors for limit in (3, 100)))

    # A row that somebody else looks at is passed over; whoever comes next finds it, or finds it done.
    last = await look(storage)
    assert sum(each.fired for each in (*seen, last)) == sum(each.moved for each in (*seen, last)) == 10
    assert sorted(ids(await claim(storage))) == sorted(occurrence_id(name, NOON) for name in names)
    assert {row.fired for row in (await storage.timetable.read(names)).schedules} == {1}


async def test_a_row_that_is_changed_while_nodes_look_fires_once_and_keeps_the_change(storage: Storage) -> None:
    await keep(storage, schedule())

    async with siblings(storage, 3) as doors:
        first, second, _ = await asyncio.gather(look(doors[0]), look(doors[1]), edit(doors[2], edits={"jitter": 5}))

    fired = first.fired + second.fired + (await look(storage)).fired
    row = await kept(storage)
    assert (fired, row.fired, row.next_at) == (1, 1, NOON + HOUR)
    assert (row.edits, row.revision) == ({"jitter": 5}, 1)
    assert len(await claim(storage)) == 1


async def test_an_occurrence_that_was_published_before_is_not_published_again(storage: Storage) -> None:
    await keep(storage, schedule())
    await look(storage)
    held = await claim_one(storage)
    await edit(storage, base_at=NOON - HOUR, next_at=NOON)

    # Nor is it touched: it is in somebody's hands, and what it waits for is no longer ours to say.
    again = await look(storage, hourly(later=5 * HOUR))

    assert (again.fired, again.moved) == (0, 1)
    assert (await the_copy(storage, held.message_id)).due_at == held.claimed_at + timedelta(seconds=30)
    assert (await settle(storage, held, DONE)).lost == frozenset()


async def test_other_apps_paused_and_retired_ones_and_those_to_leave_are_left_alone(storage: Storage) -> None:
    await keep(
        storage,
        schedule("crm's", app="crm"),
        schedule("paused", paused_at=NOON),
        schedule("retired", retired_at=NOON),
        schedule("left"),
        schedule("later", next_at=NOON + MINUTE),
    )

    found = await storage.timetable.tick("shop", hourly(), 100, leave=["left", "of no schedule"])

    assert found == ScheduleTick(next_in=MINUTE)
    assert await claim(storage) == []
    assert {row.fired for row in (await storage.timetable.read()).schedules} == {0}


async def test_the_undecided_are_left_as_they_are_and_named(storage: Storage) -> None:
    await keep(storage, schedule("odd"), schedule("even"), schedule("later", next_at=NOON + MINUTE))

    found = await look(storage, lambda due, now: None if due.schedule.name == "odd" else hourly()(due, now))

    assert found == ScheduleTick(fired=1, moved=1, next_in=MINUTE, left=frozenset(["odd"]))
    assert (await kept(storage, "odd")).next_at == NOON
    # What the caller has named already is not news.
    assert (await storage.timetable.tick("shop", leaving, 100, leave=["odd"])).left == frozenset()


async def test_a_decision_that_fails_leaves_nothing_behind(storage: Storage) -> None:
    await keep(storage, schedule("a"), schedule("b"))

    def decide(due: Due, now: datetime) -> ScheduleAdvance:
        if due.schedule.name == "b":
            raise ZeroDivisionError
        return hourly()(due, now)

    with pytest.raises(ZeroDivisionError):
        await look(storage, decide)

    assert await claim(storage) == []
    assert {row.next_at for row in (await storage.timetable.read()).schedules} == {NOON}
    assert (await look(storage)).fired == 2


@pytest.mark.parametrize("app", ["shop", ""])
async def test_what_is_frozen_stands_still_until_it_is_thawed(storage: Storage, app: str) -> None:
    await keep(storage, schedule(), schedule("crm's", app="crm"))
    await storage.timetable.freeze(app, "ann", "upgrade")

    frozen = await look(storage)
    other = await look(storage, app="crm")

    assert frozen == ScheduleTick(frozen=True, next_in=NOW)
    assert (other.fired, other.frozen) == ((0, True) if app == "" else (1, False))
    turn(storage, MINUTE)
    assert await storage.timetable.thaw(app, "ann")
    late = await look(storage)
    assert (late.fired, late.frozen) == (1, False)


async def test_a_jitter_starts_it_later_than_it_is_due(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    await keep(storage, schedule())

    await look(storage, hourly(group=None, later=MINUTE))

    assert await claim(storage) == await claim(storage, "analytics") == []
    copy = await the_copy(storage, occurrence_id(NAME, NOON))
    assert (copy.due_at, copy.scheduled_for) == (NOON + MINUTE, NOON)
    turn(storage, MINUTE)
    assert len(await claim(storage)) == len(await claim(storage, "analytics")) == 1


async def test_a_jitter_that_has_passed_already_starts_it_now(storage: Storage) -> None:
    await keep(storage, schedule())
    turn(storage, HOUR)

    await look(storage, hourly(later=MINUTE))

    assert (await claim_one(storage)).due_at == NOON + HOUR


async def test_a_parked_occurrence_keeps_its_jitter(storage: Storage) -> None:
    await keep(storage, schedule())
    await look(storage, hourly(group=None, later=MINUTE))

    await declare(storage, "mailer")
    await storage.upkeep.reroute(100)

    assert await claim(storage) == []
    turn(storage, MINUTE)
    assert (await claim_one(storage)).scheduled_for == NOON


async def test_the_unfinished_and_the_waiting_are_counted_apart(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    await publish(storage, draft(schedule=NAME), draft(schedule="another"), draft())
    await claim(storage)
    await queue(storage, 1, 2, 3)
    await edit(storage, next_at=NOON)
    asked: list[Due] = []

    await look(storage, lambda due, _now: asked.append(due))

    # One that is held and one that is ready; three that wait; what others have published does not count.
    assert [(due.unfinished, due.waiting) for due in asked] == [(2, 3)]


async def test_what_runs_is_asked_to_stop_and_what_nobody_holds_is_removed(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", schedule=NAME), draft(group="analytics", schedule=NAME))
    other = draft(TOPIC, group="mailer", schedule="another")
    held = await claim_one(storage)
    await publish(storage, other)
    await queue(storage, 1)
    await edit(storage, next_at=NOON)

    found = await look(storage, stopping)

    assert (found.fired, found.asked, found.released, found.waiting) == (1, 1, 0, True)
    assert (await the_copy(storage, held.message_id)).cancel_asked
    assert await listed(storage, "scheduled") == [occurrence_id(NAME, NOON)]
    assert await listed(storage, "ready") == [other.id]
    assert len(await listed(storage, "cancelled")) == 2

    await settle(storage, held, DONE)
    assert replace(await look(storage), next_in=None) == ScheduleTick(released=1)
