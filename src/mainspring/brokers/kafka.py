"""Kafka: sends to topics with a report per message, and reads topics as a member of a consumer group."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import ClassVar

from mainspring.brokers.contract import (
    Addressing,
    Broker,
    BrokerConnection,
    addressed,
    bounded,
    check_addressing,
    check_server,
    sourced,
)
from mainspring.model.errors import BadOption, MissingExtra

NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")
"""What a topic of Kafka may be called."""
_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::\d{1,5})?")

_RESERVED: Mapping[str, str] = {
    **dict.fromkeys(("bootstrap.servers", "metadata.broker.list"), "pass it as servers"),
    "group.id": "pass it as group_id",
    "allow.auto.create.topics": "topics are made by declare=True only",
    **dict.fromkeys(
        ("acks", "request.required.acks", "enable.idempotence", "transactional.id"),
        "a message is sent when all replicas in sync have it, once",
    ),
    **dict.fromkeys(
        ("enable.auto.commit", "enable.auto.offset.store"), "offsets are committed when messages are acknowledged"
    ),
    "error_cb": "errors are raised, and logged by the worker",
}
"""Options of the client that the adapter sets, and what to do instead."""


@dataclass(frozen=True, eq=False)
class Kafka(Broker):
    """Kafka, or a broker that speaks its protocol, and where messages go to or come from.

    A key decides about the partition, by the same hash as in Java. Of the client's options, ``acks=all`` and
    ``enable.idempotence`` are always set; the rest is ``config``. A worker that receives nothing for longer than
    ``max.poll.interval.ms`` leaves its group until it receives again.
    """

    kind: ClassVar[str] = "kafka"
    reading: ClassVar[str] = "topics=['orders'] and group_id='billing'"

    servers: str | Sequence[str]
    """One or more of ``host:port``, as a sequence or separated by commas."""
    _: KW_ONLY
    topic: Addressing = "{topic}"
    """The topic of Kafka that a message is sent to, by its topic here."""
    topics: Sequence[str] = ()
    """The topics of Kafka that are read; none if it is only sent to."""
    group_id: str | None = None
    """The consumer group that reads them."""
    config: Mapping[str, object] | None = field(default=None, repr=False)
    """More options of librdkafka, as ``security.protocol`` and ``sasl.username``."""
    partitions: int | None = None
    """How many partitions a declared topic has [the default of the broker]."""
    replicas: int | None = None
    """How many replicas a declared topic has [the default of the broker]."""
    declare: bool = False
    """Whether a worker makes missing topics when it connects."""
    name: str | None = None
    """What distinguishes this server from another whose topics have the same names, as in "eu". It is part of the
    inbox marks: after a change of it, a repeat of an older message is not known."""

    def __post_init__(self) -> None:
        """Check the options."""
        given = self.servers.split(",") if isinstance(self.servers, str) else self.servers
        servers = tuple(str(each).strip() for each in given)
        if not servers or not all(_SERVER.fullmatch(each) for each in servers):
            # Not quoted: it may contain a password.
            raise BadOption(
                "servers must be host:port, or several of them, without kafka:// before them; user and password are "
                'config={"sasl.username": …, "sasl.password": …}'
            )
        check_addressing(self.topic, "topic")
        if isinstance(self.topics, str):
            raise BadOption(f"topics is a sequence: write topics=[{self.topics!r}]")
        for each in {*self.topics, *self.known}:
            if not NAME.fullmatch(each):
                raise BadOption(f"{each!r} is no topic of Kafka: use up to 249 letters, digits, '.', '_' and '-'")
        if self.topics and not self.group_id:
            raise BadOption("to read topics takes a consumer group: pass group_id")
        check_server(self.name)
        for name in self.config or ():
            if name in _RESERVED:
                raise BadOption(f"config cannot have {name!r}: {_RESERVED[name]}")
        for option, number in (("partitions", self.partitions), ("replicas", self.replicas)):
            if number is not None and number < 1:
                raise BadOption(f"{option} must be at least 1, not {number!r}")
        object.__setattr__(self, "servers", servers)
        object.__setattr__(self, "topics", tuple(self.topics))
        object.__setattr__(self, "config", MappingProxyType(dict(self.config or {})))

    @property
    def url(self) -> str:
        """Its address. The password is no part of it."""
        return f"kafka://{','.join(self.servers)}"

    @property
    def prefix(self) -> str:
        """What the names of CloudEvents headers begin with on Kafka."""
        return "ce_"

    @property
    def source(self) -> str:
        """The group and the topics that are read."""
        return bounded(self._source_of(",".join(sorted(self.topics))), 190, "/") if self.topics else ""

    @property
    def reads(self) -> frozenset[str]:
        """Each topic that the group reads."""
        return frozenset(map(self._source_of, self.topics))

    def _source_of(self, topics: str) -> str:
        return sourced(self.kind, self.name, self.group_id or "", topics)

    @property
    def known(self) -> tuple[str, ...]:
        """The topics of Kafka that are known to be sent to, whatever is published."""
        if isinstance(self.topic, str):
            return () if "{topic}" in self.topic else (self.topic,)
        return tuple(dict.fromkeys(self.topic.values())) if isinstance(self.topic, Mapping) else ()

    @property
    def addressing(self) -> Addressing:
        """See ``Broker``."""
        return self.topic

    def address(self, topic: str) -> str:
        """Return the topic of Kafka that messages of this topic are sent to."""
        return addressed(self.topic, topic)

    def require(self) -> None:
        """See ``Broker``."""
        try:
            import mainspring.brokers.kafka_connection  # noqa: F401
        except ImportError as error:
            raise MissingExtra("confluent-kafka", "kafka", "Kafka(…)") from error

    async def connect(self) -> BrokerConnection:
        """Connect. A member joins its group when it first receives."""
        self.require()
        from mainspring.brokers.kafka_connection import connect

        return await connect(self)
