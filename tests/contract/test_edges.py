"""The edges: batches of nothing, and names of everything."""

import pytest

from mainspring.model.message import Cancelled, Extended, Published, Settled
from mainspring.model.search import DeadSelection, Filter
from mainspring.model.verdict import DONE, Bury, Done, Retry
from mainspring.model.views import Beat, Declaration, GroupRuns
from mainspring.storage.contract import Keyed, Storage
from tests.contract.acting import (
    HOLD,
    HOUR,
    MINUTE,
    NOW,
    WORKER,
    claim,
    claim_one,
    counts,
    declare,
    draft,
    failure,
    found,
    hold_one,
    publish,
    reap,
    settle,
    turn,
)

pytestmark = pytest.mark.psycopg
NAMES = [
    "größe.日本.🎉",
    "it's",
    'say "hi"',
    "back\\slash",
    "100%_sure",
    "semi;colon--comment/*",
    "$1 ? :name %s {x}",
    "ends with space ",
    "UPPER",
    "{a,b}",
    "NULL",
    "x" * 200,
]


async def test_a_batch_of_nothing_does_nothing(storage: Storage) -> None:
    assert await storage.mailbox.publish([]) == Published(frozenset())
    assert await storage.mailbox.claim([], "worker-1", HOLD) == []
    assert await storage.mailbox.reap([], "worker-1", HOLD) is None
    assert await storage.mailbox.upcoming([]) is None
    assert await storage.mailbox.extend([], WORKER, HOLD) == Extended()
    assert await storage.mailbox.settle([], WORKER) == Settled()
    await storage.upkeep.declare([])
    await storage.upkeep.beat(Beat("node-1", "shop", "host", 1, (), 0, "poll"))
    assert (await storage.upkeep.reroute(10)).routed == 0
    assert (await storage.ledger.roster()).groups == ()


async def test_an_empty_batch_of_one_kind_leaves_the_others_alone(storage: Storage) -> None:
    held = await hold_one(storage)

    await storage.mailbox.settle([], WORKER)
    await storage.mailbox.extend([], WORKER, HOLD)

    assert await settle(storage, held, DONE) == Settled()


@pytest.mark.parametrize("name", NAMES)
async def test_a_group_may_have_any_name(storage: Storage, name: str) -> None:
    await declare(storage, name, "orders.placed", app=name)
    await publish(storage, draft(), draft())

    first, second = await claim(storage, name, owner=name)
    await settle(storage, first, Retry(NOW, failure()), owner=name)
    await settle(storage, second, Bury(failure()), owner=name)
    revived = await storage.controls.revive(DeadSelection(group=name), name, 10)
    paused = await storage.controls.pause(name, name, name)
    resumed = await storage.controls.resume(name, name)
    await storage.upkeep.beat(Beat(name, name, name, 1, (name,), 0, "poll", {name: GroupRuns(1, 0)}))

    assert (revived, paused, resumed) == (1, True, True)
    assert (await counts(storage, name)).ready == 2
    assert (await counts(storage, name)).handled == 1
    assert len((await storage.ledger.browse(Filter(group=name))).rows) == 2
    assert {run.node for run in await storage.ledger.runs(name, None, 10)} == {name}
    roster = await storage.ledger.roster()
    assert (roster.groups[0].name, roster.groups[0].app, roster.workers[0].groups) == (name, name, (name,))
    assert (await storage.ledger.audit(None, 1))[0].by == name
    await storage.upkeep.deregister(name)
    assert [await storage.controls.retire(name, name, 10) for _ in range(3)] == [2, 0, None]


@pytest.mark.parametrize("name", NAMES)
async def test_a_topic_a_key_and_a_header_may_have_any_name(storage: Storage, name: str) -> None:
    topic = name.replace("/", "|")
    await storage.upkeep.declare([Declaration("mailer", "shop", (topic,), name, {name: name})])
    one = draft(topic, key=name, headers={name: name}, correlation_id=name, content_type=name)
    await publish(storage, one, draft(topic, key=name + "x"))

    delivery = (await claim(storage))[0]
    await settle(storage, delivery, Done(name), keep="all")

    assert (delivery.topic, delivery.key, delivery.headers) == (topic, name, {name: name})
    assert (delivery.correlation_id, delivery.content_type) == (name, name)
    assert [view.key for view in (await storage.ledger.browse(Filter("done", topic=topic, key=name))).rows] == [name]
    assert (await found(storage, one.id)).runs[0].output == name
    assert await storage.mailbox.cancel(Keyed(topic, name + "x"), name) == Cancelled(0, 1)
    assert (await storage.ledger.roster()).groups[0].options == {name: name}


async def test_a_payload_of_a_megabyte_is_kept(storage: Storage) -> None:
    payload = bytes(range(256)) * 4096

    delivery = await hold_one(storage, one=draft(group="mailer", payload=payload))

    assert delivery.payload == payload


async def test_a_hundred_groups_receive_their_copies_of_one_message(storage: Storage) -> None:
    await storage.upkeep.declare([Declaration(f"g{i:03}", "shop", ("#",), "h") for i in range(100)])
    message = draft()

    await publish(storage, message)

    copies = (await found(storage, message.id)).deliveries
    assert sorted(view.group for view in copies) == [f"g{i:03}" for i in range(100)]


async def test_a_clock_set_back_hides_what_was_due_and_loses_nothing(storage: Storage) -> None:
    turn(storage, HOUR)
    await publish(storage, draft(group="mailer"))
    held = await hold_one(storage, "other")

    turn(storage, NOW)
    while_back = await claim(storage), await reap(storage, "other")
    settled = await settle(storage, held, DONE)
    turn(storage, HOUR + MINUTE)

    assert while_back == ([], None)
    assert settled == Settled()
    assert (await claim_one(storage)).attempt == 1
