"""Where messages are in a broker, in the words of AsyncAPI: servers, addresses and bindings. No password is in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from mainspring.app.broker.remote import Remote
from mainspring.brokers.contract import Addressing, Broker, addressed
from mainspring.brokers.kafka import Kafka
from mainspring.brokers.nats import Nats
from mainspring.brokers.rabbitmq import RabbitMQ
from mainspring.brokers.redis import RedisStreams
from mainspring.storage.patterns import is_wild, matches

_AMQP = "0.3.0"
_KAFKA = "0.5.0"
_EXCHANGES = ("topic", "direct", "fanout", "headers")
"""The types of exchanges that the binding of AMQP knows."""
_PERSISTENT = 2
_WORD = "One word of the topic."
_REST = "The rest of the topic: any number of words, with dots between them."
_BRACES = re.compile(r"[{}]")
_PORT = re.compile(r":\d+\Z")


@dataclass(frozen=True)
class Place:
    """One channel of a broker."""

    name: str
    """What it is called in a document."""
    address: str | None
    """None if it is not known before a message is sent, or cannot be written."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What stands in braces in the address, described."""
    bindings: Mapping[str, Any] = field(default_factory=dict)
    note: str | None = None


def server_of(broker: Broker) -> dict[str, str]:
    """Return the server of a broker, without user and password."""
    found = {"host": _host(broker.url), "protocol": broker.kind}
    match broker:
        case RabbitMQ():
            scheme = urlsplit(broker.url).scheme
            host = _host(broker.url, 5671 if scheme == "amqps" else 5672)
            found = {"host": host, "protocol": scheme, "pathname": _path(broker.url)}
        case Kafka():
            secure = str((broker.config or {}).get("security.protocol", "")).lower().endswith("ssl")
            found = {"host": ",".join(broker.servers), "protocol": "kafka-secure" if secure else "kafka"}
        case RedisStreams():
            found |= _redis(broker.url) | _secured(broker.url, "rediss")
        case Nats():
            found["host"] = ",".join(_host(each, 4222) for each in broker.servers)
            found |= _secured(broker.servers[0], "tls")
        case Remote():
            found |= {"pathname": _path(broker.url), "description": "The database of another Mainspring app."}
    return found


def _redis(url: str) -> dict[str, str]:
    parts = urlsplit(url)
    database = parse_qs(parts.query).get("db", ["0"])[0]
    if parts.scheme == "unix":
        return {"host": "localhost", "pathname": f"{_path(url)}?db={database}"}
    return {"host": _host(url, 6379), "pathname": parts.path if parts.path.strip("/") else f"/{database}"}


def _host(url: str, port: int | None = None) -> str:
    """Return the hosts of a URL, each with its port, and without the user before them."""
    names = urlsplit(url).netloc.rpartition("@")[2] or "localhost"
    has_ports = port is None or all(_PORT.search(each) for each in names.split(","))
    return names if has_ports else f"{names}:{port}"


def _secured(url: str, scheme: str) -> dict[str, str]:
    return {"description": "Over TLS."} if urlsplit(url).scheme == scheme else {}


def _path(url: str) -> str:
    return urlsplit(url).path.replace("{", "%7B").replace("}", "%7D") or "/"


def place(name: str, address: str, rest: str | None = None, bindings: Mapping[str, Any] | None = None) -> Place:
    """Return the place at an address. With ``rest``, the wildcard for many words, it is a pattern."""
    bindings = bindings or {}
    if _BRACES.search(address):
        return Place(name, None, {}, bindings, f"Its address is `{address}`, whose braces AsyncAPI cannot write.")
    if rest is None:
        return Place(name, address, {}, bindings)
    segments = address.split(".")
    several = segments.count("*") > 1
    parameters: dict[str, str] = {}
    for at, segment in enumerate(segments):
        if segment in ("*", rest):
            word = "rest" if segment == rest else f"word{len(parameters) + 1}" if several else "word"
            parameters[word] = _REST if segment == rest else _WORD
            segments[at] = f"{{{word}}}"
    return Place(name, ".".join(segments), parameters, bindings)


def destinations(broker: Broker, pattern: str, topics: Iterable[str]) -> Iterator[tuple[Place, list[str]]]:
    """Yield where a broker sends what matches a pattern, with the topics that are known to go there."""
    how = broker.addressing
    if isinstance(how, str):
        target = how.replace("{topic}", pattern)
        yield _sent(broker, pattern, target, is_pattern="{topic}" in how and is_wild(pattern)), sorted(topics)
        return
    # What the mapping has not is rejected when it is sent: it has no channel.
    known = topics if not isinstance(how, Mapping) else [each for each in how if matches(pattern, each)]
    found: dict[str | None, list[str]] = {}
    for topic in sorted(known):
        found.setdefault(_tried(how, topic), []).append(topic)
    if not found and not isinstance(how, Mapping):
        found[None] = []
    for address, gathered in found.items():
        yield _sent(broker, gathered[0] if gathered else pattern, address, is_pattern=False), gathered


