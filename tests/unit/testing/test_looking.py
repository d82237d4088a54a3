from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from mainspring import Consumer, Context, Mainspring, Testing, errors


@dataclass
class OrderPlaced:
    order_id: int
    total: float


@pytest.fixture
def app(app: Mainspring) -> Mainspring:
    app.message("orders.placed")(OrderPlaced)
    return app


async def test_what_was_published_is_shown_as_it_was_published(app: Mainspring, kit: Testing) -> None:
    receipt = await app.publish(OrderPlaced(7, 9.5), key="order:7", headers={"lang": "fr"}, delay="15m", expires="1h")
    await app.publish("orders.shipped", {"order_id": 7})

    placed, shipped = kit.published()
    assert (placed.topic, placed.payload, placed.id) == ("orders.placed", OrderPlaced(7, 9.5), receipt.id)
    assert (placed.key, placed.headers, placed.delay) == ("order:7", {"lang": "fr"}, timedelta(minutes=15))
    assert (placed.published_at, placed.expires_at) == (kit.now, kit.now + timedelta(hours=1))
    assert (shipped.payload, shipped.delay) == ({"order_id": 7}, timedelta())


async def test_it_is_picked_out_by_topic_pattern_type_and_fields(app: Mainspring, kit: Testing) -> None:
    for number in (1, 2):
        await app.publish(OrderPlaced(number, 5.0))
    await app.publish("orders.shipped", {"order_id": 2, "by": "post"})

    assert [sent.payload.order_id for sent in kit.published(OrderPlaced)] == [1, 2]
    assert [sent.payload for sent in kit.published(OrderPlaced, order_id=2, total=5.0)] == [OrderPlaced(2, 5.0)]
    assert [sent.topic for sent in kit.published("orders.*", order_id=2)] == ["orders.placed", "orders.shipped"]
    assert kit.published("orders.shipped", by="plane") == []


async def test_a_field_or_a_topic_that_cannot_be_meant_is_an_error(app: Mainspring, kit: Testing) -> None:
    with pytest.raises(errors.BadOption, match=r"OrderPlaced has no field 'order'\. Did you mean 'order_id'"):
        kit.published(OrderPlaced, order=7)
    with pytest.raises(errors.BadOption, match="name a topic or a pattern"):
        kit.published(int)
    with pytest.raises(errors.BadOption, match="no consumer has group 'shp'"):
        kit.delivered("shp")
    with pytest.raises(errors.BadOption, match="is no consumer of this app"):
        kit.delivered(print)


async def test_what_was_delivered_is_of_the_consumers_own_type(app: Mainspring, kit: Testing) -> None:
    @app.consumer(OrderPlaced)
    async def ship(order: OrderPlaced) -> None: ...

    @app.consumer("orders.#", group="analytics")
    async def count(order: dict[str, Any], ctx: Context) -> None: ...

    @app.consumer(OrderPlaced)
    class Archive(Consumer[OrderPlaced]):
        async def consume(self, ctx: Context) -> None: ...

    await app.publish(OrderPlaced(7, 9.5))
    await kit.drain()

    assert [ran.payload for ran in kit.delivered(ship)] == [OrderPlaced(7, 9.5)]
    assert [ran.payload for ran in kit.delivered("analytics")] == [{"order_id": 7, "total": 9.5}]
    assert [ran.group for ran in kit.delivered(Archive)] == ["Archive"]
    assert [ran.group for ran in kit.delivered(order_id=7)] == ["Archive", "analytics", "ship"]
    assert kit.delivered(ship, order_id=8) == []


async def test_only_what_succeeded_was_delivered(app: Mainspring, kit: Testing) -> None:
    @app.consumer(OrderPlaced)
    async def ship(order: OrderPlaced, ctx: Context) -> None:
        if ctx.attempt < 3:
            raise OSError("away")

    await app.publish(OrderPlaced(7, 9.5))
    await kit.advance("1h")

    assert [ran.outcome for ran in kit.runs] == ["failed", "failed", "done"]
    assert [ran.attempt for ran in kit.delivered(ship)] == [3]


