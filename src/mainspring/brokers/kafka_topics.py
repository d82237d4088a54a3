"""The topics of Kafka: whether they are there, making them, and how far a group is behind their ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition, admin

from mainspring.brokers.kafka_client import CLOSED, REPLY_WITHIN, new_client, unavailable
from mainspring.model.errors import BrokerUnavailable

if TYPE_CHECKING:
    from mainspring.brokers.kafka import Kafka

_ADMIN: Any = admin
"""Without types, since it exports only some of its classes, and not all of these have types."""


class KafkaTopics:
    """Asks for topics and makes them, by an admin client that is made when it is first needed."""

    def __init__(self, broker: Kafka, on_error: Callable[[KafkaError], None]) -> None:
        self._broker = broker
        self._on_error = on_error
        self._client: Any = None
        self._closed = False

    async def lag(self) -> int | None:
        """Return how far the group is behind the ends of all partitions, also of those that other members read."""
        group_id = self._broker.group_id
        try:
            return await self._lag(group_id) if self._broker.topics and group_id else None
        except (KafkaException, TimeoutError):
            return None

    async def _lag(self, group_id: str) -> int | None:
        client = self._admin_client()
        found = [await self._described(topic) for topic in self._broker.topics]
        if any(each.error is not None for each in found):
            return None
        partitions = [TopicPartition(each.topic, number) for each in found for number in each.partitions]
        group = ConsumerGroupTopicPartitions(group_id, partitions)
        offsets, first, last = await asyncio.gather(
            _replied(client.list_consumer_group_offsets([group], request_timeout=REPLY_WITHIN)),
            _replied(client.list_offsets(dict.fromkeys(partitions, _ADMIN.OffsetSpec.earliest()))),
            _replied(client.list_offsets(dict.fromkeys(partitions, _ADMIN.OffsetSpec.latest()))),
        )
        committed = {(each.topic, each.partition): each.offset for each in offsets[0].topic_partitions}
        lag = 0
        for each, start, end in zip(partitions, first, last, strict=True):
            lag += max(0, end.offset - max(start.offset, committed.get((each.topic, each.partition), 0)))
        return lag

    async def check(self) -> list[str]:
        """See ``BrokerConnection``."""
        wrong: list[str] = []
        try:
            for topic in self._named():
                error = (await self._described(topic)).error
                if error is None:
                    continue
                missing = error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
                remedy = "create it, or pass declare=True" if missing else "change that"
                wrong.append(f"topic {topic!r}: {error.str()}: {remedy}")
        except KafkaException as error:
            wrong.append(str(unavailable(self._broker, error.args[0])))
        return wrong

    async def declare(self) -> list[str]:
        """Make missing topics: those that are read, and those that are sent to whatever is published."""
        unknown, made = KafkaError.UNKNOWN_TOPIC_OR_PART, []
        try:
            missing = [each for each in [await self._described(name) for name in self._named()] if each.error]
            for topic in (each.topic for each in missing if each.error.code() == unknown):
                new = _ADMIN.NewTopic(topic, self._broker.partitions or -1, self._broker.replicas or -1)
                try:
                    await _replied(self._admin_client().create_topics([new], operation_timeout=REPLY_WITHIN))
                except KafkaException as error:
                    if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                        raise
                else:
                    made.append(f"topic {topic}")
        except KafkaException as error:
            raise unavailable(self._broker, error.args[0]) from error
        return made

    def _named(self) -> list[str]:
        return list(dict.fromkeys((*self._broker.topics, *self._broker.known)))

    def _admin_client(self) -> Any:
        if self._closed:
            raise BrokerUnavailable(f"{self._broker.shown}: {CLOSED}")
        if self._client is None:
            self._client = new_client(_ADMIN.AdminClient, self._broker, {}, {}, self._on_error)
        return self._client

    async def _described(self, topic: str) -> Any:
        asking = partial(self._admin_client().list_topics, topic, timeout=REPLY_WITHIN)
        return (await asyncio.to_thread(asking)).topics[topic]

    def close(self) -> None:
        """Refuse what is asked from now on."""
        self._closed = True

    def release(self) -> None:
        """Let go of the client, which may wait for its threads to end."""
        self._client = None


async def _replied(replies: Mapping[Any, Future[Any]]) -> list[Any]:
    """Await what an admin client was asked for."""
    async with asyncio.timeout(REPLY_WITHIN):
        return await asyncio.gather(*map(asyncio.wrap_future, replies.values()))
