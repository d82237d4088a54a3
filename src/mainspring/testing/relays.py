"""Brokers in a test: what routes would have sent, and messages handed in as if a broker had delivered them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec

from mainspring.app.broker.intake import Intake
from mainspring.app.broker.route import Route
from mainspring.app.consume.consumer import Registration
from mainspring.brokers.contract import SENT, Broker, BrokerConnection, Received, SendResult, WireMessage
from mainspring.model.errors import BadOption, BrokerUnavailable


@dataclass(frozen=True, slots=True)
class Relayed:
    """A message as a route has sent it; in a test it reaches no broker."""

    route: str
    """The group of the route."""
    address: str
    """Where the broker would have it: an exchange and routing key, a topic, a stream or a subject."""
    topic: str
    payload: Any
    """What its JSON says, or its bytes."""
    id: str
    headers: Mapping[str, str]
    content_type: str
    key: str | None


class RecordingBroker(Broker):
    """Takes the place of a route's broker, and confirms everything."""

    kind: ClassVar[str] = "recording"

    def __init__(self, route: Route, sent: list[Relayed]) -> None:
        self.declare: bool = False
        self._route = route
        self._sent = sent

    @property
    def url(self) -> str:
        """The address of the broker that it stands for."""
        return self._route.broker.url

    @property
    def prefix(self) -> str:
        """That of the broker that it stands for."""
        return self._route.broker.prefix

    @property
    def source(self) -> str:
        """Nothing is read from it."""
        return ""

    def address(self, topic: str) -> str:
        """Return where the broker would have it."""
        return self._route.broker.address(topic)

    async def connect(self) -> BrokerConnection:
        """Return what records."""
        return _Recording(self, self._route.group, self._sent)


class _Recording:
    closed: bool = False

    def __init__(self, broker: RecordingBroker, route: str, sent: list[Relayed]) -> None:
        self._broker = broker
        self._route = route
        self._sent = sent

    async def send(self, messages: Sequence[WireMessage], within: float) -> list[SendResult]:  # noqa: ARG002
        return [record(self._sent, self._route, self._broker.address(each.topic), each) for each in messages]

    async def receive(self, limit: int, wait: float) -> list[Received]:
        raise BrokerUnavailable(f"a route receives nothing: {limit} within {wait:g} s")

    async def ack(self, received: Sequence[Received]) -> None: ...

    async def nack(self, received: Sequence[Received]) -> None: ...

    async def lag(self) -> int | None:
        return None

    async def check(self) -> list[str]:
        return []

    async def declare(self) -> list[str]:
        return []

    async def close(self) -> None: ...


def record(sent: list[Relayed], route: str, address: str, message: WireMessage) -> SendResult:
    """Add what a route sends there, which counts as confirmed."""
    own = (message.id, message.headers, message.content_type, message.key)
    sent.append(Relayed(route, address, message.topic, _payload(message), *own))
    return SENT


def rehearsed(registration: Registration, sent: list[Relayed]) -> Registration:
    """Return it as a test runs it: a route records what it sends."""
    if not isinstance(registration, Route):
        return registration
    return replace(registration, broker=RecordingBroker(registration, sent))


def intake_of(consumers: Iterable[Registration], source: object, group: str | None) -> Intake:
    """Return the intake that is meant: by its broker, by the name of its source, or by the consumer it is read for."""
    intakes = [each for each in consumers if isinstance(each, Intake)]
    sought = source.source if isinstance(source, Broker) else source
    found = [
        each for each in intakes if sought == each.reader.broker.source or (group is not None and group == each.fed)
    ]
    if len(found) == 1:
        return found[0]
    known = ", ".join(repr(each.reader.broker.source) for each in intakes) or "none"
    raise BadOption(f"kit.receive({source!r}, …) names no source of this app: pass its broker, or one of: {known}")


def address_of(intake: Intake, given: str | None, type: str | None) -> str:
    """Return where a message was read. Raises BadOption where several places are read and the topic depends on it."""
    broker, mapping = intake.reader.broker, intake.reader.mapping
    if given is not None:
        return given
    places = sorted(each.rpartition(":")[2] for each in broker.reads)
    if len(places) > 1 and mapping is not None and type not in mapping:
        known = ", ".join(map(repr, places))
        raise BadOption(f"kit.receive({broker.source!r}, …) reads {known}: name one, as in address={places[0]!r}")
    return places[0] if len(places) == 1 else broker.source.rpartition(":")[2]


def received(
    payload: object,
    id: str | None,
    type: str | None,
    headers: Mapping[str, str] | None,
    key: str | None,
    content_type: str,
    address: str,
    broker: Broker,
    number: int,
) -> Received:
    """Return a message as a broker would deliver it."""
    try:
        body = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
    except TypeError as error:
        raise BadOption(f"kit.receive(…, {payload!r}): {error}: pass what JSON has, or bytes") from None
    named = {"id": id, "type": type, "subject": key}
    attributes = {f"{broker.prefix}{name}": value for name, value in named.items() if value is not None}
    return Received(body, {**attributes, **(headers or {})}, content_type, address, f"{address}/{number}")


def _payload(message: WireMessage) -> Any:
    if "json" not in message.content_type:
        return message.body
    try:
        return msgspec.json.decode(message.body)
    except msgspec.DecodeError:
        return message.body