async def test_what_was_sent_straight_to_a_consumer_says_so(app: Mainspring, kit: Testing) -> None:
    @app.consumer(OrderPlaced)
    async def ship(order: OrderPlaced) -> None: ...

    await ship.send(OrderPlaced(7, 9.5), delay="1h")

    assert [(sent.topic, sent.group) for sent in kit.published()] == [("orders.placed", "ship")]


async def test_a_duplicate_is_noted_as_one(app: Mainspring, kit: Testing) -> None:
    first = await app.publish("orders.shipped", 1)
    await app.publish("orders.shipped", 1, message_id=first.id)

    assert [sent.status for sent in kit.published()] == ["stored", "duplicate"]


async def test_what_waits_is_listed_in_the_order_it_will_run(app: Mainspring, kit: Testing) -> None:
    @app.consumer("reminders")
    async def remind(name: str) -> None: ...

    await app.publish("reminders", "later", delay="1d")
    await app.publish("reminders", "now")

    assert [(waiting.payload, waiting.due_in) for waiting in kit.pending] == [
        ("now", timedelta()),
        ("later", timedelta(days=1)),
    ]


async def test_everything_reads_well(app: Mainspring, kit: Testing) -> None:
    @app.consumer("orders.#")
    async def ship(order: dict[str, Any]) -> None:
        raise ValueError("out of stock")

    await app.publish("orders.placed", {"order_id": 7, "total": 1.0}, delay="1h")
    await app.publish("orders.shipped", "x" * 1000)
    assert [repr(each) for each in kit.published("orders.placed")] == [
        "<published orders.placed: OrderPlaced(order_id=7, total=1.0), due in 1h>"
    ]
    assert len(repr(kit.published("orders.shipped"))) < 400
    assert repr(kit.pending[1]) == "<pending ship({'order_id': 7, 'total': 1.0}), due in 1h>"
    assert repr(kit).endswith(": 2 published, 0 run, 2 pending, 0 dead>")


async def test_names_are_shown_as_they_were_written(app: Mainspring) -> None:
    spaced = Mainspring("memory://", namespace="laptop")

    @spaced.consumer("orders.placed")
    async def ship(order: int) -> None: ...

    with spaced.testing() as kit:
        await spaced.publish("orders.placed", 1, delay="1s")
        assert [(waiting.group, waiting.topic) for waiting in kit.pending] == [("ship", "orders.placed")]
        await kit.advance("1s")

        assert [sent.topic for sent in kit.published("orders.placed")] == ["orders.placed"]
        assert [(ran.group, ran.topic) for ran in kit.delivered(ship)] == [("ship", "orders.placed")]
        assert (await spaced.health()).status == "healthy"


async def test_fields_of_every_kind_of_payload_are_known(kit: Testing) -> None:
    class Typed(TypedDict):
        number: int

    class Struct(msgspec.Struct):
        number: int

    class Model(pydantic.BaseModel):
        number: int

    app = Mainspring("memory://")
    for name, kind in (("typed", Typed), ("struct", Struct), ("model", Model)):
        app.message(name)(kind)
    with app.testing() as mine:
        await app.publish(Typed, {"number": 1})
        await app.publish(Struct(1))
        await app.publish(Model(number=1))
        await app.publish("plain", 1)

        assert [len(mine.published(kind, number=1)) for kind in (Typed, Struct, Model)] == [1, 1, 1]
        assert [len(mine.published(kind, number=2)) for kind in (Typed, Struct, Model)] == [0, 0, 0]
        assert mine.published("plain", number=1) == []
        for kind in (Typed, Struct, Model):
            with pytest.raises(errors.BadOption, match="Did you mean 'number'"):
                mine.published(kind, numbr=1)