def _tried(how: Addressing, topic: str) -> str | None:
    try:
        return addressed(how, topic)
    except Exception:  # noqa: BLE001 - a function of the application's, which may know this topic only at run time
        return None


def _sent(broker: Broker, topic: str, address: str | None, *, is_pattern: bool) -> Place:
    name = topic if address is None else address
    if isinstance(broker, RabbitMQ) and broker.exchange:
        name = f"{broker.exchange}.{name}"
    bindings = _sent_bindings(broker, None if is_pattern else address)
    if address is None:
        return Place(name, None, bindings=bindings, note="Its address is not known before a message is sent.")
    return place(name, address, "#" if is_pattern else None, bindings)


def _sent_bindings(broker: Broker, address: str | None) -> dict[str, Any]:
    if isinstance(broker, RabbitMQ):
        exchange: dict[str, Any] = {"name": broker.exchange, "vhost": _vhost(broker)}
        if not broker.exchange:
            exchange["type"] = "default"
        elif broker.declare and broker.exchange_type in _EXCHANGES:  # else another has made it, of any type
            exchange |= {"type": broker.exchange_type, "durable": True}
        return {"amqp": {"is": "routingKey", "exchange": exchange, "bindingVersion": _AMQP}}
    return _kafka_topic(broker, address) if isinstance(broker, Kafka) else {}


def _kafka_topic(broker: Kafka, topic: str | None) -> dict[str, Any]:
    given = {"topic": topic, "partitions": broker.partitions, "replicas": broker.replicas}
    known = {name: each for name, each in given.items() if each is not None}
    return {"kafka": {**known, "bindingVersion": _KAFKA}} if known else {}


def sources(broker: Broker) -> Iterator[tuple[str | None, Place]]:
    """Yield what a broker reads: the address that messages from there have, if it is one, and the place."""
    match broker:
        case RabbitMQ():
            queue: dict[str, Any] = {"name": broker.queue, "vhost": _vhost(broker)}
            queue |= {"durable": True, "exclusive": False, "autoDelete": False} if broker.declare else {}
            bindings = {"amqp": {"is": "queue", "queue": queue, "bindingVersion": _AMQP}}
            name = str(broker.queue)
            yield name, place(name, name, None, bindings)
        case Kafka():
            for each in broker.topics:
                yield each, place(each, each, None, _kafka_topic(broker, each))
        case RedisStreams():
            for each in broker.streams:
                yield each, place(each, each)
        case Nats():
            for each in broker.subjects:
                is_one = not {"*", ">"} & set(each.split("."))
                yield each if is_one else None, place(each, each, ">")
            if not broker.subjects:
                name, note = f"{broker.stream}.{broker.durable}", f"All subjects of the stream {broker.stream}."
                yield None, Place(name, None, note=note)
        case Remote():
            yield from _topics(broker)
        case _:
            name = broker.source.partition(":")[2]
            yield name, place(name, name)


def _topics(broker: Remote) -> Iterator[tuple[str | None, Place]]:
    for each in broker.topics:
        yield None if is_wild(each) else each, place(each, each, "#")
    if not broker.topics:
        yield None, Place(str(broker.group), None, note=f"What the group {broker.group} receives there.")


def sending(broker: Broker) -> dict[str, Any]:
    """Return the bindings of an operation that sends."""
    if isinstance(broker, RabbitMQ):
        return {"amqp": {"deliveryMode": _PERSISTENT, "mandatory": True, "bindingVersion": _AMQP}}
    return {}


def receiving(broker: Broker) -> dict[str, Any]:
    """Return the bindings of an operation that receives."""
    if isinstance(broker, RabbitMQ):
        return {"amqp": {"ack": True, "bindingVersion": _AMQP}}
    if isinstance(broker, Kafka):
        return {"kafka": {"groupId": {"type": "string", "enum": [broker.group_id]}, "bindingVersion": _KAFKA}}
    return {}


def keyed(broker: Broker) -> dict[str, Any]:
    """Return the bindings of a message that is sent."""
    if isinstance(broker, Kafka):
        key = {"type": "string", "description": "The key of the message, if it has one."}
        return {"kafka": {"key": key, "bindingVersion": _KAFKA}}
    return {}


def _vhost(broker: RabbitMQ) -> str:
    return unquote(urlsplit(broker.url).path[1:]) or "/"
