"""What is true of Redis Streams alone: entries, sending, receiving, trimming, users, options."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mainspring.brokers.contract import SENT, Received, WireMessage
from mainspring.brokers.redis import RETURNED, RedisStreams
from mainspring.model.errors import BadOption, BrokerUnavailable, MissingExtra
from tests.brokers.bench import TOPIC, identity, message
from tests.brokers.benches.redis import URL, RedisBench, connected

WAIT = 10.0

HOST = URL.partition("@")[2] or URL.removeprefix("redis://")


@pytest.fixture
async def place() -> AsyncIterator[RedisBench]:
    made = RedisBench()
    await made.open()
    yield made
    await made.client.acl_deluser(made.stream)
    await made.close()


def reading(place: RedisBench, **options: Any) -> RedisStreams:
    return RedisStreams(URL, streams=[place.stream], group="billing", **options)


async def consumers(place: RedisBench) -> dict[str, int]:
    found = await place.client.xinfo_consumers(place.stream, "billing")
    return {each["name"].decode(): each["pending"] for each in found}


async def sent(place: RedisBench, count: int) -> None:
    async with connected(RedisStreams(URL, stream=place.stream)) as sender:
        assert await sender.send([message(number) for number in range(count)], WAIT) == [SENT] * count


# What an entry looks like


async def test_an_entry_has_a_field_for_each_part(place: RedisBench) -> None:
    whole = WireMessage("7", TOPIC, b"\x00", "text/plain", {"ce-id": "7", "h:x": "ž"}, "order:7", "cart-7")
    async with connected(RedisStreams(URL, stream=place.stream)) as sender:
        await sender.send([whole, message(8)], WAIT)

    (_, first), (_, second) = await place.client.xrange(place.stream)

    assert first == {
        b"id": b"7", b"content_type": b"text/plain", b"key": b"order:7", b"correlation_id": b"cart-7",
        b"h:ce-id": b"7", b"h:h:x": "ž".encode(), b"body": b"\x00",
    }  # fmt: skip
    assert set(second) == {b"id", b"content_type", b"h:ce-id", b"body"}


async def test_all_of_it_is_received(place: RedisBench) -> None:
    whole = WireMessage("7", TOPIC, b"\x00", "text/plain", {"ce-id": "7", "h:x": "ž"}, "order:7", "cart-7")
    async with connected(RedisStreams(URL, stream=place.stream)) as sender, connected(reading(place)) as reader:
        await sender.send([whole], WAIT)
        (found,) = await reader.receive(1, WAIT)

    ((id, _),) = await place.client.xrange(place.stream)
    assert found == Received(
        b"\x00", {"ce-id": "7", "h:x": "ž"}, "text/plain", place.stream, f"{place.stream}/{id.decode()}", "7",
        "order:7", "cart-7", token=id,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "body", "headers", "content_type"),
    [
        ({"body": "hi"}, b"hi", {}, None),
        ({"body": "{}", "h:a": "1", "tenant": "x"}, b"{}", {"a": "1", "tenant": "x"}, None),
        ({"body": "{}", "h:a": b"\xff"}, b"{}", {"a": b"\xff"}, None),
        ({"id": "42", "name": "Łódź"}, '{"id":"42","name":"Łódź"}'.encode(), {}, "application/json"),
        ({"raw": b"\xff\x00"}, b'{"raw":"/wA="}', {}, "application/json"),
    ],
)
async def test_entries_of_other_programs_are_received(
    place: RedisBench,
    fields: dict[Any, Any],
    body: bytes,
    headers: dict[str, str | bytes],
    content_type: str | None,
) -> None:
    await place.client.xadd(place.stream, fields)

    async with connected(reading(place)) as reader:
        (found,) = await reader.receive(1, WAIT)

    assert (found.body, found.headers, found.content_type) == (body, headers, content_type)
    assert found.message_id is None  # an id in a body is no message's


# Sending


async def test_each_message_has_the_result_of_its_own_stream(place: RedisBench) -> None:
    await place.client.set(place.missing, "no stream")
    streams = {"a": place.stream, "b": place.missing, "c": f"{place.stream}-nowhere"}

    async with connected(RedisStreams(URL, stream=streams)) as sender:
        batch = [message(number)._replace(topic=topic) for number, topic in enumerate("abcda")]
        results = await sender.send(batch, WAIT)
        still = await sender.send(batch[:1], WAIT)

    assert [each.status for each in results] == ["sent", "rejected", "rejected", "rejected", "sent"]
    assert "WRONGTYPE" in results[1].reason
    assert f"XGROUP CREATE {place.stream}-nowhere" in results[2].reason
    assert "declare=True" in results[2].reason
    assert results[3].reason == "stream= has no entry for 'd': add it"
    assert still == [SENT]
    assert [entry[b"id"] for _, entry in await place.client.xrange(place.stream)] == [
        identity(0).encode(),
        identity(4).encode(),
        identity(0).encode(),
    ]


async def test_text_that_has_no_utf_8_is_rejected_alone(place: RedisBench) -> None:
    async with connected(RedisStreams(URL, stream=place.stream)) as sender:
        results = await sender.send([message(headers={"a": "\ud800"}), message()], WAIT)

    assert [each.status for each in results] == ["rejected", "sent"]


async def test_a_stream_is_made_by_its_first_message_only_if_declared(place: RedisBench) -> None:
    async with connected(RedisStreams(URL, stream=place.missing)) as sender:
        await sender.send([message()], WAIT)
    before = await place.client.exists(place.missing)
    async with connected(RedisStreams(URL, stream=place.missing, declare=True)) as sender:
        results = await sender.send([message()], WAIT)

    assert before == 0
    assert results == [SENT]
    assert await place.client.xlen(place.missing) == 1


async def test_batches_that_are_sent_at_once_keep_their_results(place: RedisBench) -> None:
    large = message(body=b"x" * 11)
    async with connected(RedisStreams(URL, stream=place.stream, largest=10)) as sender:
        batches = [[message(number), large] for number in range(20)]
        results = await asyncio.gather(*(sender.send(each, WAIT) for each in batches))

    assert [[each.status for each in batch] for batch in results] == [["sent", "rejected"]] * 20
    assert await place.client.xlen(place.stream) == 20


# Receiving


async def test_what_a_dead_consumer_has_left_is_taken_over_after_a_while(place: RedisBench) -> None:
    await sent(place, 3)
    async with (
        connected(reading(place)) as dead,
        connected(reading(place, claim_after="1h")) as patient,
        connected(reading(place, claim_after="1ms")) as hasty,
    ):
        held = await dead.receive(3, WAIT)
        early = await patient.receive(3, 0.01)
        late = await hasty.receive(3, WAIT)

    assert early == []
    assert [each.coordinates for each in late] == [each.coordinates for each in held]
    assert [each.redelivered for each in (*held, *late)] == [False] * 3 + [True] * 3


async def test_what_is_given_back_is_there_for_others_at_once(place: RedisBench) -> None:
    await sent(place, 3)
    async with connected(reading(place, consumer="one")) as one, connected(reading(place, consumer="other")) as other:
        held = await one.receive(3, WAIT)
        await one.nack(held)
        returned = await consumers(place)
        found = await other.receive(3, WAIT)

    assert returned == {"one": 0, RETURNED: 3}
    assert [each.body for each in found] == [each.body for each in held]


async def test_what_is_given_back_here_is_received_here_at_once(place: RedisBench) -> None:
    await sent(place, 3)
    async with connected(reading(place)) as reader:
        held = await reader.receive(3, WAIT)
        await reader.nack(held)
        again = await reader.receive(3, 0.0)
        empty = await reader.receive(3, 0.0)

    assert [each.coordinates for each in again] == [each.coordinates for each in held]
    assert empty == []


async def test_a_consumer_that_closes_gives_back_what_it_holds_and_is_gone(place: RedisBench) -> None:
    await sent(place, 3)
    async with connected(reading(place)) as reader:
        await reader.ack(await reader.receive(1, WAIT))
        await reader.receive(2, WAIT)

    assert await consumers(place) == {RETURNED: 2}


async def test_a_consumer_keeps_what_became_pending_while_it_closed(place: RedisBench) -> None:
    await sent(place, 1)
    reader: Any = await reading(place, consumer="mine").connect()
    ask = reader._talk.ask

    async def served(commands: list[tuple[Any, ...]], within: float) -> list[Any]:
        if commands[0][0] == "EVAL":  # a read was still under way in Redis
            await place.client.xreadgroup("billing", "mine", {place.stream: ">"})
        return list(await ask(commands, within))

    reader._talk.ask = served
    await reader.close()

    assert await consumers(place) == {"mine": 1}


async def test_several_streams_are_read_within_the_limit(place: RedisBench) -> None:
    await place.client.xgroup_create(place.missing, "billing", "0", mkstream=True)
    await sent(place, 6)
    for number in range(6):
        await place.client.xadd(place.missing, {"body": f"other {number}"})

    broker = RedisStreams(URL, streams=[place.stream, place.missing], group="billing")
    batches: list[tuple[int, list[Received]]] = []
    async with connected(broker) as reader:
        lag = await reader.lag()
        while sum(len(batch) for _, batch in batches) < 12:
            limit = 1 + 4 * (len(batches) % 2)
            batches.append((limit, await reader.receive(limit, WAIT)))
        found = [each for _, batch in batches for each in batch]
        await reader.ack(found)
        left = await reader.lag()

    assert all(0 < len(batch) <= limit for limit, batch in batches)
    assert (lag, left) == (12, 0)
    assert {each.address for each in found} == {place.stream, place.missing}
    for name in (place.stream, place.missing):
        assert (await place.client.xpending(name, "billing"))["pending"] == 0


async def test_a_missing_group_is_named_with_how_to_make_it(place: RedisBench) -> None:
    async with connected(RedisStreams(URL, streams=[place.missing], group="billing")) as reader:
        with pytest.raises(BrokerUnavailable, match="declare=True") as raised:
            await reader.receive(1, 0.1)
        assert not reader.closed
        assert await reader.lag() is None
        await reader.declare()
        assert await reader.receive(1, 0.05) == []

    assert place.missing in str(raised.value)


async def test_the_lag_is_unknown_where_redis_does_not_know_it(place: RedisBench) -> None:
    await sent(place, 3)
    ((id, _),) = await place.client.xrange(place.stream, count=1)
    await place.client.xadd(place.stream, {"body": "x"})
    second = (await place.client.xrange(place.stream))[1][0]
    await place.client.xdel(place.stream, second)

    async with connected(reading(place)) as reader:
        await reader.receive(1, WAIT)
        assert await reader.lag() is None
    assert id != second


# Trimming


async def test_only_what_every_group_has_acknowledged_is_trimmed(place: RedisBench) -> None:
    async def length(maxlen: int = 100) -> int:
        async with connected(RedisStreams(URL, stream=place.stream, maxlen=maxlen)) as sender:
            await sender.send([message()], WAIT)
        return int(await place.client.xlen(place.stream))

    await sent(place, 1000)
    unread = await length()
    await place.client.xgroup_create(place.stream, "other", "$")
    async with connected(reading(place)) as reader:
        found = await reader.receive(1000, WAIT)
        await reader.ack(found[:500])
        await reader.ack(found[501:])
        one_pending = await length()
        (first, _), *_ = await place.client.xrange(place.stream, count=1)
        await reader.ack(found[500:501])
        done = await length()

    assert unread == 1001
    assert [int(part) for part in first.split(b"-")] <= [int(part) for part in found[500].token.split(b"-")]
    assert 502 <= one_pending <= 700
    assert 100 <= done <= 250


async def test_a_stream_without_a_group_is_not_trimmed(place: RedisBench) -> None:
    await place.client.xgroup_destroy(place.stream, "billing")
    await sent(place, 300)
    async with connected(RedisStreams(URL, stream=place.stream, maxlen=10)) as sender:
        await sender.send([message()], WAIT)

    assert await place.client.xlen(place.stream) == 301


async def test_what_cannot_be_trimmed_is_sent_all_the_same(place: RedisBench, caplog: pytest.LogCaptureFixture) -> None:
    user = await limited(place, "-xtrim", "-xinfo|groups")
    async with connected(RedisStreams(user, stream=place.stream, maxlen=1)) as sender:
        results = [await sender.send([message()], WAIT) for _ in range(20)]

    assert results == [[SENT]] * 20
    assert [each.message.count("not trimmed") for each in caplog.records] == [1]


# Who may connect


async def limited(place: RedisBench, *rules: str) -> str:
    """Make a user with the name of the place's stream, and return its URL."""
    await place.client.execute_command("ACL", "SETUSER", place.stream, "on", ">s3cret", "~*", "+@all", *rules)
    return f"redis://{place.stream}:s3cret@{HOST}"


