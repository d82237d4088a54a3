"""A connection to Kafka: a producer that waits for its reports, or a member of a consumer group."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from mainspring.brokers import kafka_client
from mainspring.brokers.contract import SENT, Received, SendResult, WireMessage
from mainspring.brokers.kafka import NAME
from mainspring.brokers.kafka_message import CONTENT_TYPE, received_message
from mainspring.brokers.kafka_topics import KafkaTopics
from mainspring.model.errors import BadOption, BrokerUnavailable
from mainspring.model.text import described

if TYPE_CHECKING:
    from mainspring.brokers.kafka import Kafka

T = TypeVar("T")

_CONNECT_WITHIN = 8.0
_CLOSE_WITHIN = 3.0
_SLICE = 0.2
"""Seconds after which a wait in the reader's thread notices that it was cancelled."""
_PAUSES = (0.001, 0.02)
"""The shortest and the longest time between two looks for delivery reports."""


async def connect(broker: Kafka) -> KafkaConnection:
    """Open a connection. Raises BrokerUnavailable, or BadOption for an option that the client refuses."""
    connection = KafkaConnection(broker)
    try:
        await connection.open()
    except BaseException:
        await connection.close()
        raise
    return connection


class _Batch:
    """The messages of one call of ``send``, and their delivery reports."""

    def __init__(self, size: int) -> None:
        self.results: list[SendResult | None] = [None] * size
        self.too_large: list[int] = []
        """Those that a broker found too large, perhaps only together with others."""
        self.left = size

    def settle(self, index: int, result: SendResult) -> None:
        """Note what became of a message."""
        self.results[index] = result
        self.left -= 1


class _Partition:
    """An assigned partition: which of its messages are not acknowledged."""

    def __init__(self, topic: str, number: int) -> None:
        self.topic = topic
        self.number = number
        self.waiting: set[int] = set()
        self.following = 0
        self.seen = -1
        self.lost = False
        """Whether it has moved to another member, which receives what was not committed."""

    def took(self, offset: int) -> bool:
        """Note a received message; return whether it was received before."""
        again = offset <= self.seen
        self.waiting.add(offset)
        self.following, self.seen = offset + 1, max(self.seen, offset)
        return again

    def returned(self, offset: int) -> None:
        """Forget what was received from this offset on: it is received again."""
        self.waiting = {each for each in self.waiting if each < offset}
        self.following = offset

    @property
    def safe(self) -> int:
        """The offset below which all received messages are acknowledged."""
        return min(self.waiting, default=self.following)


