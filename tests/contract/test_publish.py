"""Publish: stored once, routed at once, due when it was asked for."""

from datetime import timedelta, timezone
from uuid import uuid4

import pytest

from mainspring.model.message import Priority, Published
from mainspring.model.search import Filter
from mainspring.model.verdict import DONE
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    DAY,
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    claim,
    claim_one,
    counts,
    declare,
    draft,
    found,
    hold_one,
    ids,
    publish,
    settle,
    the_copy,
    turn,
)

pytestmark = pytest.mark.psycopg


@pytest.mark.memory
async def test_a_published_message_is_claimed_as_it_was_drafted(storage: Storage) -> None:
    await declare(storage, "mailer")
    cause = uuid4()
    order = draft(
        payload=b"\x00\xff not JSON at all",
        content_type="application/octet-stream",
        headers={"trace": "abc", "näme": 'w"ert'},
        key="order:42",
        priority=Priority.HIGH,
        correlation_id="checkout-7",
        causation_id=cause,
    )

    stored = await publish(storage, order)
    delivery = await claim_one(storage)

    assert stored == {order.id}
    assert delivery.message_id == order.id
    assert delivery.group == "mailer"
    assert delivery.topic == "orders.placed"
    assert delivery.payload == b"\x00\xff not JSON at all"
    assert delivery.content_type == "application/octet-stream"
    assert delivery.headers == {"trace": "abc", "näme": 'w"ert'}
    assert delivery.key == "order:42"
    assert delivery.correlation_id == "checkout-7"
    assert delivery.causation_id == cause
    assert delivery.priority == Priority.HIGH
    assert (delivery.attempt, delivery.epoch, delivery.deaths) == (1, 1, 0)
    assert delivery.due_at == delivery.scheduled_for == delivery.published_at == delivery.claimed_at == NOON
    assert (delivery.expired, delivery.cancel_asked, delivery.suspect) == (False, False, False)


async def test_what_was_left_out_of_a_draft_is_none(storage: Storage) -> None:
    delivery = await hold_one(storage, one=draft(group="mailer", payload=b""))

    assert delivery.payload == b""
    assert delivery.content_type == "application/json"
    assert delivery.headers is None
    assert delivery.key is None
    assert delivery.correlation_id is None
    assert delivery.causation_id is None
    assert delivery.priority == Priority.NORMAL


async def test_a_known_id_is_a_duplicate_and_changes_nothing(storage: Storage) -> None:
    await declare(storage, "mailer")
    first = draft(payload=b"first")
    await publish(storage, first)

    again = await publish(storage, draft(id=first.id, payload=b"second", delay=HOUR))

    assert again == frozenset()
    assert (await found(storage, first.id)).payload == b"first"
    assert ids(await claim(storage)) == [first.id]


async def test_a_batch_says_which_of_its_drafts_were_new(storage: Storage) -> None:
    known, new = draft(), draft()
    await publish(storage, known)

    answer = await storage.mailbox.publish([known, new])

    assert answer == Published(stored=frozenset({new.id}))


async def test_the_first_of_two_drafts_with_one_id_wins(storage: Storage) -> None:
    await declare(storage, "mailer")
    first = draft(payload=b"first")
    second = draft(id=first.id, payload=b"second")

    stored = await publish(storage, first, second)

    assert stored == {first.id}
    assert [delivery.payload for delivery in await claim(storage)] == [b"first"]


async def test_a_message_that_was_handled_just_now_is_still_a_duplicate(storage: Storage) -> None:
    order = draft(group="mailer")
    await settle(storage, await hold_one(storage, one=order), DONE, keep="none")

    again = await publish(storage, order)

    assert again == frozenset()
    assert await claim(storage) == []


async def test_a_batch_is_claimed_in_the_order_of_its_drafts(storage: Storage) -> None:
    batch = [draft(group="mailer") for _ in range(20)]

    await publish(storage, *batch)

    assert ids(await claim(storage)) == [each.id for each in batch]


