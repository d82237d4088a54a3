from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from mainspring import Cancelled, Mainspring
from mainspring.model.errors import BadOption, BadSignature, Unencodable

LATER = datetime(2040, 1, 1, tzinfo=UTC)


@dataclass
class OrderPlaced:
    id: int


@pytest.fixture
async def app() -> AsyncIterator[Mainspring]:
    app = Mainspring("memory://")
    app.message("orders.placed")(OrderPlaced)
    async with app:
        yield app


async def test_a_message_is_stored_and_shown(app: Mainspring) -> None:
    receipt = await app.publish(OrderPlaced(7), key="order:7", headers={"tenant": "a"})

    stored = await app.messages.get(receipt.id)

    assert receipt.status == "stored"
    assert stored is not None
    assert (stored.topic, stored.key, stored.payload) == ("orders.placed", "order:7", b'{"id":7}')
    assert stored.headers == {"tenant": "a"}


async def test_the_same_id_again_is_a_duplicate(app: Mainspring) -> None:
    own = uuid4()
    first = await app.publish("a", 1, message_id=own)

    again = await app.publish("a", 1, message_id=str(own))

    assert (first.status, again.status) == ("stored", "duplicate")
    assert first.id == again.id == own


async def test_many_are_published_in_order(app: Mainspring) -> None:
    receipts = await app.publish_many([OrderPlaced(1), ("orders.shipped", {"id": 2}), (OrderPlaced, {"id": 3})])

    shown = [await app.messages.get(receipt.id) for receipt in receipts]

    assert [(each.topic, each.payload) for each in shown if each is not None] == [
        ("orders.placed", b'{"id":1}'),
        ("orders.shipped", b'{"id":2}'),
        ("orders.placed", b'{"id":3}'),
    ]


async def test_many_can_be_spread_evenly(app: Mainspring) -> None:
    receipts = await app.publish_many([("a", number) for number in range(4)], spread="1h", at=LATER)

    rows = {row.message_id: row.scheduled_for for row in await app.messages.list("parked")}

    assert [rows[receipt.id] - LATER for receipt in receipts] == [timedelta(minutes=15 * number) for number in range(4)]


async def test_a_spread_adds_to_the_delay(app: Mainspring) -> None:
    receipts = await app.publish_many([("a", 1), ("a", 2)], spread="2h", delay="1h")

    rows = {row.message_id: row for row in await app.messages.list("parked")}
    delays = [rows[receipt.id].scheduled_for - rows[receipt.id].published_at for receipt in receipts]

    assert delays == [timedelta(hours=1), timedelta(hours=2)]


async def test_none_of_many_is_stored_when_one_is_wrong(app: Mainspring) -> None:
    with pytest.raises(Unencodable):
        await app.publish_many([("a", 1), ("a", object())])

    assert await app.messages.list("parked") == []


async def test_no_messages_are_no_work(app: Mainspring) -> None:
    assert await app.publish_many([], spread="1h") == []


async def test_many_cannot_share_an_id(app: Mainspring) -> None:
    with pytest.raises(BadOption) as refused:
        await app.publish_many([("a", 1)], message_id=uuid4())

    assert str(refused.value) == ("publish_many(…) makes the ids itself: leave message_id out, or publish one by one")


async def test_a_message_is_cancelled_by_its_receipt_its_id_or_its_text(app: Mainspring) -> None:
    receipts = [await app.publish("a", number) for number in range(3)]

    assert await app.cancel(receipts[0]) == Cancelled(cancelled=1, asked=0)
    assert await app.cancel(receipts[1].id) == Cancelled(cancelled=1, asked=0)
    assert await app.cancel(str(receipts[2].id)) == Cancelled(cancelled=1, asked=0)
    assert await app.cancel(receipts[0]) == Cancelled(cancelled=0, asked=0)


async def test_messages_are_cancelled_by_topic_and_key(app: Mainspring) -> None:
    await app.publish("payments.timeout", 1, delay="15m", key="order:42")
    await app.publish(OrderPlaced(1), key="order:42")

    assert await app.cancel("payments.timeout", key="order:42") == Cancelled(cancelled=1, asked=0)
    assert await app.cancel(OrderPlaced, key="order:42") == Cancelled(cancelled=1, asked=0)


@pytest.mark.parametrize(
    ("which", "key", "message"),
    [
        (
            "payments.timeout",
            None,
            (
                "cancel('payments.timeout') is not a message id: pass the id from the receipt, or a topic with key=…, "
                "as in cancel('payments.timeout', key='order:42')"
            ),
        ),
        (dict, "k", "cancel(<class 'dict'>, key=…): name a topic, or a type with @app.message(topic)"),
        ("a.*", "k", "topic 'a.*' has a wildcard: publish to a plain topic; `*` and `#` are for @app.consumer(…)"),
        ("a", "", "key must be 1 to 200 characters, not 0: ''"),
    ],
)
async def test_a_cancel_that_names_nothing_says_what_to_name(
    app: Mainspring, which: type | str, key: str | None, message: str
) -> None:
    with pytest.raises(BadOption) as refused:
        await app.cancel(which, key=key)

    assert str(refused.value) == message


async def test_a_dict_alone_is_refused(app: Mainspring) -> None:
    with pytest.raises(BadSignature, match=r"a dict has no topic of its own: write publish\('your.topic', payload\)"):
        await app.publish({"id": 1})


async def test_environments_on_one_database_do_not_meet() -> None:
    app = Mainspring("memory://", namespace="staging")
    async with app:
        receipt = await app.publish("a", 1)

        shown = await app.messages.get(receipt.id)
        listed = await app.messages.list("parked")

    assert shown is not None
    assert shown.topic == "a"
    assert [row.topic for row in listed] == ["a"]


def test_an_app_shows_itself_without_secrets() -> None:
    assert repr(Mainspring("memory://", name="shop")) == "<Mainspring 'shop' on memory://>"