async def test_a_wrong_password_is_told_by_user_and_place_and_never_shown(place: RedisBench) -> None:
    url = (await limited(place)).replace("s3cret", "wr0ng")

    with pytest.raises(BrokerUnavailable) as raised:
        await RedisStreams(url).connect()

    assert f"{HOST.partition('/')[0]}, database 0, user {place.stream}" in str(raised.value)
    assert "check the user and the password" in str(raised.value)
    assert "wr0ng" not in str(raised.value) + repr(RedisStreams(url)) + RedisStreams(url).shown


async def test_a_missing_right_is_told_and_the_message_kept(place: RedisBench) -> None:
    url = await limited(place, "-xadd", "-xack", "-role", "-info", "-command")
    broker = RedisStreams(url, stream=place.stream, streams=[place.stream], group="billing")
    async with connected(broker) as connection:
        (result,) = await connection.send([message()], WAIT)
        await place.client.xadd(place.stream, {"body": "x"})
        found = await connection.receive(1, WAIT)
        with pytest.raises(BrokerUnavailable, match=f"user {place.stream}: .*ACL SETUSER"):
            await connection.ack(found)
        checked = await connection.check()

    assert result.status == "later"
    assert "ACL SETUSER" in result.reason
    assert checked == []


async def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hiredis", None)
    monkeypatch.delitem(sys.modules, "mainspring.brokers.redis_connection", raising=False)

    with pytest.raises(MissingExtra, match=r"mainspring\[redis\]"):
        await RedisStreams(URL).connect()


