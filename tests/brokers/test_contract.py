"""What every broker does, however it does it."""

import asyncio
import socket

import pytest

from mainspring.brokers.contract import SENT, BrokerConnection, Received
from mainspring.model.errors import BrokerError, BrokerUnavailable
from tests.brokers.bench import Bench, identity, message

WAIT = 10.0


async def received(reader: BrokerConnection, count: int) -> list[Received]:
    """Receive so many, in as many calls as that takes."""
    found: list[Received] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += await reader.receive(count - len(found), WAIT)
    return found


async def test_what_was_sent_is_received_as_it_was_in_order(sender: BrokerConnection, reader: BrokerConnection) -> None:
    batch = [message(number) for number in range(20)]

    assert await sender.send(batch, WAIT) == [SENT] * 20
    found = await received(reader, 20)
    await reader.ack(found)

    assert [each.body for each in found] == [each.body for each in batch]
    assert [dict(each.headers).get("ce-id") for each in found] == [each.id for each in batch]
    assert {each.content_type for each in found} == {"application/json"}
    assert len({each.coordinates for each in found}) == 20
    assert not any(each.redelivered for each in found)


@pytest.mark.parametrize("body", [b"", b"\x00\xff\r\n", "žluťoučký".encode(), b"x" * 90_000])
async def test_any_bytes_are_carried(sender: BrokerConnection, reader: BrokerConnection, body: bytes) -> None:
    assert await sender.send([message(body=body, content_type="application/octet-stream")], WAIT) == [SENT]
    (found,) = await received(reader, 1)

    assert (found.body, found.content_type) == (body, "application/octet-stream")


async def test_headers_keys_and_correlation_are_carried(sender: BrokerConnection, reader: BrokerConnection) -> None:
    headers = {
        "ce-id": identity(0),
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "name": "Łódź, 10 %",
    }

    await sender.send([message(headers=headers, key="order:7", correlation_id="cart-7")], WAIT)
    (found,) = await received(reader, 1)

    assert {name: found.headers[name] for name in headers} == headers
    assert found.correlation_id in (None, "cart-7")
    assert found.key in (None, "order:7")


async def test_one_that_is_too_large_is_rejected_and_its_neighbours_are_sent(
    bench: Bench, sender: BrokerConnection, reader: BrokerConnection
) -> None:
    large = message(1, body=b"x" * (bench.largest + 1))

    first, second, third = await sender.send([message(0), large, message(2)], WAIT)
    found = await received(reader, 2)

    assert (first, third) == (SENT, SENT)
    assert second.status == "rejected"
    assert second.reason
    assert [each.body for each in found] == [message(0).body, message(2).body]


async def test_what_leads_nowhere_is_rejected_with_its_reason_or_parked(bench: Bench) -> None:
    connection = await bench.sends_nowhere().connect()

    results = await connection.send([message(0), message(1)], WAIT)
    await connection.close()

    assert [each.status for each in results] == ["sent" if bench.parks else "rejected"] * 2
    assert all(each.reason for each in results) is not bench.parks


async def test_many_are_confirmed_each(sender: BrokerConnection, reader: BrokerConnection) -> None:
    for start in range(0, 1000, 250):
        results = await sender.send([message(start + number) for number in range(250)], WAIT)
        assert results == [SENT] * 250

    found = await received(reader, 1000)
    await reader.ack(found)

    assert sorted(each.body for each in found) == sorted(message(number).body for number in range(1000))


async def test_several_tasks_send_at_once(sender: BrokerConnection, reader: BrokerConnection) -> None:
    batches = [[message(100 * task + number) for number in range(50)] for task in range(4)]

    results = await asyncio.gather(*(sender.send(batch, WAIT) for batch in batches))
    found = await received(reader, 200)
    await reader.ack(found)

    assert results == [[SENT] * 50] * 4
    assert len({each.body for each in found}) == 200


async def test_nothing_to_send_is_nothing_sent(sender: BrokerConnection) -> None:
    assert await sender.send([], WAIT) == []


