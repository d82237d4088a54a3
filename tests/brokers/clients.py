"""Clients of brokers that share no code with the adapters: each reads and writes the place of a bench by itself."""

import asyncio
import json
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

import pika
from cloudevents.core.bindings import http, kafka, rabbitmq
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.brokers.bench import TOPIC
from tests.brokers.benches.kafka import REAL, KafkaBench
from tests.brokers.benches.nats import NatsBench
from tests.brokers.benches.rabbitmq import RabbitMQBench
from tests.brokers.benches.redis import RedisBench
from tests.services.brokers import SERVERS

WITHIN = 30.0
"""Seconds for which a client waits for the messages that it is asked for."""


@dataclass(frozen=True)
class Seen:
    """A message as the client read it."""

    body: bytes
    headers: Mapping[str, Any]
    content_type: str | None
    key: str | None = None
    id: str | None = None
    correlation_id: str | None = None
    partition: int = 0


class IndependentClient(Protocol):
    """Reads and writes the place of one bench."""

    async def read(self, count: int) -> list[Seen]:
        """Return so many messages, from the first on."""
        ...

    async def write(self, body: bytes, headers: Mapping[str, str], key: str | None = None, id: str = "") -> None:
        """Send a message in JSON; the id is that of the protocol."""
        ...

    async def write_poison(self) -> int:
        """Send messages that the adapter's client library cannot read; return how many."""
        ...

    def event(self, seen: Seen) -> Any:
        """Return a message as the SDK of CloudEvents reads it."""
        ...


