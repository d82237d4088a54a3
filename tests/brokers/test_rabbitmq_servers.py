"""RabbitMQ servers that are silent, cut off, refuse or speak another protocol, and the options that name them."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiormq.abc import AbstractChannel

from mainspring.brokers.contract import SENT
from mainspring.brokers.rabbitmq import RabbitMQ
from mainspring.model.errors import BadOption, BrokerUnavailable, MissingExtra
from tests.brokers.bench import TOPIC, message, until
from tests.brokers.benches.rabbitmq import URL, connected

WAIT = 10.0


class Proxy:
    """Stands between a client and the broker: ``held``, it passes nothing on; ``cut``, it ends all connections."""

    def __init__(self) -> None:
        self.flows = asyncio.Event()
        self.flows.set()
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(URL)
        far_reader, far_writer = await asyncio.open_connection(parts.hostname, parts.port or 5672)
        self._writers += [writer, far_writer]
        for source, target in ((reader, far_writer), (far_reader, writer)):
            self._tasks.append(asyncio.create_task(self._pass(source, target)))

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self.flows.wait()
                target.write(data)
        finally:
            target.close()

    async def cut(self) -> None:
        for each in self._writers:
            each.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    made = Proxy()
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as server:
        made.port = server.sockets[0].getsockname()[1]
        yield made
        await made.cut()


async def test_a_broker_that_does_not_respond_is_lost_and_closes_in_seconds(
    raw: AbstractChannel, name: str, proxy: Proxy
) -> None:
    await raw.queue_declare(name, durable=True)
    connection = await RabbitMQ(proxy.url, routing_key=name, queue=name).connect()
    assert await connection.send([message(0)], WAIT) == [SENT]
    proxy.flows.clear()

    results = await connection.send([message(1), message(2)], 0.2)
    closed = connection.closed
    with pytest.raises(BrokerUnavailable, match=str(proxy.port)):
        await connection.receive(1, 0.1)
    async with asyncio.timeout(8):
        await connection.close()

    assert [each.status for each in results] == ["later"] * 2
    assert "no confirm within 0.2 s" in results[0].reason
    assert closed


async def test_a_full_socket_closes_in_seconds_and_leaves_no_task(
    raw: AbstractChannel, name: str, proxy: Proxy
) -> None:
    await raw.queue_declare(name, durable=True)
    idle = len(asyncio.all_tasks()) + 2  # the proxy's
    connection = await RabbitMQ(proxy.url, routing_key=name, largest=2**26).connect()
    assert await connection.send([message(0)], WAIT) == [SENT]
    proxy.flows.clear()

    results = await connection.send([message(body=b"x" * 2**26), message(1)], 0.5)
    async with asyncio.timeout(8):
        await connection.close()
    await until(lambda: len(asyncio.all_tasks()) == idle)

    assert {each.status for each in results} == {"later"}


async def test_a_connection_that_is_cut_wakes_all_that_wait(raw: AbstractChannel, name: str, proxy: Proxy) -> None:
    await raw.queue_declare(name, durable=True)
    broker = RabbitMQ(proxy.url, routing_key=name, queue=name)
    async with connected(broker) as connection:
        await connection.send([message(0)], WAIT)
        (found,) = await connection.receive(1, WAIT)
        receiving = asyncio.create_task(connection.receive(1, 60))
        proxy.flows.clear()
        sending = asyncio.create_task(connection.send([message(1)], 60))
        await asyncio.sleep(0.05)
        await proxy.cut()

        async with asyncio.timeout(5):
            results = await sending
            with pytest.raises(BrokerUnavailable):
                await receiving
        with pytest.raises(BrokerUnavailable):
            await connection.ack([found])
        for question in (connection.lag, connection.check, connection.declare):
            with pytest.raises(BrokerUnavailable):
                await question()
        assert connection.closed

    assert [each.status for each in results] == ["later"]


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("amqp://guest:sesame@{host}/", ["'guest'", "'/'", "ACCESS_REFUSED"]),
        ("amqp://guest:guest@{host}/no-such", ["'guest'", "'no-such'", "no such vhost"]),
        ("amqp://m%C3%A9:s%2Fesame@{host}/a%2Fb", ["'mé'", "'a/b'"]),
    ],
)
async def test_who_may_not_connect_is_named_without_the_password(url: str, named: list[str]) -> None:
    host = f"{urlsplit(URL).hostname}:{urlsplit(URL).port}"

    with pytest.raises(BrokerUnavailable) as raised:
        await RabbitMQ(url.format(host=host)).connect()

    text = f"{raised.value!r} {raised.value.__cause__!r}"
    assert [each for each in [*named, host] if each not in text] == []
    assert "sesame" not in text


async def test_a_server_of_another_protocol_is_unavailable() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(BrokerUnavailable, match=str(port)):
            await RabbitMQ(f"amqp://127.0.0.1:{port}").connect()


async def test_a_connect_that_is_given_up_leaves_nothing_open() -> None:
    served: list[asyncio.StreamReader] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(reader)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await RabbitMQ(f"amqp://127.0.0.1:{port}").connect()
        await until(lambda: bool(served) and served[0].at_eof())


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"url": "http://localhost"}, "amqp://"),
        ({"url": "amqp://guest:sesame/@localhost:x/"}, "percent-encoded"),
        ({"url": "amqp://guest:ses#ame@localhost/"}, "percent-encoded"),
        ({"url": "amqp://"}, "amqp://"),
        ({"url": None}, "amqp://"),
        ({"exchange": "é"}, "exchange"),
        ({"queue": ""}, "queue"),
        ({"queue": 7}, "queue"),
        ({"routing_key": 7}, "routing_key=7"),
        ({"bindings": "orders.#", "queue": "q", "exchange": "x"}, "list of routing keys"),
        ({"bindings": 7, "queue": "q", "exchange": "x"}, "list of routing keys"),
        ({"bindings": ["orders.#"], "queue": "q"}, "with an exchange= and a queue="),
        ({"exchange_type": ""}, "exchange_type="),
        ({"queue_type": "stream"}, "queue_type="),
        ({"prefetch": 0}, "prefetch=0"),
        ({"largest": True}, "largest=True"),
        ({"declare": 1}, "declare=1"),
    ],
)
def test_mistakes_are_named_where_they_are_made(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadOption) as raised:
        RabbitMQ(**options)

    assert reason in str(raised.value)
    assert "ses" not in str(raised.value)


def test_it_says_where_and_what_without_the_password() -> None:
    broker = RabbitMQ("amqp://shop:sesame@mq.example/a%2Fb", exchange="orders", queue="billing")

    assert (broker.where, broker.login) == ("mq.example:5672", "user 'shop' at vhost 'a/b'")
    assert RabbitMQ("amqps://mq.example").where == "mq.example:5671"
    assert (broker.source, RabbitMQ().source) == ("rabbitmq:billing", "")
    assert broker.address(TOPIC) == "exchange orders, routing key orders.placed"
    assert RabbitMQ(routing_key=lambda topic: topic.upper()).address(TOPIC) == "queue ORDERS.PLACED"
    assert "sesame" not in f"{broker!r} {broker.shown}"


async def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiormq", None)
    for name in ("rabbitmq_connection", "rabbitmq_properties"):
        monkeypatch.delitem(sys.modules, f"mainspring.brokers.{name}", raising=False)

    with pytest.raises(MissingExtra, match=r"pip install 'mainspring\[rabbitmq\]'"):
        await RabbitMQ().connect()