async def test_a_batch_of_five_thousand_is_stored_whole(storage: Storage) -> None:
    await declare(storage, "mailer")
    batch = [draft(payload=str(number).encode()) for number in range(5_000)]

    stored = await publish(storage, *batch)
    claimed = await claim(storage, limit=10_000)

    assert stored == {each.id for each in batch}
    assert [int(delivery.payload) for delivery in claimed] == list(range(5_000))


async def test_a_delay_counts_from_the_storages_own_now(storage: Storage) -> None:
    later = draft(group="mailer", delay=15 * MINUTE)
    await publish(storage, later)

    turn(storage, 15 * MINUTE - SECOND)
    early = await claim(storage)
    turn(storage, 15 * MINUTE)
    in_time = await claim_one(storage)

    assert early == []
    assert in_time.due_at == in_time.scheduled_for == NOON + 15 * MINUTE
    assert in_time.published_at == NOON


async def test_an_instant_wins_over_a_delay(storage: Storage) -> None:
    order = draft(group="mailer", at=NOON + HOUR, delay=DAY)

    await publish(storage, order)

    copy = await the_copy(storage, order.id)
    assert copy.due_at == copy.scheduled_for == NOON + HOUR


async def test_an_instant_may_be_given_in_any_zone(storage: Storage) -> None:
    tokyo = timezone(timedelta(hours=9))
    order = draft(group="mailer", at=(NOON + HOUR).astimezone(tokyo))

    await publish(storage, order)

    assert (await the_copy(storage, order.id)).due_at == NOON + HOUR


async def test_an_instant_in_the_past_is_due_now_and_remembered_as_it_was_asked(storage: Storage) -> None:
    await publish(storage, draft(group="mailer", at=NOON - HOUR))

    delivery = await claim_one(storage)

    assert delivery.due_at == NOON
    assert delivery.scheduled_for == NOON - HOUR


async def test_a_delay_of_fifty_years_is_kept_to_the_microsecond(storage: Storage) -> None:
    far = timedelta(days=365 * 50, microseconds=123_457)
    order = draft(group="mailer", delay=far)

    await publish(storage, order)

    assert (await the_copy(storage, order.id)).due_at == NOON + far
    assert await claim(storage) == []


async def test_a_message_expires_after_its_time_and_says_so_when_it_is_claimed(storage: Storage) -> None:
    batch = [
        draft(group="mailer", expires_in=MINUTE),
        draft(group="mailer", expires_at=NOON + MINUTE),
        draft(group="mailer", expires_at=NOON + MINUTE + SECOND),
        draft(group="mailer"),
    ]
    await publish(storage, *batch)

    turn(storage, MINUTE)
    claimed = await claim(storage)

    assert [delivery.expired for delivery in claimed] == [True, True, False, False]


async def test_an_expiry_at_an_instant_wins_over_one_after_a_while(storage: Storage) -> None:
    order = draft(expires_in=HOUR, expires_at=NOON + MINUTE)

    await publish(storage, order)

    assert (await found(storage, order.id)).expires_at == NOON + MINUTE


async def test_a_message_of_several_groups_is_stored_once_and_delivered_to_each(storage: Storage) -> None:
    await declare(storage, "mailer")
    await declare(storage, "analytics")
    order = draft()

    await publish(storage, order)

    assert ids(await claim(storage, "mailer")) == [order.id]
    assert ids(await claim(storage, "analytics")) == [order.id]
    assert len((await storage.ledger.browse(Filter(state="running"))).rows) == 2


async def test_what_nobody_has_claimed_is_counted_as_ready_or_scheduled(storage: Storage) -> None:
    await publish(storage, draft(group="mailer"), draft(group="mailer", delay=SECOND))

    assert (await counts(storage)).ready == 1
    assert (await counts(storage)).scheduled == 1
