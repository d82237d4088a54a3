from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypedDict
from uuid import UUID

import pytest

from mainspring.app.message.catalogue import Catalogue
from mainspring.app.message.envelope import MISSING, Envelope
from mainspring.model.errors import BadOption, BadSignature, Conflict, PayloadTooLarge, Unencodable
from mainspring.model.message import Draft, Priority
from mainspring.timing.clock import HandClock

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SOME_ID = UUID("01890000-0000-7000-8000-000000000001")


@dataclass
class OrderPlaced:
    order_id: int


class Refund(TypedDict):
    order_id: int


@dataclass
class Unregistered:
    order_id: int


def catalogue() -> Catalogue:
    known = Catalogue()
    known.register(OrderPlaced, "orders.placed")
    known.register(Refund, "orders.refunded")
    return known


def envelope(limit: int = 1000) -> Envelope:
    return Envelope(catalogue(), limit, HandClock(NOON))


def draft(message: object, payload: object = MISSING, **options: Any) -> Draft:
    return envelope().draft(message, payload, options)


def test_a_registered_type_goes_to_its_topic() -> None:
    made = draft(OrderPlaced(7))

    assert (made.topic, made.payload, made.content_type) == ("orders.placed", b'{"order_id":7}', "application/json")
    assert made.id.version == 7
    assert (made.delay, made.at, made.key, made.group, made.headers) == (timedelta(), None, None, None, None)


def test_a_topic_takes_any_payload() -> None:
    assert draft("orders.shipped", {"id": 1}).payload == b'{"id":1}'
    assert draft("orders.shipped", OrderPlaced(1)).topic == "orders.shipped"
    assert draft("orders.shipped", b"\x00").content_type == "application/octet-stream"


def test_a_topic_alone_carries_nothing() -> None:
    assert draft("orders.shipped").payload == b"null"
    assert draft("orders.shipped", None).payload == b"null"


def test_a_type_may_stand_for_its_topic() -> None:
    made = draft(Refund, {"order_id": 1})

    assert (made.topic, made.payload) == ("orders.refunded", b'{"order_id":1}')


def test_a_straight_message_takes_the_consumers_topic_when_its_type_has_none() -> None:
    to_one = envelope().draft("plain text", MISSING, group="receipts", topic="orders.any")
    typed = envelope().draft(OrderPlaced(1), MISSING, group="receipts", topic="orders.any")

    assert (to_one.topic, to_one.payload, to_one.group) == ("orders.any", b'"plain text"', "receipts")
    assert typed.topic == "orders.placed"


def test_every_option_reaches_the_draft() -> None:
    made = draft(
        OrderPlaced(1),
        delay="15m",
        key="order:1",
        priority="high",
        headers={"tenant": "a"},
        correlation_id=SOME_ID,
        message_id=str(SOME_ID),
        expires="1h",
    )

    assert made == Draft(
        id=SOME_ID,
        topic="orders.placed",
        payload=b'{"order_id":1}',
        headers={"tenant": "a"},
        key="order:1",
        priority=Priority.HIGH,
        delay=timedelta(minutes=15),
        expires_in=timedelta(hours=1),
        correlation_id=str(SOME_ID),
    )


def test_none_is_the_same_as_leaving_an_option_out() -> None:
    made = draft("a", 1, delay=None, at=None, key=None, priority=None, headers=None, expires=None, past=None, tx=None)

    assert made == Draft(made.id, "a", b"1")


def test_an_instant_is_handed_on_in_utc() -> None:
    made = draft("a", 1, at=datetime(2030, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))))

    assert made.at == datetime(2030, 1, 2, 1, tzinfo=UTC)
    assert made.at is not None
    assert made.at.tzinfo is UTC


def test_a_past_instant_runs_now_unless_it_may_not() -> None:
    earlier = NOON - timedelta(seconds=1)

    assert draft("a", 1, at=earlier).at == earlier
    assert draft("a", 1, at=NOON, past="raise").at == NOON
    with pytest.raises(BadOption) as refused:
        draft("a", 1, at=earlier, past="raise")
    assert str(refused.value) == (
        "at=2030-01-01T11:59:59+00:00 has passed: give a later time, or past='run' to deliver it now"
    )


@pytest.mark.parametrize(
    ("given", "level"),
    [("urgent", 0), ("high", 1), ("normal", 2), ("low", 3), (0, 0), (3, 3), (Priority.LOW, 3), (None, 2)],
)
def test_a_priority_is_a_name_a_number_or_a_level(given: object, level: int) -> None:
    assert draft("a", 1, priority=given).priority == level


