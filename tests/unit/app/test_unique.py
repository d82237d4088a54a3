"""``unique`` as callers write it: what it means, and what is refused before anything is stored."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from mainspring import Mainspring, Unique, errors, unique
from mainspring.app.message.unique import unique_key_of
from mainspring.model.message import Draft, UniqueKey

CALL = "publish(…)"
ONE = Draft(uuid4(), "orders.placed", b"{}", key="order:7")


def hashed(draft: Draft, by: str = "key") -> bytes:
    unique_key = unique_key_of(draft, {"unique": by}, CALL)
    assert unique_key is not None
    return unique_key.hash


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (unique(), Unique("key", "running", "first")),
        (unique("payload"), Unique("payload", "running", "first")),
        (unique(scope="pending"), Unique("key", "pending", "first")),
        (unique(scope="10m"), Unique("key", timedelta(minutes=10), "first")),
        (unique(scope=timedelta(hours=2)), Unique("key", timedelta(hours=2), "first")),
        (unique(keep="last"), Unique("key", "pending", "last")),
        (unique("payload", scope="pending", keep="last"), Unique("payload", "pending", "last")),
    ],
)
def test_what_is_left_out_has_a_meaning(written: Unique, meant: Unique) -> None:
    assert written == meant


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "keys"}, "'keys' is not one of 'key', 'payload'. Did you mean 'key'?"),
        ({"by": None}, "None is not one of 'key', 'payload'."),
        ({"keep": "latest"}, "'latest' is not one of 'first', 'last'. Did you mean 'last'?"),
        (
            {"scope": "runing"},
            "neither 'pending' nor 'running', nor a length of time like '10m'. Did you mean 'running'?",
        ),
        ({"scope": "0s"}, "scope='0s' is out of bounds"),
        ({"scope": timedelta()}, "is out of bounds"),
        ({"scope": "4000d"}, "is out of bounds"),
        ({"scope": "10 parsecs"}, "scope='10 parsecs'"),
        ({"scope": "running", "keep": "last"}, "only what has not begun can be replaced"),
        ({"scope": "10m", "keep": "last"}, "unique(scope='10m', keep='last') is invalid"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.BadOption) as refused:
        unique(**options)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("draft", "options", "said"),
    [
        (ONE, {"unique": "kye"}, "unique='kye' must be 'key', 'payload', or made by unique(…)"),
        (ONE, {"unique": "kye"}, "Did you mean 'key'?"),
        (ONE, {"unique": True}, "unique=True must be 'key'"),
        (ONE, {"unique": unique}, "as in unique(by='key', scope='10m')"),
        (ONE, {"unique": "key", "message_id": ONE.id}, "has unique= and message_id=: the same id again stores nothing"),
        (replace(ONE, key=None), {"unique": "key"}, "by its key and has none: give key='…', or write unique='payload'"),
    ],
)
def test_what_does_not_go_together_is_refused(draft: Draft, options: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.BadOption) as refused:
        unique_key_of(draft, options, CALL)

    assert said in str(refused.value)


def test_none_is_the_same_as_leaving_it_out() -> None:
    assert unique_key_of(ONE, {}, CALL) is None
    assert unique_key_of(ONE, {"unique": None}, CALL) is None


def test_a_likeness_says_what_is_kept_and_for_how_long() -> None:
    shorthand, window = (unique_key_of(ONE, {"unique": how}, CALL) for how in ("key", unique(scope="2d")))
    assert shorthand is not None
    assert window is not None

    assert (shorthand.scope, shorthand.keep, shorthand.window) == ("running", "first", None)
    assert shorthand.remembered == timedelta(hours=1)
    assert (window.window, window.remembered) == (timedelta(days=2), timedelta(days=2))
    assert UniqueKey(b"1", timedelta(minutes=1)).remembered == timedelta(hours=1)


def test_messages_are_alike_by_topic_group_and_key() -> None:
    same = replace(ONE, id=uuid4(), payload=b"[]", headers={"a": "b"}, delay=timedelta(1))
    others = [
        replace(ONE, topic="orders.paid"),
        replace(ONE, group="mailer"),
        replace(ONE, key="order:8"),
        replace(ONE, topic="orders", key="placedorder:7"),
    ]

    assert hashed(same) == hashed(ONE)
    assert len({hashed(ONE), *map(hashed, others)}) == 5


def test_messages_are_alike_by_their_payload_whatever_their_key() -> None:
    same = replace(ONE, key=None)
    others = [replace(ONE, payload=b"[]"), replace(ONE, content_type="application/json; version=2")]

    assert hashed(same, "payload") == hashed(ONE, "payload")
    assert len({hashed(ONE, "payload"), *(hashed(each, "payload") for each in others)}) == 3
    assert hashed(replace(ONE, payload=b"order:7"), "payload") != hashed(ONE)


@pytest.fixture
async def app() -> Mainspring:
    return Mainspring("memory://")


async def test_many_at_once_cannot_be_unique(app: Mainspring) -> None:
    with pytest.raises(errors.BadOption, match="cannot check each"):
        await app.publish_many([("a", 1)], unique="payload")
    with pytest.raises(errors.BadOption, match="cannot check each"):
        app.sync.publish_many([("a", 1)], unique="payload", tx=object())


async def test_what_has_something_to_follow_cannot_be_unique(app: Mainspring) -> None:
    @app.consumer("a")
    async def first(_: int) -> None: ...

    @app.consumer("b")
    async def second() -> None: ...

    with pytest.raises(errors.BadOption, match=r"first.send\(…\) has unique= and what follows it"):
        await first.send(1, unique="payload", then=second)
    with pytest.raises(errors.BadOption, match="what follows it"):
        first.sync.send(1, unique="payload", failed=second, tx=object())


async def test_what_is_refused_says_which_call_it_was(app: Mainspring) -> None:
    with pytest.raises(errors.BadOption, match=r"^app.publish\(\) is unique by its key"):
        await app.publish("a", 1, unique="key")
    with pytest.raises(errors.BadOption, match=r"^app.publish\(\) is unique by its key"):
        app.sync.publish("a", 1, unique="key", tx=object())


async def test_receipts_say_what_became_of_it(app: Mainspring) -> None:
    @app.consumer("mail.send", group="mail")
    async def mail(_: int) -> None: ...

    async with app:
        first = await app.publish("mail.send", 1, key="ann", unique="key")
        second = await app.publish("mail.send", 2, key="ann", unique="key")
        straight = await mail.send(3, key="ann", unique="key")
        again = await mail.send(4, key="ann", unique="key")
        last = await app.publish("mail.send", 5, key="ann", unique=unique(keep="last"))

    assert (first.status, second.status, second.id) == ("stored", "duplicate", first.id)
    assert (straight.status, again.status, again.id) == ("stored", "duplicate", straight.id)
    assert last.status == "replaced"
    assert last.id != first.id