# Checks and declarations


async def test_streams_that_are_only_sent_to_are_checked_and_declared(place: RedisBench) -> None:
    broker = RedisStreams(URL, stream={"a": place.stream, "b": place.missing})
    async with connected(broker) as connection:
        before = await connection.check()
        made = [await connection.declare(), await connection.declare()]
        after = await connection.check()
    async with connected(RedisStreams(URL, stream="{topic}")) as connection:
        unknown = [await connection.check(), await connection.declare()]

    assert [place.missing in each and "declare" in each for each in before] == [True]
    assert made == [[f"stream {place.missing}"], []]
    assert await place.client.xinfo_groups(place.missing) == []
    assert after == []
    assert unknown == [[], []]


async def test_a_key_that_is_no_stream_is_told(place: RedisBench) -> None:
    await place.client.set(place.missing, "text")
    async with connected(RedisStreams(URL, streams=[place.missing], group="billing")) as connection:
        (found,) = await connection.check()
        with pytest.raises(BrokerUnavailable, match="remove this key"):
            await connection.declare()

    assert "WRONGTYPE" in found


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"url": "amqp://localhost"}, "redis://user"),
        ({"url": "redis://u:pa/ss@localhost"}, "escapes"),
        ({"url": "redis://localhost/orders"}, "redis://user"),
        ({"url": None}, "redis://user"),
        ({"streams": "orders", "group": "billing"}, "must be a list"),
        ({"streams": [""], "group": "billing"}, "must be a list"),
        ({"streams": ["orders"]}, "go together"),
        ({"group": "billing"}, "go together"),
        ({"stream": ""}, "must be text"),
        ({"stream": 7}, "must be text"),
        ({"consumer": RETURNED}, "choose another"),
        ({"maxlen": 0}, "1 or more"),
        ({"largest": True}, "1 or more"),
        ({"claim_after": "0s"}, "1m"),
        ({"claim_after": 60}, "no unit"),
    ],
)
def test_bad_options_are_refused_when_they_are_written(options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadOption, match=told) as raised:
        RedisStreams(**options)

    assert "pa/ss" not in str(raised.value)


async def test_a_parameter_that_the_client_does_not_know_is_refused() -> None:
    with pytest.raises(BadOption, match="colour"):
        await RedisStreams("redis://u:s3cret@localhost?colour=blue").connect()


def test_the_source_names_the_group_and_its_streams_and_stays_short() -> None:
    def source(*streams: str) -> str:
        return RedisStreams(streams=streams, group="billing").source

    assert source("orders", "carts") == "redis:billing:orders+carts"
    assert RedisStreams().source == ""
    assert len(source("x" * 500)) <= 150
    assert source("x" * 500) != source("x" * 501)
    assert "/" not in source("a/b")
    assert source("a/b") != source("a?b")


async def test_coordinates_stay_short(place: RedisBench) -> None:
    place.missing = f"{place.stream}-{'x' * 300}"
    await place.client.xgroup_create(place.missing, "billing", "0", mkstream=True)
    async with connected(RedisStreams(URL, streams=[place.missing], group="billing")) as reader:
        for body in ("a", "b"):
            await place.client.xadd(place.missing, {"body": body})
        found = await reader.receive(2, WAIT)

    assert len({each.coordinates for each in found}) == 2
    assert all(len(each.coordinates) <= 200 for each in found)
