"""Intakes: what a source of a broker brings, and where it is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID, uuid5

import msgspec

from mainspring.app.broker.state import shown_intake
from mainspring.app.config import Options
from mainspring.app.consume import signature
from mainspring.app.consume.consumer import Registration
from mainspring.app.consume.context import Publishing
from mainspring.app.consume.middleware import Middleware
from mainspring.app.message.envelope import Identities
from mainspring.app.names import check_group, check_headers, check_name, check_topic
from mainspring.app.transaction.consumers import LentConnections
from mainspring.brokers.contract import Broker, Received
from mainspring.brokers.link import Link
from mainspring.brokers.wire import BadWire, read
from mainspring.model.errors import BadOption
from mainspring.model.message import Delivery, Draft, public
from mainspring.model.text import described
from mainspring.model.verdict import Bury, Failure
from mainspring.model.views import Declaration
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.intake import Feed
from mainspring.timing.backoff import MESSAGES

if TYPE_CHECKING:
    from mainspring.telemetry.spans import Spans

RECEIVED_HEADER = "mainspring-received"
"""On a message that could not be stored as it is: what the broker said of it."""
REFUSED_LIMIT = 1_000_000
"""How many bytes are kept of the body of one that is too large."""
PREFETCH = 250
_OCTETS = "application/octet-stream"
_SPACE = UUID("5f1c7b53-6a0e-4f0f-9a4e-0c0e2a1f7d11")

Store = Callable[[str, str, Mapping[str, Draft]], Awaitable[object]]
"""``Inbox.receive`` of the open storage."""


class Refused(ValueError):
    """A received message that cannot be stored as it is."""


class _Stub(msgspec.Struct, omit_defaults=True):
    """What is kept, beside its body, of a message that was refused."""

    address: str
    coordinates: str
    headers: dict[str, str]
    bytes_headers: dict[str, bytes] = {}
    message_id: str | None = None
    key: str | None = None
    correlation_id: str | None = None
    content_type: str | None = None
    size: int | None = None
    """How large the body was, where not all of it is kept."""
    unreadable: str | None = None


class Reader:
    """Turns what a source brings into drafts: for one consumer, or by topics."""

    def __init__(
        self, broker: Broker, topics: Mapping[str, str] | None, group: str | None, topic: str | None, limit: int
    ) -> None:
        self.broker: Broker = broker
        self.refused_group: str = check_group(f"intake:{broker.source}".replace("/", "."))
        """The group of the messages that cannot be stored as they are."""
        self.mapping: Mapping[str, str] | None = topics
        """Topics by address or by CloudEvents type; None if the type is the topic, or there is one topic."""
        self.group: str | None = group
        """The one group that receives what it stores; None for all of a topic."""
        self._topic = topic
        self._limit = limit
        self._identities = Identities()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of what it stores, if they are known before it is read."""
        return (self._topic,) if self._topic is not None else tuple((self.mapping or {}).values())

    def __call__(self, received: Received) -> tuple[str, Draft]:
        """Return the sender's id and the draft: of the message, or of the dead letter that it becomes."""
        try:
            return self.draft(received)
        except Refused:
            # Under a mark of its own: a corrected message with the same id is another.
            return _short_id(f"refused {received.coordinates}"), self._refused(received)

    def draft(self, received: Received) -> tuple[str, Draft]:
        """Return the sender's id and the draft. Raises Refused."""
        if len(received.body) > self._limit:
            raise Refused(f"its {len(received.body):,} bytes exceed the payload_limit of {self._limit:,}")
        if received.unreadable is not None:
            raise Refused(received.unreadable)
        try:
            found = read(received)
            topic = self._topic or self._topic_of(received.address, found.type)
            headers = check_headers(public(found.headers)) if found.headers else None
            key = None if found.key is None else check_name(found.key, "key")
            correlation = None if found.correlation_id is None else check_name(found.correlation_id, "correlation_id")
            content_type = _check_content_type(found.content_type)
        except Refused:
            raise
        except (BadWire, BadOption) as error:
            raise Refused(str(error)) from error
        except Exception as error:  # whatever it holds, it blocks no other (invariant 33)
            raise Refused(f"it cannot be read: {described(error)}") from error
        draft = Draft(
            self._identities.make(),
            topic,
            found.payload,
            content_type,
            headers or None,
            key,
            self.group,
            correlation_id=correlation,
        )
        return _short_id(found.id if found.sender is None else f"{found.sender} {found.id}"), draft

    def _topic_of(self, address: str, type: str | None) -> str:
        if self.mapping is None:
            if type is None:
                raise Refused("it names no topic: it has no CloudEvents type, and app.intake(…) has no topics for it")
            return check_topic(type)
        for name in (address, type):
            if name is not None and name in self.mapping:
                return self.mapping[name]
        named = address if type is None else f"{address}, of type {type}"
        raise Refused(f"it came from {named}, and app.intake(…) has topics for {', '.join(self.mapping)} only")

    def _refused(self, received: Received) -> Draft:
        headers = received.headers
        stub = _Stub(
            received.address,
            received.coordinates,
            {name: value for name, value in headers.items() if isinstance(value, str)},
            {name: value for name, value in headers.items() if isinstance(value, bytes)},
            received.message_id,
            received.key,
            received.correlation_id,
            received.content_type,
            len(received.body) if len(received.body) > REFUSED_LIMIT else None,
            received.unreadable,
        )
        written = msgspec.json.encode(stub).decode()
        return Draft(
            self._identities.make(),
            self.refused_group,
            received.body[:REFUSED_LIMIT],
            _OCTETS,
            {RECEIVED_HEADER: written},
            group=self.refused_group,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake(Registration):
    """A source as registered, and the group of those of its messages that could not be stored as they were.

    They are dead letters there, with their reason. One that is revived is read again: after a fix it is published.
    """

    reader: Reader
    fed: str
    """The group of its inbox marks."""
    store: Store
    prefetch: int = PREFETCH
    receives: ClassVar[str] = "what its source brings and cannot be stored as it is"

    def handler(
        self,
        app: Publishing,  # noqa: ARG002
        lending: LentConnections | None = None,  # noqa: ARG002
        outermost: tuple[Middleware, ...] = (),  # noqa: ARG002
    ) -> Handler:
        """Return what the runtime runs for refused messages."""
        return Handler(group=self.group, call=self._again, retry=self.retry, concurrency=self.concurrency)

    def declaration(self, owner: str, version: int = 0) -> Declaration:
        """Return its declaration, with where it reads from."""
        declared, broker = Registration.declaration(self, owner, version), self.reader.broker
        shown = shown_intake(broker.kind, broker.shown, broker.source, self.reader.topics)
        return replace(declared, options={**declared.options, **shown})

    @property
    def caller(self) -> str:
        """What has asked for it, for people."""
        return "app.intake(…)" if self.feeds is None else f"source= of {self.feeds}"

    @property
    def feeds(self) -> str | None:
        """The group of its consumer; None if it is read for all of a topic."""
        return self.reader.group

    def feed(self, spans: Spans | None) -> Feed:
        """Return the source as a worker reads it, with a connection of its own."""
        broker = self.reader.broker
        limit = None if self.pending_limit is None else self.pending_limit.most
        return Feed(broker.source, self.fed, Link(broker), self.reader, self.prefetch, limit, spans)

    async def _again(self, delivery: Delivery, _run: Run) -> object:
        written = (delivery.headers or {}).get(RECEIVED_HEADER, "")
        try:
            stub = msgspec.json.decode(written, type=_Stub)
        except msgspec.MsgspecError as error:
            return Bury(Failure("unreadable", f"what the broker said of it cannot be read: {error}"))
        if stub.size is not None:
            kept = f"the first {len(delivery.payload):,} are kept"
            return Bury(Failure("rejected", f"its {stub.size:,} bytes are too many to be stored: {kept}"))
        received = Received(
            delivery.payload,
            {**stub.headers, **stub.bytes_headers},
            stub.content_type,
            stub.address,
            stub.coordinates,
            stub.message_id,
            stub.key,
            stub.correlation_id,
            unreadable=stub.unreadable,
        )
        try:
            id, draft = self.reader.draft(received)
        except Refused as error:
            return Bury(Failure("rejected", str(error)))
        # With its mark: one that has come again since is not stored twice.
        await self.store(self.fed, self.reader.broker.source, {id: replace(draft, causation_id=delivery.message_id)})
        return None


def read_intake(
    broker: object, topics: object, options: Options, store: Store, fed: Registration | None = None
) -> Intake:
    """Check and return an intake: of a consumer, or by topics. Raises BadOption."""
    call = "app.intake(…)" if fed is None else f"source= of {fed.name}"
    if not isinstance(broker, Broker):
        raise BadOption(f"{call} takes a broker, as in Kafka('localhost:9092', topics=['orders']), not {broker!r}")
    if not broker.source:
        raise BadOption(f"{call}: this {type(broker).__name__}(…) names nothing to read: pass {broker.reading}")
    reader = Reader(
        broker,
        _read_topics(topics),
        None if fed is None else fed.group,
        None if fed is None else fed.topic,
        options.payload_limit,
    )
    function = _read_by(broker.source)
    return Intake(
        group=reader.refused_group,
        name=f"the intake of {broker.source}",
        function=function,
        shape=signature.read(function, None),
        decode=None,
        topics=(),
        topic=reader.refused_group,
        retry=MESSAGES,
        timeout=None,
        concurrency=1,
        keep=options.keep,
        threaded=False,
        pending_limit=None if fed is None else fed.pending_limit,
        reader=reader,
        fed=options.name if fed is None else fed.group,
        store=store,
    )


def _read_topics(topics: object) -> dict[str, str] | None:
    if topics is None:
        return None
    if not isinstance(topics, Mapping) or not topics:
        raise BadOption(f"app.intake(…, {topics!r}): pass topics by address, as in {{'orders': 'orders.placed'}}")
    return {check_name(address, "an address"): check_topic(topic) for address, topic in topics.items()}


@lru_cache(maxsize=256)  # content types repeat with each message
def _check_content_type(content_type: str) -> str:
    return check_name(content_type, "content_type")


def _short_id(id: str) -> str:
    """Return an id that an inbox mark can hold: one that is too long, or has control characters, by its hash."""
    try:
        return check_name(id, "message_id")
    except BadOption:
        return f"uuid5:{uuid5(_SPACE, id)}"


def _read_by(source: str) -> Callable[..., Any]:
    async def refused() -> None:
        raise AssertionError(f"the intake of {source} has no handler of the application's")

    return refused
