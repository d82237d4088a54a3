"""Occurrences that have waited for an earlier run, and that nothing holds back any more: or that nobody wants."""

from dataclasses import replace
from datetime import datetime

from mainspring.model.schedule import Due, ScheduleAdvance, ScheduleTick
from mainspring.storage.contract import Storage
from tests.contract.acting import HOUR, MINUTE, NOON, claim, claim_one, draft, ids, publish, turn
from tests.contract.scheduling import NAME, edit, hourly, keep, kept, look, queue, remove, schedule


def allowing(due: Due, now: datetime) -> ScheduleAdvance:
    """Publishes what is due, beside whatever runs, and lets nothing wait."""
    return replace(hourly()(due, now), release_waiting=True)


async def test_what_waited_starts_when_overlaps_are_allowed_though_a_run_is_unfinished(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", schedule=NAME))
    earlier = await claim_one(storage)
    await publish(storage, draft(group="mailer", schedule="other"))
    await claim_one(storage)
    waiting = await queue(storage, 1, 2, 3)
    others = await queue(storage, 1, name="other")
    await keep(storage, schedule(next_at=NOON + HOUR * 5))

    turn(storage, HOUR * 5)
    found = await look(storage, allowing)

    assert (found.fired, found.moved, found.released, found.waiting) == (1, 1, 3, True)
    taken = await claim(storage)
    assert earlier.message_id not in ids(taken)
    assert set(waiting) < set(ids(taken))
    assert not set(others) & set(ids(taken))


async def test_where_nothing_waits_there_is_nothing_to_release(storage: Storage) -> None:
    await keep(storage, schedule())

    assert await look(storage, allowing) == ScheduleTick(fired=1, moved=1, next_in=HOUR)


async def test_however_many_wait_none_of_them_outlives_a_pause(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", schedule=NAME))
    await claim_one(storage)
    await queue(storage, *range(1, 1102))

    await edit(storage, paused_at=NOON)

    turn(storage, MINUTE)
    assert await look(storage) == ScheduleTick()
    assert (await kept(storage)).paused_at == NOON


async def test_however_many_wait_none_of_them_outlives_the_schedule(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", schedule=NAME))
    await claim_one(storage)
    await queue(storage, *range(1, 1102))

    await remove(storage, NAME)

    assert await look(storage) == ScheduleTick()