class KafkaConnection:
    """A producer, or a member of a consumer group, and an admin client when one is needed.

    Delivery reports are collected on the event loop, without blocking it; the consumer has a thread of its own, and its
    state is changed there only.
    """

    def __init__(self, broker: Kafka) -> None:
        self._broker = broker
        self._producer: Any = None
        self._consumer: Any = None
        self._topics = KafkaTopics(broker, self._on_error)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mainspring-kafka")
        self._stop = Event()
        self._closed = False
        self._ended = False
        self._down = False
        self._trouble: Any = None
        self._refused: set[str] = set()
        self._subscribed = False
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._moved: set[_Partition] = set()
        self._ready: deque[Received] = deque()

    @property
    def closed(self) -> bool:
        """Whether it is lost."""
        return self._closed

    async def open(self) -> None:
        """Make the client, and wait until a broker responds."""
        if self._broker.topics:
            fixed = {"group.id": self._broker.group_id, "enable.auto.commit": False, "enable.auto.offset.store": False}
            own = {"auto.offset.reset": "earliest"}
            self._consumer = kafka_client.new_client(Consumer, self._broker, own, fixed, self._on_error)
        else:
            self._producer = self._new_producer()
        client = self._producer if self._consumer is None else self._consumer
        await self._in_thread(self._reach, client)

    def _new_producer(self) -> Any:
        own = {"partitioner": "murmur2_random", "linger.ms": 1, "topic.metadata.propagation.max.ms": 5000}
        fixed = {"acks": "all", "enable.idempotence": True}
        return kafka_client.new_client(Producer, self._broker, own, fixed, self._on_error)

    def _on_error(self, error: Any) -> None:
        self._down = self._down or error.code() == kafka_client.ALL_DOWN
        if error.code() != kafka_client.ALL_DOWN or self._trouble is None:
            self._trouble = error
        if error.fatal():
            self._closed = True

    def _reach(self, client: Any) -> None:
        """Ask a broker for anything, so that errors of all of them are known at once, not after a timeout."""
        until = time.monotonic() + _CONNECT_WITHIN
        asked = (self._broker.topics or ("__consumer_offsets",))[0]
        while True:
            try:
                client.list_topics(asked, timeout=0.5)
            except KafkaException as error:
                client.poll(0)  # calls _on_error
                if self._down or self._closed or time.monotonic() > until:
                    self._closed = True
                    raise kafka_client.unavailable(self._broker, self._trouble or error.args[0]) from None
            else:
                client.poll(0)
                self._down = False  # before it was reached, and that is told late
                return

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, partial(call, *args))
        except KafkaException as error:
            raise kafka_client.unavailable(self._broker, error.args[0]) from error

    async def send(self, messages: Sequence[WireMessage], within: float) -> list[SendResult]:
        """See ``BrokerConnection``."""
        if self._closed:
            return [SendResult("later", kafka_client.CLOSED)] * len(messages)
        until = time.monotonic() + within
        if self._producer is None:
            self._producer = self._new_producer()
        if self._refused and not await asyncio.to_thread(self._ask_again, self._producer, messages, within / 2):
            return [SendResult("later", f"{self._broker.shown} does not respond")] * len(messages)
        batch = await self._reported(messages, until)
        if len(messages) > 1:
            for index in batch.too_large:
                # Broker limits are for all that is written at once: only a message that is refused alone is too large.
                batch.results[index] = (await self._reported([messages[index]], until)).results[0]
        why = "" if self._trouble is None else f": {self._trouble.str()}"
        return [each or SendResult("later", f"no confirm within {within:g} s{why}") for each in batch.results]

    def _ask_again(self, producer: Any, messages: Sequence[WireMessage], within: float) -> bool:
        """Ask for the topics that were refused: the client remembers that for minutes, and they may be there now.

        Only for those of these messages. Where the time is too short for all, the next call goes on with the rest.
        """
        until = time.monotonic() + within
        wanted: set[str] = set()
        for topic in {each.topic for each in messages}:
            with suppress(Exception):  # of the user's function: such a message is rejected when it is produced
                wanted.add(self._broker.address(topic))
        try:
            for topic in self._refused & wanted:
                producer.list_topics(topic, timeout=max(0.001, until - time.monotonic()))
                self._refused.discard(topic)
        except (KafkaException, RuntimeError):  # it does not respond, or is closed by now
            return False
        return True

    async def _reported(self, messages: Sequence[WireMessage], until: float) -> _Batch:
        batch, producer = _Batch(len(messages)), self._producer
        if self._closed:
            return batch
        for index, message in enumerate(messages):
            self._produce(batch, index, message)
        pause, longest = _PAUSES
        while batch.left and not self._closed:
            left = until - time.monotonic()
            if left <= 0:
                # What was not confirmed may not be sent by this connection any more: the caller sends it again.
                self._closed = True
                producer.purge(blocking=False)
                break
            await asyncio.sleep(min(pause, left))
            if not self._closed:
                producer.poll(0)
            pause = min(pause * 1.25, longest)
        return batch

    def _produce(self, batch: _Batch, index: int, message: WireMessage) -> None:
        try:
            topic = self._broker.address(message.topic)
            if not NAME.fullmatch(topic):
                raise BadOption(f"{topic!r} is no name of a topic: change topic=")  # noqa: TRY301 - as what the client refuses
            headers = {name: value.encode() for name, value in message.headers.items()}
            headers[CONTENT_TYPE] = message.content_type.encode()
            key = None if message.key is None else message.key.encode()
            report = partial(self._report, batch, index, topic)
            self._producer.produce(topic, message.body, key, headers=headers, on_delivery=report)
        except KafkaException as error:
            batch.settle(index, self._judged(error.args[0], topic))
        except BufferError as error:
            batch.settle(index, SendResult("later", f"the queue of the producer is full: {error}"))
        except KeyError:
            batch.settle(index, SendResult("rejected", f"Kafka(topic=…) has no entry for {message.topic!r}: add it"))
        except BadOption as error:
            batch.settle(index, SendResult("rejected", str(error)))
        except Exception as error:  # noqa: BLE001 - a function of the user, or a message that has no encoding
            batch.settle(index, SendResult("rejected", described(error)))

    def _report(self, batch: _Batch, index: int, topic: str, error: Any, _: Any) -> None:
        if error is None:
            batch.settle(index, SENT)
            return
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            batch.too_large.append(index)
        if error.fatal():
            self._closed = True
        batch.settle(index, self._judged(error, topic))

    def _judged(self, error: Any, topic: str) -> SendResult:
        result = kafka_client.judged(self._broker, error, topic)
        if error.code() in kafka_client.NO_TOPIC and result.status == "rejected":
            self._refused.add(topic)
        elif error.code() in kafka_client.NO_TOPIC:
            self._closed = True  # the next connection declares it
        return result

    async def receive(self, limit: int, wait: float) -> list[Received]:
        """See ``BrokerConnection``."""
        if self._closed or self._consumer is None:
            raise BrokerUnavailable(f"{self._broker.shown}: no topics are read, or the connection is closed")
        if not self._ready:
            self._stop = stop = Event()
            try:
                await self._in_thread(self._fetch, limit, wait, stop)
            except asyncio.CancelledError:
                stop.set()  # what is fetched until it notices is returned by the next call
                raise
        found: list[Received] = []
        while self._ready and len(found) < limit:
            received = self._ready.popleft()
            if not received.token[0].lost:
                found.append(received)
        return found

    def _fetch(self, limit: int, wait: float, stop: Event) -> None:
        if not self._subscribed:
            self._consumer.subscribe(
                list(self._broker.topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
            )
            self._subscribed = True
        self._commit()
        until = time.monotonic() + wait
        while not stop.is_set() and not self._ready:
            left = max(0.0, until - time.monotonic())
            messages = self._consumer.consume(1, min(left, _SLICE))
            if messages and limit > 1:
                messages += self._consumer.consume(limit - 1, 0)
            self._take(messages)
            if self._down:
                # A cluster may come back without its data, and then this client's positions skip what is new there:
                # the next connection goes on from what is committed.
                self._closed = True
                raise kafka_client.unavailable(self._broker, self._trouble)
            if left == 0:
                return

    def _take(self, messages: Iterable[Any]) -> None:
        failed = None
        for message in messages:
            error = message.error()
            if error is None:
                partition = self._partitions.get((message.topic(), message.partition()))
                if partition is not None:
                    again = partition.took(message.offset())
                    self._ready.append(received_message(message, partition, again=again))
            elif error.code() not in kafka_client.PASSING:
                failed = error
        if failed is not None:
            # In a topic that is made again, too, offsets begin at 0.
            self._closed = self._closed or failed.fatal() or failed.code() in kafka_client.NO_TOPIC
            raise kafka_client.unavailable(self._broker, failed)

    def _assigned(self, _: Any, assigned: Iterable[Any]) -> None:
        for each in assigned:
            self._partitions[each.topic, each.partition] = _Partition(each.topic, each.partition)

    def _revoked(self, _: Any, revoked: Iterable[Any]) -> None:
        for each in revoked:
            partition = self._partitions.pop((each.topic, each.partition), None)
            if partition is not None:
                partition.lost = True
                self._moved.discard(partition)

    async def ack(self, received: Sequence[Received]) -> None:
        """Commit, per partition, the offset below which all that was received is acknowledged.

        A message whose partition has moved to another member is received there again: acknowledging it does nothing.
        """
        await self._settle(self._ack, received)

    async def nack(self, received: Sequence[Received]) -> None:
        """Go back to the first of them in each partition: all from there on are received again."""
        await self._settle(self._nack, received)

    async def _settle(self, call: Callable[[Sequence[Received]], None], received: Sequence[Received]) -> None:
        if self._closed:
            raise BrokerUnavailable(f"{self._broker.shown}: {kafka_client.CLOSED}")
        try:
            async with asyncio.timeout(kafka_client.REPLY_WITHIN):
                await self._in_thread(call, received)
        except TimeoutError:
            self._closed = True
            raise BrokerUnavailable(
                f"{self._broker.shown}: no response within {kafka_client.REPLY_WITHIN:g} s"
            ) from None

    def _ack(self, received: Sequence[Received]) -> None:
        for each in received:
            partition, offset = each.token
            partition.waiting.discard(offset)
            if not partition.lost:
                self._moved.add(partition)
        self._commit()

    def _commit(self) -> None:
        moved = list(self._moved)
        if not moved:
            return
        try:
            committed = self._consumer.commit(
                offsets=[TopicPartition(each.topic, each.number, each.safe) for each in moved],
                asynchronous=False,
            )
            errors = [each.error for each in committed if each.error is not None]
        except KafkaException as error:
            errors = [error.args[0]]
        if not errors:
            self._moved.difference_update(moved)
        elif not all(each.code() in kafka_client.STALE for each in errors):
            self._closed = True  # another connection receives them again
            raise kafka_client.unavailable(self._broker, errors[0])

    def _nack(self, received: Sequence[Received]) -> None:
        first: dict[_Partition, int] = {}
        for each in received:
            partition, offset = each.token
            if not partition.lost and offset in partition.waiting:
                first[partition] = min(offset, first.get(partition, offset))
        for partition, offset in first.items():
            partition.returned(offset)
            kept = [each for each in self._ready if each.token[0] is not partition or each.token[1] < offset]
            self._ready = deque(kept)
            try:
                self._consumer.seek(TopicPartition(partition.topic, partition.number, offset))
            except KafkaException:
                self._closed = True  # another connection receives them again
                raise

    async def lag(self) -> int | None:
        """Return how far the group is behind the ends of all partitions, also of those that other members read."""
        return None if self._closed else await self._topics.lag()

    async def check(self) -> list[str]:
        """See ``BrokerConnection``."""
        return await self._topics.check()

    async def declare(self) -> list[str]:
        """Make missing topics: those that are read, and those that are sent to whatever is published."""
        return await self._topics.declare()

    async def close(self) -> None:
        """See ``BrokerConnection``."""
        if self._ended:
            return
        self._ended = self._closed = True
        self._topics.close()
        self._stop.set()
        closing = self._thread.submit(self._finish)
        self._thread.shutdown(wait=False)
        # A client that waits for a broker that does not respond ends later, in its thread.
        await asyncio.wait([asyncio.wrap_future(closing)], timeout=_CLOSE_WITHIN)

    def _finish(self) -> None:
        try:
            if self._consumer is not None:
                self._consumer.close()
            if self._producer is not None:
                self._producer.purge()
                self._producer.close()
        except KafkaException:
            pass  # its group or its queue is gone already
        self._consumer = self._producer = None
        self._topics.release()