class PikaClient:
    """RabbitMQ by pika, a blocking client with a codec of its own."""

    def __init__(self, bench: RabbitMQBench) -> None:
        self._queue = self._exchange = bench.name

    async def read(self, count: int) -> list[Seen]:
        return await asyncio.to_thread(self._read, count)

    def _read(self, count: int) -> list[Seen]:
        found: list[Seen] = []
        with pika.BlockingConnection(pika.URLParameters(SERVERS["rabbitmq"].url)) as connection:
            channel = connection.channel()
            for method, properties, body in channel.consume(self._queue, inactivity_timeout=WITHIN):
                assert method is not None, f"{len(found)} of {count} came"
                channel.basic_ack(method.delivery_tag)
                found.append(
                    Seen(
                        body,
                        properties.headers,
                        properties.content_type,
                        None,
                        properties.message_id,
                        properties.correlation_id,
                    )
                )
                if len(found) == count:
                    break
            channel.cancel()
        return found

    async def write(self, body: bytes, headers: Mapping[str, str], key: str | None = None, id: str = "") -> None:
        assert key is None, "AMQP has no keys"
        properties = pika.BasicProperties("application/json", headers=dict(headers), message_id=id or None)
        await asyncio.to_thread(self._write, [(TOPIC, body, properties)])

    def _write(self, messages: list[tuple[Any, bytes, Any]]) -> None:
        with pika.BlockingConnection(pika.URLParameters(SERVERS["rabbitmq"].url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_bind(self._queue, self._exchange, "#")
            for key, body, properties in messages:
                channel.basic_publish(self._exchange, key, body, properties, mandatory=True)

    async def write_poison(self) -> int:
        poison: list[Any] = [
            pika.BasicProperties(content_type=b"\xff"),
            pika.BasicProperties(message_id=b"m-\xff"),
            pika.BasicProperties(correlation_id=b"\xff" * 255),
            pika.BasicProperties(headers={b"\xfe\xff": "a header without a name"}),
            pika.BasicProperties(timestamp=1_700_000_000_000_000),  # in microseconds
        ]
        await asyncio.to_thread(self._write, [(TOPIC, b"poison", each) for each in poison])
        return len(poison)

    async def write_to_no_text(self, body: bytes) -> None:
        """Send a message whose routing key is no text."""
        await asyncio.to_thread(self._write, [(b"\xff" * 200, body, pika.BasicProperties("application/json"))])

    def event(self, seen: Seen) -> Any:
        message = rabbitmq.RabbitMQMessage(dict(seen.headers), seen.content_type, seen.body)
        return rabbitmq.from_binary(message, JSONFormat(), CloudEvent)


class NoText(str):
    """A name that is written as bytes that are no UTF-8 text."""

    __slots__ = ()

    def encode(self, encoding: str = "", errors: str = "") -> bytes:
        return b"\xfe\xff"


class KafkaPythonClient:
    """Kafka by kafka-python, which is pure Python.

    The mock cluster serves ApiVersions up to version 2, and the gate before it cannot extend its refusal of later ones:
    so the client is told that it talks to Kafka 2.0. With that it has produced, fetched and sent headers here.
    """

    def __init__(self, bench: KafkaBench) -> None:
        self._topic = bench.topic
        self._options: dict[str, Any] = {"bootstrap_servers": bench.servers}
        if not REAL:
            self._options["api_version"] = (2, 0)

    async def read(self, count: int) -> list[Seen]:
        return await asyncio.to_thread(self._read, count)

    def _read(self, count: int) -> list[Seen]:
        consumer = KafkaConsumer(**self._options, consumer_timeout_ms=WITHIN * 1000, auto_offset_reset="earliest")
        numbers = sorted(consumer.partitions_for_topic(self._topic) or ())
        consumer.assign([TopicPartition(self._topic, number) for number in numbers])
        found: list[Seen] = []
        for each in consumer:
            headers = dict(each.headers)
            content_type = headers["content-type"].decode()
            key = None if each.key is None else each.key.decode()
            found.append(Seen(each.value, headers, content_type, key, partition=each.partition))
            if len(found) == count:
                break
        consumer.close()
        assert len(found) == count
        return found

    async def write(self, body: bytes, headers: Mapping[str, str], key: str | None = None, id: str = "") -> None:
        assert not id, "Kafka has no ids"
        await asyncio.to_thread(self._write, 1, body, {"content-type": "application/json", **headers}, key)

    def _write(self, count: int, body: bytes, headers: Mapping[str, str], key: str | None = None) -> None:
        producer = KafkaProducer(**self._options)
        written = [(name, value.encode()) for name, value in headers.items()]
        for _ in range(count):
            producer.send(self._topic, body, key and key.encode(), headers=written).get(WITHIN)
        producer.close()

    async def write_poison(self) -> int:
        count = 20  # Python makes a call that it has seen a few times shorter, and leaves out checks
        await asyncio.to_thread(self._write, count, b"poison", {"ce_id": "poison", NoText("name"): "value"})
        return count

    def event(self, seen: Seen) -> Any:
        key = None if seen.key is None else seen.key.encode()
        return kafka.from_binary(kafka.KafkaMessage(dict(seen.headers), key, seen.body), JSONFormat(), CloudEvent)


class RedisCli:
    """Redis by its own command line, which prints replies as JSON."""

    def __init__(self, bench: RedisBench) -> None:
        self._stream = bench.stream
        parts = urlsplit(SERVERS["redis"].url)
        self._program = ["redis-cli", "-h", parts.hostname or "", "-p", str(parts.port), "-n", parts.path.strip("/")]

    async def read(self, count: int) -> list[Seen]:
        entries = json.loads(await self._run("--json", "XRANGE", self._stream, "-", "+", "COUNT", str(count)))
        assert len(entries) == count
        found: list[Seen] = []
        for _, flat in entries:
            fields = dict(zip(flat[::2], flat[1::2], strict=True))
            headers = {name.removeprefix("h:"): value for name, value in fields.items() if name.startswith("h:")}
            own: dict[str, Any] = {name: fields.get(name) for name in ("content_type", "key", "id", "correlation_id")}
            found.append(Seen(fields["body"].encode(), headers, **own))
        return found

    async def write(self, body: bytes, headers: Mapping[str, str], key: str | None = None, id: str = "") -> None:
        fields = {"content_type": "application/json", "key": key or "", "id": id}
        fields |= {f"h:{name}": value for name, value in headers.items()}
        given = [each for name, value in fields.items() if value for each in (name, value)]
        await self._run("-x", "XADD", self._stream, "*", *given, "body", typed=body)

    async def write_poison(self) -> int:
        await self._run("-x", "XADD", self._stream, "*", "body", "poison", "h:name", typed=b"\xff")
        return 1

    async def _run(self, *command: str, typed: bytes = b"") -> bytes:
        return (
            await asyncio.to_thread(
                subprocess.run, [*self._program, *command], input=typed, capture_output=True, check=True
            )
        ).stdout

    def event(self, seen: Seen) -> Any:
        # There is no binding for Redis: the names and values are those of RabbitMQ's.
        message = rabbitmq.RabbitMQMessage(dict(seen.headers), seen.content_type, seen.body)
        return rabbitmq.from_binary(message, JSONFormat(), CloudEvent)


class NatsSocket:
    """NATS by its text protocol over a plain socket, and JetStream by its subjects."""

    def __init__(self, bench: NatsBench) -> None:
        self._stream = bench.name
        self._subject = f"{bench.name}.{TOPIC}"

    async def read(self, count: int) -> list[Seen]:
        inbox, durable = f"_INBOX.{uuid4().hex}", uuid4().hex
        reader, writer = await self._connected()
        config = {"durable_name": durable, "ack_policy": "explicit", "deliver_policy": "all"}
        wanted = json.dumps({"stream_name": self._stream, "config": config}).encode()
        pull = json.dumps({"batch": count, "expires": int(WITHIN * 1e9)}).encode()
        writer.write(f"SUB {inbox} 1\r\nSUB {inbox}.made 2\r\n".encode())
        writer.write(_pub(f"$JS.API.CONSUMER.DURABLE.CREATE.{self._stream}.{durable} {inbox}.made", wanted))
        found: list[Seen] = []
        async with asyncio.timeout(WITHIN):
            assert "error" not in json.loads((await _message(reader))[2])
            writer.write(_pub(f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{durable} {inbox}", pull))
            while len(found) < count:
                reply, head, body = await _message(reader)
                assert reply, f"{len(found)} of {count} came: {head!r}"
                headers = dict(line.split(": ", 1) for line in head.decode("ascii").split("\r\n")[1:] if line)
                found.append(Seen(body, headers, headers.get("content-type"), None, headers.get("Nats-Msg-Id")))
                writer.write(_pub(reply, b"+ACK"))
        await _closed(reader, writer)
        return found

    async def write(self, body: bytes, headers: Mapping[str, str], key: str | None = None, id: str = "") -> None:
        assert key is None, "NATS has no keys"
        given = {"content-type": "application/json", **({"Nats-Msg-Id": id} if id else {}), **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        await self._write(self._subject.encode(), f"NATS/1.0\r\n{lines}\r\n".encode(), body)

    async def _write(self, subject: bytes, head: bytes, body: bytes) -> None:
        reader, writer = await self._connected()
        writer.write(b"HPUB %s %d %d\r\n%s%s\r\n" % (subject, len(head), len(head) + len(body), head, body))
        await _closed(reader, writer)

    async def write_poison(self) -> int:
        poison = [
            b"NATS/1.0 \xff\xff\xff\r\n\r\n",
            b"NATS/1.0\r\nname: \xff\r\n\r\n",
            b"NATS/1.0\r\n\xff: value\r\n\r\n",
            b"NATS",
        ]
        for each in poison:
            await self._write(self._subject.encode(), each, b"poison")
        return len(poison)

    async def write_to_no_text(self, body: bytes) -> None:
        """Send a message to a subject that is no text."""
        head = b"NATS/1.0\r\ncontent-type: application/json\r\n\r\n"
        await self._write(self._stream.encode() + b".\xfe\xff", head, body)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(SERVERS["nats"].url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        assert (await reader.readline()).startswith(b"INFO ")
        writer.write(b'CONNECT {"verbose": false, "headers": true, "no_responders": true}\r\n')
        return reader, writer

    def event(self, seen: Seen) -> Any:
        return http.from_binary(http.HTTPMessage(dict(seen.headers), seen.body), JSONFormat(), CloudEvent)


def _pub(to: str, body: bytes) -> bytes:
    return b"PUB %s %d\r\n%s\r\n" % (to.encode(), len(body), body)


async def _message(reader: asyncio.StreamReader) -> tuple[str, bytes, bytes]:
    """Return where to answer, the head and the body of the next message."""
    kind, *fields = (await reader.readline()).split()
    assert kind in (b"MSG", b"HMSG"), (kind, fields)
    sizes = 2 if kind == b"HMSG" else 1
    numbers = [int(each) for each in fields[-sizes:]]
    content = (await reader.readexactly(numbers[-1] + 2))[:-2]
    head = numbers[0] if kind == b"HMSG" else 0
    reply = fields[2].decode() if len(fields) - sizes == 3 else ""
    return reply, content[:head], content[head:]


async def _closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close the connection when the server has read all."""
    writer.write(b"PING\r\n")
    assert await reader.readline() == b"PONG\r\n"
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


CLIENTS: dict[type, type[Any]] = {
    RabbitMQBench: PikaClient,
    KafkaBench: KafkaPythonClient,
    RedisBench: RedisCli,
    NatsBench: NatsSocket,
}
