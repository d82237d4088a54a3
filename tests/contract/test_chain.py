"""What a message came of, and what came of it."""

from uuid import UUID, uuid4

import pytest

from mainspring.model.search import Chain
from mainspring.model.verdict import DONE, Cancel
from mainspring.storage.contract import Storage
from tests.contract.acting import HOUR, NOON, SECOND, bury_one, claim, declare, draft, hold_one, publish, settle, turn

pytestmark = pytest.mark.psycopg


async def caused(storage: Storage, *causes: UUID | None, group: str | None = "mailer") -> list[UUID]:
    """A message for each of these causes, one second apart."""
    made = []
    for cause in causes:
        one = draft(group=group, causation_id=cause)
        await publish(storage, one)
        made.append(one.id)
        turn(storage, (storage.now or NOON) - NOON + SECOND)
    return made


async def test_a_chain_is_told_in_both_directions(storage: Storage) -> None:
    (first,) = await caused(storage, None)
    (second,) = await caused(storage, first)
    (third,) = await caused(storage, second)
    near = await caused(storage, third, third)
    far = await caused(storage, near[1], near[0])

    chain = await storage.ledger.chain(third, 10)

    assert [link.id for link in chain.causes] == [first, second]
    assert [link.id for link in chain.caused] == [*near, *far]
    assert not chain.more
    assert [link.causation_id for link in chain.causes] == [None, first]
    assert chain.causes[0].published_at == NOON


async def test_a_link_says_what_it_is(storage: Storage) -> None:
    one = draft("orders.paid", key="k", group="mailer")
    await publish(storage, one)
    (last,) = await caused(storage, one.id)

    (link,) = (await storage.ledger.chain(last, 10)).causes

    assert (link.id, link.topic, link.key, link.state) == (one.id, "orders.paid", "k", "ready")


async def test_a_link_shows_what_most_needs_looking_at(storage: Storage) -> None:
    (root,) = await caused(storage, None)
    dead = await bury_one(storage, "other", one=draft(group="other", causation_id=root))
    done = await hold_one(storage, "other", one=draft(group="other", causation_id=root))
    await settle(storage, done, DONE, keep="all")
    cancelled = await hold_one(storage, "other", one=draft(group="other", causation_id=root))
    await settle(storage, cancelled, Cancel())
    gone = await hold_one(storage, "other", one=draft(group="other", causation_id=root))
    await settle(storage, gone, DONE)
    running = await hold_one(storage, "other", one=draft(group="other", causation_id=root))
    scheduled, parked = draft(group="other", causation_id=root, delay=HOUR), draft(causation_id=root)
    await publish(storage, scheduled, parked)

    chain = await storage.ledger.chain(root, 10)

    assert {link.id: link.state for link in chain.caused} == {
        dead.message_id: "dead",
        done.message_id: "done",
        cancelled.message_id: "cancelled",
        gone.message_id: None,
        running.message_id: "running",
        scheduled.id: "scheduled",
        parked.id: "parked",
    }


async def test_each_side_has_an_end(storage: Storage) -> None:
    line = await caused(storage, None)
    for _ in range(4):
        line += await caused(storage, line[-1])

    above = await storage.ledger.chain(line[-1], 2)
    below = await storage.ledger.chain(line[0], 2)
    exact = await storage.ledger.chain(line[0], 4)

    assert ([link.id for link in above.causes], above.caused, above.more) == (line[2:4], (), True)
    assert ([link.id for link in below.caused], below.causes, below.more) == (line[1:3], (), True)
    assert (len(exact.caused), exact.more) == (4, False)


async def test_a_circle_is_gone_round_once(storage: Storage) -> None:
    first, second = uuid4(), uuid4()
    await publish(storage, draft(id=first, causation_id=second, group="mailer"))
    await publish(storage, draft(id=second, causation_id=first, group="mailer"))
    itself = uuid4()
    await publish(storage, draft(id=itself, causation_id=itself, group="mailer"))

    chain = await storage.ledger.chain(first, 10)

    assert ([link.id for link in chain.causes], [link.id for link in chain.caused]) == ([second], [second])
    assert await storage.ledger.chain(itself, 10) == Chain()


async def test_of_two_claims_on_a_linked_message_the_one_that_lapsed_is_shown(storage: Storage) -> None:
    await declare(storage, "mailer", "orders.#")
    await declare(storage, "other", "orders.#")
    root = draft()
    await publish(storage, root, draft(causation_id=root.id))
    await claim(storage, "mailer")
    turn(storage, HOUR)
    await claim(storage, "other")

    (link,) = (await storage.ledger.chain(root.id, 10)).caused

    assert link.state == "lapsed"


async def test_what_is_not_there_ends_a_chain(storage: Storage) -> None:
    (only,) = await caused(storage, uuid4())

    assert await storage.ledger.chain(only, 10) == Chain()
    assert await storage.ledger.chain(uuid4(), 10) == Chain()
