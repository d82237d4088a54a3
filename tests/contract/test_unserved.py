"""Occurrences for several groups, of which one is served by nobody: it holds none of the others up."""

from datetime import timedelta

from mainspring.model.schedule import NEVER, Due, ScheduleTick
from mainspring.model.verdict import DONE, Retry
from mainspring.model.views import Beat
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    TICK,
    claim,
    claim_one,
    declare,
    draft,
    failure,
    ids,
    publish,
    settle,
    turn,
)
from tests.contract.scheduling import NAME, NOTE, edit, hourly, keep, look, occurrence, queue, schedule

LONG = 5 * MINUTE


async def beat(storage: Storage, *groups: str) -> None:
    await storage.upkeep.beat(Beat("node-1", "shop", "host", 1, groups, 0, "poll", {}))


async def served(storage: Storage, after: timedelta, *groups: str) -> None:
    """So much later, somebody serves these groups."""
    turn(storage, after)
    await beat(storage, *groups)


async def doing(storage: Storage) -> tuple[int, int]:
    """What the next occurrence would find: unfinished, and waiting."""
    seen: list[Due] = []
    await edit(storage, next_at=NOON)
    await look(storage, lambda due, _now: seen.append(due))
    (due,) = seen
    return due.unfinished, due.waiting


async def publish_to_both(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    await keep(storage, schedule())
    await look(storage, hourly(group=None))


async def test_a_copy_that_nobody_will_take_does_not_count_once_another_group_has_begun(storage: Storage) -> None:
    await publish_to_both(storage)

    await served(storage, LONG, "mailer")
    ready = await doing(storage)
    mailed = await claim_one(storage)
    running = await doing(storage)
    await settle(storage, mailed, DONE)
    done = await doing(storage)

    assert (ready, running, done) == ((2, 0), (1, 0), (0, 0))


async def test_it_counts_until_nobody_has_served_its_group_for_five_minutes(storage: Storage) -> None:
    await publish_to_both(storage)
    await settle(storage, await claim_one(storage), DONE)
    await served(storage, MINUTE, "analytics")

    turn(storage, MINUTE + LONG - TICK)
    within = await doing(storage)
    turn(storage, MINUTE + LONG)
    beyond = await doing(storage)
    await beat(storage, "analytics")
    again = await doing(storage)

    assert (within, beyond, again) == ((1, 0), (0, 0), (1, 0))


async def test_a_copy_that_has_begun_counts_whoever_serves_its_group(storage: Storage) -> None:
    await publish_to_both(storage)
    await settle(storage, await claim_one(storage), DONE)
    counted = await claim_one(storage, "analytics")

    turn(storage, HOUR)
    held = await doing(storage)
    await settle(storage, counted, Retry(HOUR, failure()))
    tried = await doing(storage)

    assert (held, tried) == ((1, 0), (1, 0))


async def test_where_nobody_has_begun_it_it_is_unfinished_and_later_ones_do_not_pile_up(storage: Storage) -> None:
    await publish_to_both(storage)
    await publish(storage, draft(group="mailer", schedule=NAME))

    turn(storage, HOUR)

    # Straight to one group, or to several of which none is served: it runs when a worker comes back.
    assert await doing(storage) == (3, 0)


async def test_what_was_parked_counts_for_the_groups_that_are_served(storage: Storage) -> None:
    await keep(storage, schedule())
    await look(storage, hourly(group=None))
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    await storage.upkeep.reroute(10)

    await served(storage, LONG, "mailer")
    ready = await doing(storage)
    await settle(storage, await claim_one(storage), DONE)

    assert (ready, await doing(storage)) == ((1, 0), (0, 0))


async def test_what_waits_is_released_for_all_groups_though_one_is_served_by_nobody(storage: Storage) -> None:
    await publish_to_both(storage)
    first, second = await queue(storage, 1, 2, group=None)
    await served(storage, LONG, "mailer")
    await settle(storage, await claim_one(storage), DONE)

    released = await look(storage)

    assert released == ScheduleTick(released=2, waiting=True)
    mailed = await claim_one(storage)
    assert mailed.message_id == first
    assert (await look(storage)).released == 0
    await settle(storage, mailed, DONE)
    assert (await look(storage)).released == 2
    assert ids(await claim(storage)) == [second]
    # The group gets every copy of its own when it comes back.
    assert len(await claim(storage, "analytics")) == 3


async def test_what_waits_for_a_run_that_nobody_serves_and_nobody_has_begun_goes_on_waiting(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", schedule=NAME))
    await queue(storage, 1)

    turn(storage, HOUR)

    assert await look(storage) == ScheduleTick(waiting=True)


async def test_an_entered_run_waits_for_those_that_are_served(storage: Storage) -> None:
    await publish_to_both(storage)
    await served(storage, LONG, "mailer")
    mailed = await claim_one(storage)
    entered = [occurrence(NOON + hours * HOUR, due_at=NEVER, manual=True) for hours in (1, 2)]

    await storage.timetable.enter(entered[:1], NOTE)
    while_it_runs = await claim(storage)
    await settle(storage, mailed, DONE)
    turn(storage, LONG + SECOND)
    await storage.timetable.enter(entered[1:], NOTE)

    assert while_it_runs == []
    assert ids(await claim(storage)) == [entered[0].draft.id]
