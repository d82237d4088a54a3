"""The mock cluster of librdkafka, over TCP; or the Kafka that MAINSPRING_TEST_KAFKA names, as host:port."""

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mainspring.brokers.contract import Broker
from mainspring.brokers.kafka import Kafka
from tests.brokers.bench import TOPIC
from tests.services.cluster import free_port

REAL = os.environ.get("MAINSPRING_TEST_KAFKA")
_API_VERSIONS, _CREATE_TOPICS = 18, 19
_TOPIC_ALREADY_EXISTS = 36


class MockCluster:
    """One mock broker, and a gate before it that knows what the mock does not: CreateTopics."""

    def __init__(self) -> None:
        (path,) = Path(confluent_kafka.__file__).parent.parent.glob("confluent_kafka.libs/librdkafka*")
        self._library: Any = ctypes.CDLL(str(path))
        self._library.rd_kafka_new.restype = ctypes.c_void_p
        self._library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
        self._library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
        self._library.rd_kafka_conf_new.restype = ctypes.c_void_p
        quiet = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(ctypes.c_void_p(quiet), b"log_level", b"0", None, ctypes.c_size_t(0))
        self._client = self._library.rd_kafka_new(0, ctypes.c_void_p(quiet), None, ctypes.c_size_t(0))
        self._cluster = ctypes.c_void_p(self._library.rd_kafka_mock_cluster_new(ctypes.c_void_p(self._client), 1))
        self.behind = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self.call("group_initial_rebalance_delay_ms", 0)
        self.topics: dict[str, int] = {}
        self.is_silent = False
        self._gate: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def call(self, name: str, *args: object) -> int:
        """Call a function of the mock cluster."""
        return int(getattr(self._library, f"rd_kafka_mock_{name}")(self._cluster, *args))

    def create(self, topic: str, partitions: int = 1) -> None:
        self.call("topic_create", topic.encode(), partitions, 1)
        self.topics[topic] = partitions

    def remove(self, topic: str) -> None:
        assert self.call("topic_delete", topic.encode()) == 0
        del self.topics[topic]

    def fail(self, api: int, *errors: int) -> None:
        """Answer the next requests of this kind with these errors."""
        self.call("push_request_errors_array", api, ctypes.c_size_t(len(errors)), (ctypes.c_int * len(errors))(*errors))

    async def open(self, port: int = 0) -> str:
        """Open the gate, at any port or at this one; return its address."""
        self._gate = await asyncio.start_server(self._enter, "127.0.0.1", port)
        port = self._gate.sockets[0].getsockname()[1]
        self.call("broker_set_host_port", 1, b"127.0.0.1", port)
        self.call("set_controller_id", 1)
        return f"127.0.0.1:{port}"

    async def shut(self) -> None:
        """Close the gate: the cluster is away."""
        assert self._gate is not None
        self._gate.close()
        for each in (*self._writers,):
            each.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._gate.wait_closed()

    async def close(self) -> None:
        await self.shut()
        await self.end()

    async def end(self) -> None:
        """Free it, once its gate is shut."""
        await asyncio.to_thread(self._library.rd_kafka_mock_cluster_destroy, self._cluster)
        await asyncio.to_thread(self._library.rd_kafka_destroy, ctypes.c_void_p(self._client))

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        host, port = self.behind.split(":")
        inner, out = await asyncio.open_connection(host, int(port))
        versions: dict[bytes, int] = {}

        def request(frame: bytes) -> bytes | None:
            api, version = struct.unpack(">hh", frame[:4])
            if api == _API_VERSIONS:
                versions[frame[4:8]] = version
            if api == _CREATE_TOPICS:
                _write(writer, self._created(frame))
                return None
            return frame

        def reply(frame: bytes) -> bytes | None:
            if self.is_silent:
                return None
            return _with_create_topics(frame, versions.pop(frame[:4])) if frame[:4] in versions else frame

        self._writers |= {writer, out}
        try:
            await asyncio.gather(_pass(reader, out, request), _pass(inner, writer, reply))
        finally:
            self._writers -= {writer, out}
            self._tasks.discard(task)

    def _created(self, frame: bytes) -> bytes:
        """Create a topic as CreateTopics of version 4 asks."""
        at = 10 + max(0, struct.unpack(">h", frame[8:10])[0])
        count, length = struct.unpack(">ih", frame[at : at + 6])
        assert count == 1, "the adapter asks for one at a time"
        name = frame[at + 6 : at + 6 + length]
        (partitions,) = struct.unpack(">i", frame[at + 6 + length : at + 10 + length])
        error = _TOPIC_ALREADY_EXISTS if name.decode() in self.topics else 0
        if not error:
            self.create(name.decode(), max(1, partitions))
        return frame[4:8] + struct.pack(">iih", 0, 1, length) + name + struct.pack(">hh", error, -1)


