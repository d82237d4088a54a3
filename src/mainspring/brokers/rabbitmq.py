"""RabbitMQ, over AMQP 0-9-1: sends to one exchange, with confirms, and reads one queue."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, Literal
from urllib.parse import unquote, urlsplit

from mainspring.brokers.contract import (
    Addressing,
    Broker,
    BrokerConnection,
    addressed,
    check_addressing,
    check_server,
    sourced,
)
from mainspring.model.errors import BadOption, MissingExtra

_NAME = re.compile(r"[a-zA-Z0-9\-_.:@#,/+ ]{1,127}")
"""What the client accepts as the name of a queue or an exchange."""
_URL = "amqp://user:password@host:port/vhost, or amqps://, with special characters percent-encoded"


@dataclass(frozen=True, eq=False)
class RabbitMQ(Broker):
    """A RabbitMQ server: the exchange that messages are sent to, the queue that is read, or both.

    A message is sent as persistent and mandatory, and is done when the broker has confirmed it: one that no queue takes
    is rejected. AMQP has no coordinates of its own: a received message without an id has nothing by which a repeat is
    known, and is handled at least once.
    """

    kind: ClassVar[str] = "rabbitmq"
    reading: ClassVar[str] = "queue='billing'"

    url: str = field(default="amqp://guest:guest@localhost/", repr=False)
    """``amqp://user:password@host:port/vhost``, or ``amqps://`` with ``?cafile=``, ``certfile=`` and ``keyfile=``."""
    _: KW_ONLY
    exchange: str = ""
    """Where messages are sent to; empty: the default exchange, whose routing keys are names of queues."""
    routing_key: Addressing = "{topic}"
    """The routing key of a topic: text with ``{topic}``, a mapping of topics, or a function."""
    queue: str | None = None
    """The queue that is read."""
    bindings: Sequence[str] = ()
    """Routing keys by which ``declare`` binds the queue to the exchange, as in "orders.#"."""
    exchange_type: str = "topic"
    """What ``declare`` makes the exchange: "topic", "direct", "fanout", or a type of a plugin."""
    prefetch: int = 250
    """How many messages the broker delivers before one is acknowledged."""
    queue_type: Literal["quorum", "classic"] = "quorum"
    """What ``declare`` makes the queue."""
    largest: int = 16 * 1024 * 1024
    """How many bytes a body may have: 16 MiB, as RabbitMQ 4's own max_message_size; before 4 that is 128 MiB."""
    declare: bool = False
    name: str | None = None
    """What distinguishes this server from another whose queues have the same names, as in "eu". It is part of the
    inbox marks: after a change of it, a repeat of an older message is not known."""

    def __post_init__(self) -> None:
        """Check all options. Raises BadOption."""
        if not _is_url(self.url):  # nothing of it is quoted: any part may be the password
            raise BadOption(f"the URL of RabbitMQ must be {_URL}")
        check_server(self.name)
        check_addressing(self.routing_key, "routing_key")
        key, bindings = self.routing_key, self.bindings
        name = "1 to 127 letters, digits, spaces and -_.:@#,/+"
        rules = [
            ("exchange", self.exchange == "" or _is_name(self.exchange), name),
            ("queue", self.queue is None or _is_name(self.queue), name),
            (
                "routing_key",
                isinstance(key, str | Mapping) or callable(key),
                "text, a mapping of topics, or a function",
            ),
            ("bindings", _are_texts(bindings), "a list of routing keys, as in ['orders.#']"),
            ("bindings", not bindings or (self.exchange and self.queue), "with an exchange= and a queue="),
            ("exchange_type", _is_name(self.exchange_type), "text, as in 'topic' or 'fanout'"),
            ("prefetch", _is_whole(self.prefetch, 65_535), "from 1 to 65,535"),
            ("queue_type", self.queue_type in {"quorum", "classic"}, "'quorum' or 'classic'"),
            ("largest", _is_whole(self.largest, 2**29), f"from 1 to {2**29:,}"),
            ("declare", isinstance(self.declare, bool), "True or False"),
        ]
        for option, is_right, rule in rules:
            if not is_right:
                raise BadOption(f"RabbitMQ(…, {option}={getattr(self, option)!r}) must be {rule}")
        object.__setattr__(self, "bindings", tuple(bindings))

    @property
    def places(self) -> list[tuple[str, str]]:
        """The exchange and the queue, as far as they have names."""
        named = [("exchange", self.exchange or None), ("queue", self.queue)]
        return [(kind, name) for kind, name in named if name is not None]

    @property
    def where(self) -> str:
        """Its host and port."""
        parts = urlsplit(self.url)
        return f"{parts.hostname}:{parts.port or (5671 if parts.scheme == 'amqps' else 5672)}"

    @property
    def login(self) -> str:
        """The user and the virtual host, for people."""
        parts = urlsplit(self.url)
        return f"user {unquote(parts.username or 'guest')!r} at vhost {unquote(parts.path[1:]) or '/'!r}"

    @property
    def source(self) -> str:
        """The queue that is read."""
        return "" if self.queue is None else sourced(self.kind, self.name, self.queue)

    @property
    def addressing(self) -> Addressing:
        """See ``Broker``."""
        return self.routing_key

    def address(self, topic: str) -> str:
        """Return the exchange and routing key of a topic; for the default exchange, the queue."""
        key = self.key(topic)
        return f"exchange {self.exchange}, routing key {key}" if self.exchange else f"queue {key}"

    def key(self, topic: str) -> str:
        """Return the routing key of a topic. Raises BadOption if it has none."""
        try:
            return addressed(self.routing_key, topic)
        except KeyError:
            raise BadOption(f"routing_key= has nothing for the topic {topic!r}: add it") from None

    def require(self) -> None:
        """See ``Broker``."""
        try:
            import mainspring.brokers.rabbitmq_connection  # noqa: F401
        except ImportError as error:
            raise MissingExtra("aiormq", "rabbitmq", "RabbitMQ(…)") from error

    async def connect(self) -> BrokerConnection:
        """Open a connection."""
        self.require()
        from mainspring.brokers.rabbitmq_connection import connect

        return await connect(self)


def _is_url(url: object) -> bool:
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        return parts.scheme in {"amqp", "amqps"} and bool(parts.hostname) and not parts.fragment and parts.port != 0
    except ValueError:
        return False


def _is_name(name: object) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _are_texts(texts: object) -> bool:
    return isinstance(texts, Sequence) and not isinstance(texts, str) and all(isinstance(each, str) for each in texts)


def _is_whole(number: object, most: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= most
