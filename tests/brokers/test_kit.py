"""Brokers in the test kit: nothing connects, everything is seen."""

from dataclasses import dataclass

import pytest

from mainspring import Context, Mainspring
from mainspring.brokers import Kafka
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.model.errors import BadOption

TOPIC = "orders.placed"


@dataclass
class OrderPlaced:
    order_id: int


@pytest.fixture
def queues() -> MemoryQueues:
    away = MemoryQueues({"orders": []})
    away.fail("no test may connect")
    return away


@pytest.fixture
def app(queues: MemoryQueues) -> Mainspring:
    app = Mainspring("memory://", name="shop")
    app.message(TOPIC)(OrderPlaced)
    app.route("orders.*", to=MemoryBroker(queues), group="broker")
    return app


async def test_what_routes_send_is_recorded_and_reaches_no_broker(app: Mainspring) -> None:
    async with app.testing() as kit:
        first = await app.publish(OrderPlaced(7), key="order:7", headers={"tenant": "acme"})
        await app.publish(OrderPlaced(8))
        await app.publish("orders.cancelled", {"order_id": 7}, delay="1h")
        await kit.drain()

        assert [each.payload for each in kit.sent()] == [{"order_id": 7}, {"order_id": 8}]
        (sent,) = kit.sent(OrderPlaced, order_id=7)
        assert (sent.route, sent.topic, sent.id, sent.key) == ("broker", TOPIC, str(first.id), "order:7")
        assert (sent.headers["tenant"], sent.headers["ce-type"]) == ("acme", TOPIC)

        await kit.advance("1h")
        assert len(kit.sent("orders.cancelled")) == 1


def test_a_test_that_blocks_sees_the_same(app: Mainspring) -> None:
    with app.testing() as kit:
        app.sync.publish(OrderPlaced(7))
        kit.sync.drain()

        assert [each.payload for each in kit.sent()] == [{"order_id": 7}]


async def test_a_message_is_handed_in_once_as_a_broker_would(queues: MemoryQueues) -> None:
    app = Mainspring("memory://", name="billing")
    handled: list[tuple[int, str | None, str]] = []
    source = MemoryBroker(queues, read="orders")

    @app.consumer(TOPIC, source=source)
    async def bill(order: OrderPlaced, ctx: Context) -> None:
        handled.append((order.order_id, ctx.key, ctx.headers["tenant"]))

    async with app.testing() as kit:
        first = await kit.receive(bill, {"order_id": 7}, id="evt-7", key="order:7", headers={"tenant": "acme"})
        again = await kit.receive(source, {"order_id": 7}, id="evt-7", headers={"tenant": "acme"})
        by_name = await kit.receive("memory:orders", b'{"order_id": 8}', id="evt-8", headers={"tenant": "acme"})
        await kit.drain()

    assert (first, again, by_name) == (True, False, True)
    assert handled == [(7, "order:7", "acme"), (8, None, "acme")]


async def test_one_that_cannot_be_stored_is_a_dead_letter_in_a_test_too(queues: MemoryQueues) -> None:
    app = Mainspring("memory://", name="billing")
    app.intake(MemoryBroker(queues, read="orders"))

    async with app.testing() as kit:
        assert await kit.receive("memory:orders", {"order_id": 7})
        with kit.expect_dead("intake:memory:orders", error="it names no topic"):
            await kit.drain()


async def test_a_source_of_several_topics_is_told_which_of_them_has_brought_it() -> None:
    app = Mainspring("memory://", name="billing")
    source = Kafka("localhost:9092", topics=["orders", "payments"], group_id="billing")
    app.intake(source, {"orders": TOPIC, "payments": "payments.received"})

    @app.consumer("payments.received")
    async def pay(payment: dict[str, int]) -> None: ...

    async with app.testing() as kit:
        with pytest.raises(BadOption, match=r"reads 'orders', 'payments': name one, as in address='orders'"):
            await kit.receive(source, {"total": 1})
        assert await kit.receive(source, {"total": 1}, address="payments")
        await kit.drain()

        assert [each.payload for each in kit.delivered(pay)] == [{"total": 1}]


async def test_mistakes_name_the_call(app: Mainspring, queues: MemoryQueues) -> None:
    source = MemoryBroker(queues, read="orders")
    app.intake(source)
    async with app.testing() as kit:
        with pytest.raises(BadOption, match=r"^sent\(5\): name a topic"):
            kit.sent(5)
        with pytest.raises(BadOption, match=r"^kit\.receive\(…, <object .*: pass what JSON has, or bytes"):
            await kit.receive(source, object())


async def test_an_unknown_source_is_named(app: Mainspring) -> None:
    async with app.testing() as kit:
        with pytest.raises(BadOption, match=r"kit\.receive\('kafka', …\).*one of: none"):
            await kit.receive("kafka", {})