def _with_create_topics(frame: bytes, version: int) -> bytes:
    entry = struct.pack(">hhh", _CREATE_TOPICS, 4, 4)
    if version < 3:
        (count,) = struct.unpack(">i", frame[6:10])
        return frame[:6] + struct.pack(">i", count + 1) + entry + frame[10:]
    assert frame[6] < 127, "a length of one byte"
    return frame[:6] + bytes([frame[6] + 1]) + entry + b"\x00" + frame[7:]


async def _pass(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, through: Callable[[bytes], bytes | None]
) -> None:
    try:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            frame = through(await reader.readexactly(size))
            if frame is not None:
                _write(writer, frame)
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # one side is closed, and then the other
    finally:
        writer.close()


def _write(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)


class PrivateKafka:
    """A mock cluster of one test's own, with what the tests do to a ``PrivateBroker``: it is killed by its gate."""

    def __init__(self) -> None:
        self.port = free_port()
        self.mock = MockCluster()
        self._runs = False

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        await self.mock.open(self.port)
        self._runs = True

    async def kill(self) -> None:
        if self._runs:
            self._runs = False
            await self.mock.shut()

    async def wipe(self) -> None:
        """Put an empty cluster in its place."""
        await self.mock.end()
        self.mock = MockCluster()

    async def close(self) -> None:
        await self.kill()
        await self.mock.end()


class KafkaBench:
    largest = 100_000
    keeps_undelivered = True
    parks = False

    def __init__(self) -> None:
        self.mock: MockCluster | None = None if REAL else MockCluster()
        self.servers = REAL or ""
        self.topic = f"mainspring-{uuid4().hex}"
        self.config: dict[str, object] = {
            "message.max.bytes": self.largest,
            "topic.metadata.propagation.max.ms": 500,
            "fetch.wait.max.ms": 50,
        }
        if not REAL:
            # The mock lets a group that a member has left wait for a second less than this.
            self.config |= {"session.timeout.ms": 1500, "heartbeat.interval.ms": 100}

    async def open(self) -> None:
        if self.mock is not None:
            self.servers = await self.mock.open()
        await self.create(self.topic)

    async def create(self, topic: str, partitions: int = 1) -> None:
        if self.mock is not None:
            self.mock.create(topic, partitions)
        else:
            (made,) = self._admin().create_topics([NewTopic(topic, partitions, 1)]).values()
            await asyncio.wrap_future(made)

    async def remove(self, topic: str) -> None:
        if self.mock is not None:
            self.mock.remove(topic)
        else:
            (removed,) = self._admin().delete_topics([topic]).values()
            await asyncio.wrap_future(removed)

    async def partitions(self, *topics: str) -> list[int]:
        found = await asyncio.to_thread(self._admin().list_topics, timeout=10)
        return [len(found.topics[each].partitions) for each in topics]

    async def close(self) -> None:
        if self.mock is not None:
            await self.mock.close()
            return
        admin = self._admin()
        mine = [each for each in admin.list_topics(timeout=10).topics if each.startswith(self.topic)]
        for each in admin.delete_topics(mine).values():
            await asyncio.wrap_future(each)

    def sends(self) -> Broker:
        return self.to(self.topic)

    def reads(self) -> Broker:
        return self.of(self.topic)

    def sends_nowhere(self) -> Broker:
        return self.to(f"{self.topic}-nowhere")

    def reads_nothing(self) -> Broker:
        return self.of(f"{self.topic}-missing")

    def at(self, url_port: int) -> Broker:
        return Kafka(f"127.0.0.1:{url_port}")

    def to(self, topic: str, **config: object) -> Kafka:
        return Kafka(self.servers, topic={TOPIC: topic}, config={**self.config, **config})

    def of(self, *topics: str, **config: object) -> Kafka:
        return Kafka(self.servers, topics=topics, group_id=self.topic, config={**self.config, **config})

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers})
