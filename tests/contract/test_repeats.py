"""How long an id is refused: one hour from the end of the message, whatever history is kept, and then no more."""

from datetime import timedelta

import pytest

from mainspring.model.message import Draft, Keep
from mainspring.model.retention import Pruned, Retention
from mainspring.model.search import DeadSelection
from mainspring.model.verdict import DONE, Bury, Cancel, Retry
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    TICK,
    bury_one,
    claim,
    claim_one,
    declare,
    draft,
    failure,
    found,
    hold_one,
    ids,
    publish,
    settle,
    the_copy,
    turn,
)

pytestmark = pytest.mark.psycopg
PLAIN = Retention(repeats=HOUR)


async def prune_at(storage: Storage, after: timedelta, retention: Retention = PLAIN) -> Pruned:
    turn(storage, after)
    return await storage.upkeep.prune(retention, 1000)


async def is_refused(storage: Storage, message: Draft) -> bool:
    """Whether the id is still known: a trial publish would store it anew."""
    return await storage.ledger.find(message.id) is not None


@pytest.mark.parametrize("keep", ["failures", "none"])
async def test_a_handled_message_goes_after_exactly_one_hour(storage: Storage, keep: Keep) -> None:
    message = draft(group="mailer")
    await settle(storage, await hold_one(storage, one=message), DONE, keep=keep)

    at_the_hour = await prune_at(storage, HOUR)
    again = await publish(storage, message)
    after_it = await prune_at(storage, HOUR + TICK)

    assert at_the_hour == Pruned()
    assert again == frozenset()
    assert after_it == Pruned(messages=1)
    assert await storage.ledger.find(message.id) is None


async def test_after_it_was_pruned_the_same_id_is_stored_anew(storage: Storage) -> None:
    message = draft(group="mailer", payload=b"second life")
    await settle(storage, await hold_one(storage, one=message), DONE)
    await prune_at(storage, HOUR + TICK)

    stored = await publish(storage, message)

    assert stored == {message.id}
    delivery = await claim_one(storage)
    assert (delivery.message_id, delivery.attempt, delivery.epoch) == (message.id, 1, 1)


async def test_the_hour_counts_from_the_end_not_from_publishing(storage: Storage) -> None:
    message = draft(group="mailer", delay=DAY)
    await publish(storage, message)
    turn(storage, DAY)
    await settle(storage, await claim_one(storage), DONE)

    early = await prune_at(storage, DAY + HOUR)
    late = await prune_at(storage, DAY + HOUR + TICK)

    assert (early.messages, late.messages) == (0, 1)


async def test_another_window_may_be_asked_for(storage: Storage) -> None:
    await settle(storage, await hold_one(storage), DONE)

    early = await prune_at(storage, MINUTE, Retention(repeats=MINUTE))
    late = await prune_at(storage, MINUTE + TICK, Retention(repeats=MINUTE))

    assert (early.messages, late.messages) == (0, 1)


async def test_a_message_that_is_not_over_is_never_pruned(storage: Storage) -> None:
    parked, waiting = draft(), draft(group="mailer")
    await publish(storage, parked, waiting)
    held = await hold_one(storage, "holder")
    buried = await bury_one(storage, "graveyard")
    forever = Retention(parked=None, done=None, failures=None)

    for after in (HOUR + TICK, 2 * HOUR + 2 * TICK, 1000 * DAY):
        assert await prune_at(storage, after, forever) == Pruned()

    for message_id in (parked.id, waiting.id, held.message_id, buried.message_id):
        assert len((await found(storage, message_id)).deliveries) == 1


async def test_a_message_of_two_groups_is_refused_for_an_hour_after_the_last_of_them(storage: Storage) -> None:
    await declare(storage, "early")
    await declare(storage, "late")
    message = draft()
    await publish(storage, message)
    await settle(storage, await claim_one(storage, "early"), DONE)
    turn(storage, 50 * MINUTE)
    await settle(storage, await claim_one(storage, "late"), DONE)

    seconds = [
        (await prune_at(storage, HOUR + TICK)).messages,
        (await prune_at(storage, 110 * MINUTE)).messages,
    ]
    refused = await is_refused(storage, message)
    first_gone = await prune_at(storage, 2 * HOUR + 2 * TICK)

    assert seconds == [0, 0]
    assert refused
    assert first_gone.messages == 1
    assert await publish(storage, message) == {message.id}


async def begin_a_second_life(storage: Storage) -> Draft:
    """Two groups ended a message at different times; it was pruned, and published again under the same id."""
    await declare(storage, "early")
    await declare(storage, "late")
    message = draft()
    await publish(storage, message)
    await settle(storage, await claim_one(storage, "early"), DONE)
    turn(storage, 50 * MINUTE)
    await settle(storage, await claim_one(storage, "late"), DONE)
    for after in (HOUR + TICK, 110 * MINUTE + TICK, 2 * HOUR + 2 * TICK):
        await prune_at(storage, after)
    await publish(storage, message)
    return message


async def test_what_is_left_of_a_first_life_does_not_end_the_second(storage: Storage) -> None:
    message = await begin_a_second_life(storage)

    pruned = await prune_at(storage, 4 * HOUR)

    assert pruned.messages == 0
    assert ids(await claim(storage, "early")) == ids(await claim(storage, "late")) == [message.id]