async def test_what_is_acknowledged_does_not_come_back_and_what_is_not_does(
    bench: Bench, sender: BrokerConnection, reader: BrokerConnection
) -> None:
    await sender.send([message(number) for number in range(6)], WAIT)
    found = await received(reader, 6)
    await reader.ack(found[:3])
    await reader.close()

    again = await bench.reads().connect()
    returned = await received(again, 3)
    await again.ack(returned)
    rest = await again.receive(10, 0.5)
    await again.close()

    assert sorted(each.body for each in returned) == sorted(each.body for each in found[3:])
    assert {each.coordinates for each in returned} == {each.coordinates for each in found[3:]}
    assert rest == []


async def test_what_is_given_back_is_received_again(
    bench: Bench, sender: BrokerConnection, reader: BrokerConnection
) -> None:
    await sender.send([message(number) for number in range(3)], WAIT)
    found = await received(reader, 3)
    await reader.nack(found)
    if not bench.keeps_undelivered:
        await reader.close()
        reader = await bench.reads().connect()

    again = await received(reader, 3)
    await reader.ack(again)

    assert sorted(each.body for each in again) == sorted(each.body for each in found)


async def test_it_waits_for_the_first_no_longer_than_asked(sender: BrokerConnection, reader: BrokerConnection) -> None:
    assert await reader.receive(10, 0.2) == []

    waiting = asyncio.create_task(reader.receive(10, WAIT))
    await asyncio.sleep(0)
    await sender.send([message()], WAIT)

    assert [each.body for each in await waiting] == [message().body]


async def test_it_returns_no_more_than_asked(sender: BrokerConnection, reader: BrokerConnection) -> None:
    await sender.send([message(number) for number in range(5)], WAIT)

    assert len(await reader.receive(2, WAIT)) <= 2
    assert len(await reader.receive(2, WAIT)) <= 2


async def test_a_wait_that_is_cancelled_loses_nothing(
    bench: Bench, sender: BrokerConnection, reader: BrokerConnection
) -> None:
    for number in range(20):
        waiting = asyncio.create_task(reader.receive(10, WAIT))
        sending = asyncio.create_task(sender.send([message(number)], WAIT))
        for _ in range(number):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting, sending])
    await reader.close()

    again = await bench.reads().connect()
    found = await received(again, 20)
    await again.close()

    assert len({each.body for each in found}) == 20


async def test_lag_is_known_while_another_task_receives_and_ends_no_wait(
    sender: BrokerConnection, reader: BrokerConnection
) -> None:
    await sender.send([message(1)], WAIT)
    await reader.ack(await received(reader, 1))
    receiving = asyncio.create_task(reader.receive(10, WAIT))

    lags = [await reader.lag() for _ in range(3)]
    waits = not receiving.done()
    await sender.send([message(2)], WAIT)
    (found,) = await receiving or await received(reader, 1)

    assert (lags, waits) == ([0, 0, 0], True)
    assert found.body == b'{"n": 2}'


async def test_lag_is_what_waits(bench: Bench, sender: BrokerConnection, reader: BrokerConnection) -> None:
    await sender.send([message(number) for number in range(7)], WAIT)

    observer = await bench.reads().connect()
    lag = await observer.lag()
    await observer.close()
    found = await received(reader, 7)
    await reader.ack(found)

    assert lag == 7


async def test_what_is_missing_is_named_and_can_be_declared(bench: Bench) -> None:
    connection = await bench.reads_nothing().connect()

    before = await connection.check()
    made = await connection.declare()
    again = await connection.declare()
    after = await connection.check()
    await connection.close()

    assert before
    assert all("declare" in each for each in before)
    assert made
    assert again == []
    assert after == []


async def test_where_all_is_there_nothing_is_wrong(sender: BrokerConnection, reader: BrokerConnection) -> None:
    assert await sender.check() == []
    assert await reader.check() == []


async def test_a_broker_that_is_away_is_unavailable(bench: Bench) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

        with pytest.raises(BrokerUnavailable, match=str(port)):
            async with asyncio.timeout(20):
                await bench.at(port).connect()


async def test_a_closed_connection_says_so_and_closing_again_does_nothing(bench: Bench) -> None:
    sender, reader = await bench.sends().connect(), await bench.reads().connect()
    before = sender.closed

    for each in (sender, reader):
        await each.close()
        await each.close()

    assert (before, sender.closed) == (False, True)
    assert [each.status for each in await sender.send([message()], WAIT)] == ["later"]
    with pytest.raises(BrokerError):
        await reader.receive(1, 0.1)
