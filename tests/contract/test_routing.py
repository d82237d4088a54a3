"""Routing: which groups receive a message, and what happens to one that nobody asked for."""

import pytest

from mainspring.model.message import Priority
from mainspring.model.search import Filter
from mainspring.model.verdict import DONE
from mainspring.storage.contract import Storage
from tests.contract.acting import (
    HOUR,
    MINUTE,
    NOON,
    claim,
    claim_one,
    declare,
    draft,
    found,
    ids,
    listed,
    publish,
    settle,
    turn,
)

ROUTES = [
    ("orders.placed", "orders.placed", True),
    ("orders.placed", "orders.place", False),
    ("orders.placed", "orders.placed.late", False),
    ("orders.placed", "ordersXplaced", False),
    ("orders.*", "orders.placed", True),
    ("orders.*", "orders", False),
    ("orders.*", "orders.placed.late", False),
    ("*.placed", "orders.placed", True),
    ("*.placed", "shop.orders.placed", False),
    ("orders.*.late", "orders.placed.late", True),
    ("*", "orders", True),
    ("*", "orders.placed", False),
    ("orders.#", "orders", True),
    ("orders.#", "orders.placed", True),
    ("orders.#", "orders.placed.late", True),
    ("orders.#", "ordersplaced", False),
    ("*.placed.#", "orders.placed.late", True),
    ("#", "orders", True),
    ("#", "orders.placed.late", True),
    ("a+b.(c)[d]{2}|^e$", "a+b.(c)[d]{2}|^e$", True),
    ("a+b.*", "a+b.c", True),
    ("a+b.*", "aab.c", False),
    ("größe.*", "größe.日本", True),
    ('it\'s."quoted".*', 'it\'s."quoted".x', True),
    ("100%.*", "100%.x", True),
    ("a_b", "axb", False),
]


@pytest.mark.parametrize(("pattern", "topic", "received"), ROUTES)
async def test_a_pattern_means_the_same_on_every_storage(
    storage: Storage, pattern: str, topic: str, received: bool
) -> None:
    await declare(storage, "mailer", pattern)
    message = draft(topic)

    await publish(storage, message)

    assert ids(await claim(storage)) == ([message.id] if received else [])
    assert await listed(storage, "parked") == ([] if received else [message.id])


async def test_a_group_receives_one_copy_however_many_of_its_patterns_match(storage: Storage) -> None:
    await declare(storage, "mailer", "orders.placed", "orders.*", "#")
    message = draft("orders.placed")

    await publish(storage, message)

    assert ids(await claim(storage)) == [message.id]


async def test_each_message_of_a_batch_is_routed_for_itself(storage: Storage) -> None:
    await declare(storage, "mailer", "orders.*")
    await declare(storage, "analytics", "#")
    order, other, direct = draft("orders.placed"), draft("invoices.sent"), draft("any", group="archive")

    await publish(storage, order, other, direct)

    assert ids(await claim(storage, "mailer")) == [order.id]
    assert ids(await claim(storage, "analytics")) == [order.id, other.id]
    assert ids(await claim(storage, "archive")) == [direct.id]


async def test_a_draft_for_one_group_reaches_that_group_alone_declared_or_not(storage: Storage) -> None:
    await declare(storage, "mailer", "orders.placed")
    direct = draft("orders.placed", group="nobody.declared")

    await publish(storage, direct)

    assert await claim(storage, "mailer") == []
    assert ids(await claim(storage, "nobody.declared")) == [direct.id]


async def test_a_group_does_not_receive_what_was_published_before_its_declaration(storage: Storage) -> None:
    await declare(storage, "mailer")
    message = draft()
    await publish(storage, message)

    await declare(storage, "latecomer")
    rerouted = (await storage.upkeep.reroute(100)).routed

    assert rerouted == 0
    assert await claim(storage, "latecomer") == []


async def test_a_topic_without_a_subscriber_is_parked(storage: Storage) -> None:
    message = draft("orders.placed", key="order:1", priority=Priority.LOW, delay=MINUTE)

    await publish(storage, message)

    (view,) = (await storage.ledger.browse(Filter(state="parked"))).rows
    assert (view.message_id, view.group, view.topic) == (message.id, "", "orders.placed")
    assert (view.state, view.key, view.priority) == ("parked", "order:1", Priority.LOW)
    assert (view.attempt, view.held_by, view.published_at) == (0, None, NOON)
    assert view.due_at == view.scheduled_for == NOON + MINUTE
    assert (await found(storage, message.id)).deliveries == (view,)
    assert (await storage.ledger.tally()).parked == 1


async def test_a_parked_message_is_a_duplicate_when_it_is_published_again(storage: Storage) -> None:
    message = draft()
    await publish(storage, message)

    again = await publish(storage, message)

    assert again == frozenset()
    assert await listed(storage, "parked") == [message.id]


async def test_parked_messages_reach_the_groups_that_subscribe_later(storage: Storage) -> None:
    first, second = draft("orders.placed"), draft("orders.placed", key="k", priority=Priority.HIGH)
    await publish(storage, first, second)
    await declare(storage, "mailer", "orders.*")
    await declare(storage, "analytics", "#")

    turn(storage, MINUTE)
    routed = (await storage.upkeep.reroute(100)).routed

    assert routed == 2
    assert await listed(storage, "parked") == []
    assert ids(await claim(storage, "mailer")) == [second.id, first.id]
    urgent, normal = await claim(storage, "analytics")
    assert (urgent.message_id, urgent.key, urgent.priority) == (second.id, "k", Priority.HIGH)
    assert (normal.message_id, normal.attempt, normal.epoch) == (first.id, 1, 1)
    assert normal.due_at == NOON + MINUTE
    assert normal.scheduled_for == normal.published_at == NOON


async def test_a_parked_message_keeps_a_due_time_that_is_still_to_come(storage: Storage) -> None:
    await publish(storage, draft(at=NOON + HOUR))
    await declare(storage, "mailer")

    turn(storage, MINUTE)
    await storage.upkeep.reroute(100)

    assert await claim(storage) == []
    turn(storage, HOUR)
    delivery = await claim_one(storage)
    assert delivery.due_at == delivery.scheduled_for == NOON + HOUR


async def test_reroute_takes_the_oldest_first_up_to_its_limit(storage: Storage) -> None:
    batch = [draft() for _ in range(5)]
    await publish(storage, *batch)
    await declare(storage, "mailer")

    assert (await storage.upkeep.reroute(2)).routed == 2
    assert ids(await claim(storage)) == [batch[0].id, batch[1].id]
    assert (await storage.upkeep.reroute(2)).routed == 2
    assert (await storage.upkeep.reroute(2)).routed == 1
    assert (await storage.upkeep.reroute(2)).routed == 0


async def test_what_has_no_subscriber_does_not_use_up_the_limit_of_reroute(storage: Storage) -> None:
    strangers = [draft("unknown.topic") for _ in range(3)]
    wanted = draft("orders.placed")
    await publish(storage, *strangers, wanted)
    await declare(storage, "mailer")

    routed = (await storage.upkeep.reroute(1)).routed

    assert routed == 1
    assert ids(await claim(storage)) == [wanted.id]


async def test_a_rerouted_message_is_settled_like_any_other(storage: Storage) -> None:
    message = draft()
    await publish(storage, message)
    await declare(storage, "mailer")
    await storage.upkeep.reroute(100)

    settled = await settle(storage, await claim_one(storage), DONE)

    assert (settled.lost, settled.gone) == (frozenset(), frozenset())
    assert (await found(storage, message.id)).deliveries == ()
    assert await publish(storage, message) == frozenset()