async def test_what_is_left_of_a_first_life_does_not_shorten_the_hour_of_the_second(storage: Storage) -> None:
    message = await begin_a_second_life(storage)
    turn(storage, 2 * HOUR + 40 * MINUTE)
    for group in ("early", "late"):
        await settle(storage, await claim_one(storage, group), DONE)

    pruned = await prune_at(storage, 2 * HOUR + 55 * MINUTE)

    assert pruned.messages == 0
    assert await is_refused(storage, message)


async def test_a_dead_letter_of_one_group_keeps_the_message_of_both(storage: Storage) -> None:
    await declare(storage, "fine")
    await declare(storage, "broken")
    message = draft(payload=b"needed")
    await publish(storage, message)
    await settle(storage, await claim_one(storage, "fine"), DONE)
    await settle(storage, await claim_one(storage, "broken"), Bury(failure()))

    for after in (HOUR + TICK, 2 * HOUR + 2 * TICK, 30 * HOUR):
        assert (await prune_at(storage, after)).messages == 0
    await storage.controls.revive(DeadSelection(), "ann", 10)

    assert (await claim_one(storage, "broken")).payload == b"needed"


async def test_a_discarded_dead_letter_frees_its_message_an_hour_later(storage: Storage) -> None:
    buried = await bury_one(storage)
    no_history = Retention(repeats=HOUR, failures=timedelta())
    turn(storage, DAY)
    await storage.controls.discard(DeadSelection(), "ann", 10)

    runs = await prune_at(storage, DAY + TICK, no_history)
    at_the_hour = await prune_at(storage, DAY + HOUR, no_history)
    after_it = await prune_at(storage, DAY + HOUR + TICK, no_history)

    assert runs == Pruned(runs=1)
    assert at_the_hour.messages == 0
    assert after_it.messages == 1
    assert await storage.ledger.find(buried.message_id) is None


async def test_a_replaced_dead_letter_frees_its_message(storage: Storage) -> None:
    buried = await bury_one(storage)
    better = draft(group="mailer")
    await storage.controls.replace(buried.message_id, "mailer", "ann", better)

    await prune_at(storage, TICK, Retention(failures=timedelta()))
    pruned = await prune_at(storage, HOUR + 2 * TICK)

    assert pruned.messages == 1
    assert await storage.ledger.find(buried.message_id) is None
    assert (await the_copy(storage, better.id)).state == "ready"


@pytest.mark.parametrize("parked", [True, False])
async def test_a_cancelled_message_goes_when_its_run_has_gone(storage: Storage, parked: bool) -> None:
    message = draft(group=None if parked else "mailer")
    await publish(storage, message)
    await storage.mailbox.cancel(message.id, "obsolete")

    for after in (HOUR + TICK, 2 * HOUR + 2 * TICK, 7 * DAY):
        assert await prune_at(storage, after) == Pruned()
    run_gone = await prune_at(storage, 7 * DAY + TICK)
    refused = await is_refused(storage, message)
    later = [await prune_at(storage, 7 * DAY + hours * HOUR + 3 * TICK) for hours in (1, 2, 3)]

    assert run_gone == Pruned(runs=1)
    assert refused
    assert sum(each.messages for each in later) == 1
    assert not await is_refused(storage, message)


async def test_a_cancelled_run_of_a_held_delivery_frees_its_message_too(storage: Storage) -> None:
    held = await hold_one(storage)
    await settle(storage, held, Cancel("obsolete"))

    await prune_at(storage, TICK, Retention(done=timedelta()))
    pruned = await prune_at(storage, HOUR + 2 * TICK)

    assert pruned.messages == 1


async def test_failed_runs_keep_the_message_of_a_success_as_long_as_they_are_kept(storage: Storage) -> None:
    message = draft(group="mailer")
    await settle(storage, await hold_one(storage, one=message), Retry(NOW, failure()))
    await settle(storage, await claim_one(storage), DONE, keep="failures")

    hour = await prune_at(storage, HOUR + TICK)
    month = await prune_at(storage, 30 * DAY + TICK)
    hour_after = await prune_at(storage, 30 * DAY + HOUR + 2 * TICK)

    assert hour == Pruned()
    assert month == Pruned(runs=1)
    assert hour_after == Pruned(messages=1)


async def test_a_retired_groups_messages_are_freed(storage: Storage) -> None:
    await declare(storage, "mailer")
    message = draft()
    await publish(storage, message)
    await storage.controls.retire("mailer", "ann", 10)

    await prune_at(storage, TICK, Retention(done=timedelta()))
    pruned = await prune_at(storage, HOUR + 2 * TICK)

    assert pruned.messages == 1
    assert not await is_refused(storage, message)


async def test_messages_are_pruned_oldest_first_up_to_the_limit(storage: Storage) -> None:
    messages = [draft(group="mailer") for _ in range(5)]
    for message in messages:
        await settle(storage, await hold_one(storage, one=message), DONE)

    turn(storage, DAY)
    pruned = [(await storage.upkeep.prune(PLAIN, 2)).messages for _ in range(4)]

    assert pruned == [2, 2, 1, 0]


async def test_a_large_settle_is_pruned_whole_sooner_or_later(storage: Storage) -> None:
    messages = [draft(group="mailer") for _ in range(300)]
    await publish(storage, *messages)
    for delivery in await claim(storage, limit=300):
        await settle(storage, delivery, DONE)

    turn(storage, DAY)
    pruned = 0
    while removed := (await storage.upkeep.prune(PLAIN, 70)).messages:
        pruned += removed

    assert pruned == 300
