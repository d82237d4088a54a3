"""What a broker must do: send batches with a result per message, receive, acknowledge, and report its state."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import msgspec

from mainspring.model.errors import BadOption
from mainspring.model.redaction import redacted

Addressing = str | Mapping[str, str] | Callable[[str], str]
"""How a topic becomes an address of the broker: text with ``{topic}``, a mapping of topics, or a function."""
_SERVER = re.compile(r"[A-Za-z0-9._-]{1,40}")
_UNKNOWN = re.compile(r"\{(?!topic\})[^{}]*\}")


class WireMessage(NamedTuple):
    """A message in the form in which it is sent."""

    id: str
    topic: str
    """The topic of the outbox: the adapter maps it to an exchange, topic, stream or subject."""
    body: bytes
    content_type: str
    headers: Mapping[str, str]
    key: str | None = None
    """Messages of one key keep their order where the broker has partitions."""
    correlation_id: str | None = None


class SendResult(NamedTuple):
    """What the broker did with one message.

    *sent*: the broker has confirmed it. *later*: it may or may not have it, or cannot take it now: send it again.
    *rejected*: it will never take it as it is, as when no queue is bound or it is too large.
    """

    status: Literal["sent", "later", "rejected"]
    reason: str = ""


SENT = SendResult("sent")


class Received(msgspec.Struct, frozen=True):
    """A message as it was received, not yet acknowledged."""

    body: bytes
    headers: Mapping[str, str | bytes]
    """Values that are no text are left as bytes."""
    content_type: str | None
    address: str
    """Where it was read: a queue, topic, stream or subject."""
    coordinates: str
    """What identifies it in the broker: for those that have no id of their own."""
    message_id: str | None = None
    """The id in a property of the protocol, where it has one."""
    key: str | None = None
    correlation_id: str | None = None
    redelivered: bool = False
    token: Any = None
    """What the adapter acknowledges it by."""
    unreadable: str | None = None
    """Why what it has beside its body cannot be read, as where that is no UTF-8 text; None if it can."""


class BrokerConnection(Protocol):
    """One open connection, on one event loop. Several tasks may send at the same time, and one receives beside them."""

    @property
    def closed(self) -> bool:
        """Whether it is lost: the caller closes it and opens another."""
        ...

    async def send(self, messages: Sequence[WireMessage], within: float) -> list[SendResult]:
        """Send all and wait for the confirms, at most ``within`` seconds. One result per message, in their order.

        What is unknown is *later*, as after a lost connection or without a confirm in time: the connection then counts
        as closed. One message never decides about another. Raises nothing that a message or the broker may cause.
        """
        ...

    async def receive(self, limit: int, wait: float) -> list[Received]:
        """Return up to ``limit`` messages; wait at most ``wait`` seconds for the first. Raises BrokerUnavailable.

        Cancelling it loses nothing: what was received and not returned is redelivered at the latest when the
        connection closes.
        """
        ...

    async def ack(self, received: Sequence[Received]) -> None:
        """Acknowledge: the broker forgets them. Raises BrokerUnavailable; they are then received again."""
        ...

    async def nack(self, received: Sequence[Received]) -> None:
        """Return them: the broker delivers them again, here or elsewhere. Used only when a worker stops."""
        ...

    async def lag(self) -> int | None:
        """Return how many messages wait in the broker for this source; None if that cannot be known.

        It may be asked while another task receives, and replies within seconds, or raises BrokerUnavailable.
        """
        ...

    async def check(self) -> list[str]:
        """Return what is wrong with exchanges, queues, topics or streams: a sentence each, with what to change."""
        ...

    async def declare(self) -> list[str]:
        """Make what is missing, and return what was made, as in "queue billing". Idempotent."""
        ...

    async def close(self) -> None:
        """Close it. Never raises; returns within seconds even if the broker does not respond."""
        ...


class Broker(ABC):
    """A broker as an application names it, and where messages go to or come from. Making one connects to nothing."""

    kind: ClassVar[str]
    """What it is called, as in "rabbitmq"."""
    keeps_order: ClassVar[bool] = True
    """Whether messages of one key are received in the order in which they were sent."""

    reading: ClassVar[str] = "what is read"
    """What to pass so that it can be read, as in "queue='billing'"."""

    declare: bool
    """Whether a worker makes missing exchanges, queues, topics and streams when it connects."""

    @property
    @abstractmethod
    def url(self) -> str:
        """Its address, which may contain a password."""

    @property
    def prefix(self) -> str:
        """What the names of CloudEvents headers begin with."""
        return "ce-"

    @property
    def shown(self) -> str:
        """Its address without a password."""
        return redacted(self.url)

    @property
    @abstractmethod
    def source(self) -> str:
        """What is read, as in "rabbitmq:billing", for inbox marks: at most 190 characters. Empty: only sent to."""

    @property
    def reads(self) -> frozenset[str]:
        """Each queue, topic or stream that is read, as in "rabbitmq:billing": no two intakes may share one."""
        return frozenset({self.source} - {""})

    @property
    def addressing(self) -> Addressing:
        """How a topic becomes an address."""
        return "{topic}"

    @abstractmethod
    def address(self, topic: str) -> str:
        """Return where messages of this topic are sent, for people."""

    def require(self) -> None:  # noqa: B027 - most that are no adapters need nothing
        """Import the client library. Raises MissingExtra if it is not installed."""

    @abstractmethod
    async def connect(self) -> BrokerConnection:
        """Open a connection. Raises BrokerUnavailable, or BadOption for what no attempt will mend."""


def sourced(kind: str, server: str | None, *parts: str) -> str:
    """Return a source: what kind of broker, the name of the server if it has one, and what is read there."""
    return ":".join((kind, *(() if server is None else (server,)), *parts))


def check_server(name: object) -> None:
    """Raise BadOption unless this can be the name of a server in a source."""
    if name is not None and not (isinstance(name, str) and _SERVER.fullmatch(name)):
        raise BadOption(f"name={name!r} must be 1 to 40 letters, digits, '.', '_' and '-', as in name='eu'")


def check_addressing(how: object, option: str) -> None:
    """Raise BadOption for a text that would be sent to as it is, braces included."""
    if isinstance(how, str) and (unknown := _UNKNOWN.search(how)) is not None:
        raise BadOption(f"{option}={how!r} has {unknown[0]}, and only {{topic}} stands for something: write {{topic}}")


def addressed(how: Addressing, topic: str) -> str:
    """Return the address of a topic. Raises BadOption if a function returns none, KeyError if a mapping has none."""
    if isinstance(how, str):
        return how.replace("{topic}", topic)
    found: object = how[topic] if isinstance(how, Mapping) else how(topic)
    if not isinstance(found, str):
        raise BadOption(f"the address of topic {topic!r} must be text, and is {found!r}: correct what returns it")
    return found


def bounded(text: str, limit: int, unwanted: str = "\n") -> str:
    """Return the text; one that is longer, or has control or unwanted characters, cut and with its hash."""
    if len(text) <= limit and unwanted not in text and text.isprintable():
        return text
    shown = "".join("?" if each == unwanted or not each.isprintable() else each for each in text[: limit - 17])
    return f"{shown}-{hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:16]}"
