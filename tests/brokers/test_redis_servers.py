"""Redis servers of one test each: out of memory, replicas, lost, silent, or with replies that are scripted."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from mainspring.brokers.contract import SENT
from mainspring.brokers.redis import RedisStreams
from mainspring.model.errors import BrokerUnavailable
from tests.brokers.bench import TOPIC, message, until
from tests.brokers.benches.redis import connected
from tests.services.private_brokers import PrivateRedis, private_broker

WAIT = 10.0


@contextlib.asynccontextmanager
async def own_server(*options: str) -> AsyncIterator[tuple[str, Any]]:
    """A server for one test, which may be broken."""
    with private_broker(PrivateRedis, *options) as server:
        await server.start()
        path = f"{server.home}/redis.sock"
        async with Redis(unix_socket_path=path) as client:
            yield f"unix://{path}", client


Reply = Callable[[bytes], bytes | None]


@contextlib.asynccontextmanager
async def scripted(reply: Reply) -> AsyncIterator[str]:
    """A server that replies as told to each command it reads; None: not at all."""
    probes = {b"PING": b"+PONG\r\n", b"ROLE": b"*1\r\n$6\r\nmaster\r\n", b"COMMAND": b"*0\r\n", b"CLIENT": b"+OK\r\n"}

    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                count = int((await reader.readuntil(b"\r\n"))[1:])
                words = []
                for _ in range(count):
                    size = int((await reader.readuntil(b"\r\n"))[1:])
                    words.append((await reader.readexactly(size + 2))[:-2])
                said = reply(words[0]) or probes.get(words[0])
                if said is not None:
                    writer.write(said)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    server.close()
    await asyncio.gather(*(each for each in serving if each is not None))


# Sending


@pytest.mark.parametrize(
    ("said", "status", "reason"),
    [
        (b"-MOVED 3999 127.0.0.1:6381", "later", "Redis Cluster"),
        (b"-MISCONF Redis is configured to save RDB snapshots", "later", "MISCONF"),
        (b"-NOREPLICAS Not enough good replicas to write.", "later", "NOREPLICAS"),
        (b"-ERR Elements are too large to be stored", "rejected", "Elements are too large"),
    ],
)
async def test_an_error_is_final_only_if_it_is_about_the_message(said: bytes, status: str, reason: str) -> None:
    async with (
        scripted(lambda word: said + b"\r\n" if word == b"XADD" else None) as url,
        connected(RedisStreams(url)) as sender,
    ):
        (result,) = await sender.send([message()], WAIT)
        assert not sender.closed

    assert (result.status, reason in result.reason) == (status, True)


async def test_without_a_reply_in_time_the_rest_is_unknown_and_the_connection_closed() -> None:
    replies = iter([b"$3\r\n1-1\r\n", b"$-1\r\n"])
    async with (
        scripted(lambda word: next(replies, None) if word == b"XADD" else None) as url,
        connected(RedisStreams(url)) as sender,
    ):
        results = await sender.send([message(number) for number in range(4)], 0.2)
        closed = sender.closed
        again = await sender.send([message()], WAIT)

    assert [each.status for each in results] == ["sent", "rejected", "later", "later"]
    assert "no reply within 0.2 s" in results[3].reason
    assert closed
    assert [each.status for each in again] == ["later"]


async def test_a_send_that_is_cancelled_closes_the_connection() -> None:
    asked: list[bytes] = []
    async with scripted(asked.append) as url, connected(RedisStreams(url)) as sender:
        sending = asyncio.create_task(sender.send([message()], WAIT))
        await until(lambda: b"XADD" in asked)
        sending.cancel()
        await asyncio.wait([sending])

        assert sender.closed


async def test_without_memory_it_is_sent_later() -> None:
    async with own_server("--maxmemory", "1mb") as (url, client):
        await client.xgroup_create(TOPIC, "billing", mkstream=True)
        async with connected(RedisStreams(url)) as sender:
            results = [SENT]
            while results[-1].status == "sent":
                results = await sender.send([message(body=b"x" * 100_000)], WAIT)
            await client.config_set("maxmemory", "0")
            after = await sender.send([message()], WAIT)

    assert results[0].status == "later"
    assert "maxmemory" in results[0].reason
    assert after == [SENT]


async def test_a_replica_is_no_place_to_send_to() -> None:
    async with own_server() as (url, client):
        await client.xgroup_create(TOPIC, "billing", mkstream=True)
        async with connected(RedisStreams(url)) as sender:
            await client.replicaof("127.0.0.1", "1")
            (result,) = await sender.send([message()], WAIT)
            closed = sender.closed

        with pytest.raises(BrokerUnavailable, match=r"redis\.sock, database 0, user default: .*primary"):
            await RedisStreams(url).connect()

    assert (result.status, closed) == ("later", True)
    assert "primary" in result.reason


# Receiving


async def test_a_read_that_was_cancelled_is_returned_by_the_next() -> None:
    async with own_server() as (url, client):
        await client.xgroup_create(TOPIC, "billing", mkstream=True)
        async with connected(RedisStreams(url, streams=[TOPIC], group="billing")) as reader:
            waiting = asyncio.create_task(reader.receive(10, WAIT))
            await until(lambda: _blocks(client))
            waiting.cancel()
            await asyncio.wait([waiting])
            for number in range(3):
                await client.xadd(TOPIC, {"body": str(number)})
            found = [await reader.receive(1, WAIT) for _ in range(3)]
            assert not reader.closed

    assert [each.body for batch in found for each in batch] == [b"0", b"1", b"2"]


async def test_a_lost_connection_ends_the_wait() -> None:
    async with own_server() as (url, client):
        await client.xgroup_create(TOPIC, "billing", mkstream=True)
        async with connected(RedisStreams(url, streams=[TOPIC], group="billing")) as reader:
            waiting = asyncio.create_task(reader.receive(1, 30))
            await until(lambda: _blocks(client))
            await client.client_kill_filter(_type="normal", skipme=True)

            with pytest.raises(BrokerUnavailable, match=r"redis\.sock, database 0, user default: .*closed"):
                await waiting
            assert reader.closed


async def _blocks(client: Any) -> bool:
    return int((await client.info("clients"))["blocked_clients"]) > 0


# Trimming


async def test_one_batch_in_sixteen_trims() -> None:
    async with own_server() as (url, client):
        await client.xgroup_create(TOPIC, "billing", "0", mkstream=True)
        async with connected(RedisStreams(url, maxlen=1)) as sender:
            for _ in range(33):
                await sender.send([message()], WAIT)
        calls = (await client.info("commandstats"))["cmdstat_xtrim"]["calls"]

    assert calls == 2  # after 17 and 33: the first batch leaves nothing to trim


# Who may connect


async def test_a_missing_password_is_told() -> None:
    async with own_server("--requirepass", "s3cret") as (url, _):
        with pytest.raises(BrokerUnavailable, match=r"user default: Authentication required.*password in url"):
            await RedisStreams(url).connect()


@pytest.mark.parametrize(
    ("word", "said", "told"),
    [
        (b"PING", b"-LOADING Redis is loading the dataset in memory\r\n", "loading the dataset"),
        (b"PING", b"HTTP/1.1 400 Bad Request\r\n", "Protocol error"),
        (b"COMMAND", b"*1\r\n*-1\r\n", "Redis 6.2 or later"),
        (b"ROLE", b"*1\r\n$5\r\nslave\r\n", "read-only replica"),
    ],
)
async def test_a_server_that_cannot_be_used_is_told(word: bytes, said: bytes, told: str) -> None:
    async with scripted(lambda asked: said if asked == word else None) as url:
        with pytest.raises(BrokerUnavailable, match=told) as raised:
            await RedisStreams(url).connect()

    assert f"Redis at {url.removeprefix('redis://')[:-2]}, database 0, user default" in str(raised.value)


# Checks and declarations


async def test_a_server_that_evicts_streams_is_told() -> None:
    async with (
        own_server("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru") as (url, client),
        connected(RedisStreams(url)) as connection,
    ):
        found = await connection.check()
        await client.config_set("maxmemory-policy", "noeviction")
        after = await connection.check()

    assert ["noeviction" in each for each in found] == [True]
    assert after == []