def test_an_expiry_may_be_an_instant() -> None:
    made = draft("a", 1, expires=NOON)

    assert (made.expires_at, made.expires_in) == (NOON, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"dealy": "5m"},
            (
                "publish(…) has no option 'dealy'. Did you mean 'delay'? It accepts at, correlation_id, delay, "
                "direct, expires, headers, key, message_id, past, priority, tx, unique, validate"
            ),
        ),
        (
            {"delay": "5m", "at": NOON},
            "delay and at were both given: a message has one due time, pass one of them",
        ),
        ({"delay": 5}, "delay=5 has no unit: write a timedelta or text like '30s', '15m', '1h30m', '2d'"),
        (
            {"at": datetime(2030, 1, 1)},  # noqa: DTZ001
            "at=2030-01-01T00:00:00 has no time zone: write datetime(…, tzinfo=UTC) or ZoneInfo('Europe/Paris')",
        ),
        (
            {"at": "tomorrow"},
            "at='tomorrow' must be an aware datetime, as in datetime.now(UTC) + timedelta(hours=1)",
        ),
        ({"past": "skip"}, "past='skip' is not one of 'run', 'raise'."),
        (
            {"priority": "hihg"},
            "priority='hihg' is not one of 'urgent', 'high', 'normal', 'low' or 0 to 3. Did you mean 'high'?",
        ),
        ({"priority": 4}, "priority=4 is not one of 'urgent', 'high', 'normal', 'low' or 0 to 3."),
        ({"priority": True}, "priority=True is not one of 'urgent', 'high', 'normal', 'low' or 0 to 3."),
        ({"key": 42}, "key=42 must be text, not int: write str(…) around it"),
        ({"headers": {"a": 1}}, "header 'a': 1 must be text to text: write str(…) around it"),
        ({"correlation_id": ""}, "correlation_id must be 1 to 200 characters, not 0: ''"),
        (
            {"message_id": "order-42"},
            (
                "message_id='order-42' is not a UUID: make one from your own id by uuid.uuid5(uuid.NAMESPACE_URL, "
                "'order:42')"
            ),
        ),
        (
            {"expires": datetime(2030, 1, 1)},  # noqa: DTZ001
            "expires=2030-01-01T00:00:00 has no time zone: write datetime(…, tzinfo=UTC) or ZoneInfo('Europe/Paris')",
        ),
        ({"expires": "0s"}, "expires='0s' is out of bounds: it must be at least 0.001ms"),
        (
            {"expires": "5m", "delay": "10m"},
            "expires='5m' is not after delay='0:10:00': it would never be delivered",
        ),
        (
            {"expires": NOON, "at": NOON},
            "expires=2030-01-01T12:00:00+00:00 is not after at=2030-01-01T12:00:00+00:00: it would never be delivered",
        ),
    ],
)
def test_an_option_that_cannot_be_meant_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadOption) as refused:
        draft("a", 1, **options)

    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ({"id": 1}, "a dict has no topic of its own: write publish('your.topic', payload)"),
        (5, "a int has no topic of its own: write publish('your.topic', payload)"),
        (None, "a NoneType has no topic of its own: write publish('your.topic', payload)"),
        (
            Unregistered(1),
            (
                "Unregistered has no topic: put @app.message('your.topic') above it, or write publish('your.topic', "
                "message)"
            ),
        ),
        (OrderPlaced, "publish(OrderPlaced) got the type: pass an instance, or a payload after it"),
    ],
)
def test_a_message_without_a_topic_says_what_to_write(message: object, complaint: str) -> None:
    with pytest.raises(BadSignature) as refused:
        draft(message)

    assert str(refused.value) == complaint


def test_an_unregistered_type_cannot_stand_for_a_topic() -> None:
    with pytest.raises(BadOption, match="the first argument must be a topic, or a type registered by @app"):
        draft(Unregistered, {"order_id": 1})


def test_a_payload_over_the_limit_is_refused_with_both_numbers() -> None:
    with pytest.raises(PayloadTooLarge) as refused:
        draft("a", "x" * 2000)

    assert str(refused.value) == (
        "the payload for topic 'a' is 2,002 bytes, over the limit of 1,000: store it elsewhere and send a reference, "
        "or raise Mainspring(payload_limit=…)"
    )


def test_a_payload_without_an_encoding_is_refused() -> None:
    with pytest.raises(Unencodable, match=r"a payload cannot hold object at `\$\.a`"):
        draft("a", {"a": object()})


def test_a_type_has_one_topic() -> None:
    with pytest.raises(Conflict) as refused:
        catalogue().register(OrderPlaced, "orders.other")

    assert str(refused.value) == "OrderPlaced is already the message of topic 'orders.placed': use another type"


def test_a_topic_has_one_type() -> None:
    with pytest.raises(Conflict) as refused:
        catalogue().register(Unregistered, "orders.placed")

    assert str(refused.value) == (
        f"topic 'orders.placed' already has a message type, {__name__}.OrderPlaced: give {__name__}.Unregistered "
        "another topic"
    )


def test_the_same_registration_twice_changes_nothing() -> None:
    known = catalogue()

    known.register(OrderPlaced, "orders.placed")

    assert known.topic_of(OrderPlaced) == "orders.placed"


def test_what_cannot_be_a_payload_cannot_be_a_message() -> None:
    class Opaque:
        pass

    with pytest.raises(BadSignature, match="Opaque cannot be a payload"):
        Catalogue().register(Opaque, "a")


def test_an_annotation_without_a_hash_has_no_topic() -> None:
    assert catalogue().topic_of([]) is None
