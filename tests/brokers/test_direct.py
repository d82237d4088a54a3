"""Direct publishing: to the brokers of routes at once, and nothing is stored."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mainspring import Context, Mainspring, unique
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.model.errors import BadOption, NotOpen, NotSent
from tests.brokers.bench import until

TOPIC = "orders.viewed"


@pytest.fixture
def queues() -> MemoryQueues:
    return MemoryQueues({"billing": [TOPIC]})


@pytest.fixture
def app(tmp_path: Path, queues: MemoryQueues) -> Mainspring:
    app = Mainspring(f"sqlite:///{tmp_path}/shop.db", name="shop")
    app.route("orders.*", to=MemoryBroker(queues), group="broker")
    return app


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("mainspring.app.broker.direct.PATIENCE", 0.05)
    return iter(())


async def waiting(app: Mainspring) -> int:
    return sum(each.ready + each.scheduled + each.running for each in (await app.stats.tally()).groups)


async def test_the_broker_has_it_when_the_call_returns_and_nothing_is_stored(
    app: Mainspring, queues: MemoryQueues
) -> None:
    async with app:
        await app.declare()
        receipt = await app.publish(
            TOPIC, {"n": 7}, direct=True, key="order:7", headers={"tenant": "acme"}, correlation_id="cart-7"
        )
        stored = await app.messages.get(receipt.id), await waiting(app)

    (found,) = queues.waiting["billing"]
    assert receipt.status == "sent"
    assert stored == (None, 0)
    assert (found.message_id, json.loads(found.body), found.key) == (str(receipt.id), {"n": 7}, "order:7")
    assert (found.headers["tenant"], found.headers["ce-type"], found.correlation_id) == ("acme", TOPIC, "cart-7")


async def test_each_route_of_its_topic_sends_it(app: Mainspring, queues: MemoryQueues) -> None:
    others = MemoryQueues({"audit": ()})
    app.route("#", to=MemoryBroker(others, read="audit"), group="audit")

    async with app:
        await app.publish(TOPIC, 1, direct=True)

    assert (len(queues.waiting["billing"]), len(others.waiting["audit"])) == (1, 1)


async def test_many_are_sent_in_order(app: Mainspring, queues: MemoryQueues) -> None:
    async with app:
        receipts = await app.publish_many([(TOPIC, number) for number in range(600)], direct=True)

    assert [json.loads(each.body) for each in queues.waiting["billing"]] == list(range(600))
    assert {each.status for each in receipts} == {"sent"}


async def test_a_broker_that_is_away_is_reported_with_the_id_and_can_be_tried_again(
    app: Mainspring, queues: MemoryQueues, impatient: None
) -> None:
    id = uuid4()
    queues.fail("it was stopped")

    async with app:
        with pytest.raises(NotSent, match=r"it was stopped.*same message_id.*without direct=True") as raised:
            await app.publish(TOPIC, 1, direct=True, message_id=id)
        queues.heal()
        await until(lambda: _sent(app, id))

    assert (raised.value.ids, raised.value.rejected, list(raised.value.reasons)) == ((id,), False, ["broker"])
    assert [each.message_id for each in queues.waiting["billing"]] == [str(id)]


async def _sent(app: Mainspring, id: Any) -> bool:
    try:
        await app.publish(TOPIC, 1, direct=True, message_id=id)
    except NotSent:
        return False
    return True


async def test_what_the_broker_rejects_is_named_and_its_neighbours_are_sent(
    app: Mainspring, queues: MemoryQueues
) -> None:
    async with app:
        with pytest.raises(NotSent, match=r"1 of 3 messages were not confirmed.*no queue is bound.*Mend") as raised:
            await app.publish_many([(TOPIC, 1), ("orders.lost", 2), (TOPIC, 3)], direct=True)

    assert raised.value.rejected
    assert len(raised.value.ids) == 1
    assert [json.loads(each.body) for each in queues.waiting["billing"]] == [1, 3]


@pytest.mark.parametrize(
    "options",
    [
        {"delay": "1m"},
        {"tx": object()},
        {"unique": unique("key"), "key": "a"},
        {"expires": "1h"},
        {"priority": "high"},
    ],
)
async def test_what_only_a_stored_message_has_is_rejected(app: Mainspring, options: dict[str, Any]) -> None:
    async with app:
        with pytest.raises(BadOption, match=r"direct=True stores nothing and sends now, so it takes no"):
            await app.publish(TOPIC, 1, direct=True, **options)
        with pytest.raises(BadOption, match=r"no spread="):
            await app.publish_many([(TOPIC, 1)], direct=True, spread="1h")


async def test_a_topic_without_a_route_is_rejected_before_anything_is_sent(
    app: Mainspring, queues: MemoryQueues
) -> None:
    async with app:
        with pytest.raises(BadOption, match=r"no route of this app sends 'payments.made': register one by app.route"):
            await app.publish_many([(TOPIC, 1), ("payments.made", 2)], direct=True)

    assert not queues.waiting["billing"]


async def test_an_app_without_routes_says_so() -> None:
    app = Mainspring("memory://", name="shop")

    async with app:
        with pytest.raises(BadOption, match=r"this app has no route: register one by app\.route"):
            await app.publish(TOPIC, 1, direct=True)


async def test_a_consumer_is_sent_to_through_the_database_only(app: Mainspring) -> None:
    @app.consumer("orders.seen")
    async def see(order: int) -> None: ...

    async with app:
        with pytest.raises(BadOption, match=r"see.send\(…\) goes to a consumer of this app.*leave out direct=True"):
            await see.send(1, direct=True)


async def test_an_app_that_is_not_open_says_so_and_one_that_is_closed_has_no_connection_left(
    app: Mainspring, queues: MemoryQueues
) -> None:
    with pytest.raises(NotOpen):
        await app.publish(TOPIC, 1, direct=True)

    async with app:
        await app.publish(TOPIC, 2, direct=True)
        during = len(queues.connections)
    after = len(queues.connections)
    async with app:
        await app.publish(TOPIC, 3, direct=True)

    assert (during, after) == (1, 0)
    assert len(queues.waiting["billing"]) == 2


def test_blocking_code_sends_directly_too(app: Mainspring, queues: MemoryQueues) -> None:
    receipt = app.sync.publish(TOPIC, 1, direct=True)
    app.sync.close()

    assert receipt.status == "sent"
    assert (len(queues.waiting["billing"]), len(queues.connections)) == (1, 0)


async def test_a_transactional_handler_sends_directly_outside_its_transaction(
    app: Mainspring, queues: MemoryQueues
) -> None:
    handled = asyncio.Event()

    @app.consumer("payments.made", transactional=True)
    async def pay(amount: int, ctx: Context) -> None:
        await ctx.publish(TOPIC, amount, direct=True)
        handled.set()

    async with app.worker():
        receipt = await app.publish("payments.made", 9)
        async with asyncio.timeout(30):
            await handled.wait()

    (found,) = queues.waiting["billing"]
    assert found.headers["ce-causationid"] == str(receipt.id)


def test_the_kit_records_what_would_have_been_sent(app: Mainspring, queues: MemoryQueues) -> None:
    with app.testing() as kit:
        receipt = app.sync.publish(TOPIC, {"n": 1}, direct=True)
        (sent,) = kit.sent(TOPIC, n=1)

    assert (sent.id, sent.route) == (str(receipt.id), "broker")
    assert not queues.waiting["billing"]
