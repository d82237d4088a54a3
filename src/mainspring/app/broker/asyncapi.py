"""The AsyncAPI 3.0 document of an app: what it sends to brokers, reads from them, and handles inside.

What stays inside, the topics that consumers and queues take and message types that no route sends, is in the document
too: another team learns what there is to ask for. Its channels are on a server of their own, the app's database, since
a channel without a server counts as one of every server. The address of the database is left out: it concerns no other
service, and would differ from one environment to the next.

A message that is sent to a consumer alone, as occurrences of schedules are, has no topic and no channel.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from mainspring.app.broker import headers
from mainspring.app.broker.intake import Intake, Reader
from mainspring.app.broker.places import Place, destinations, keyed, place, receiving, sending, server_of, sources
from mainspring.app.broker.route import Route
from mainspring.app.consume.consumer import Registration
from mainspring.app.consume.consumers import Consumers
from mainspring.brokers.contract import Broker
from mainspring.brokers.wire import STRUCTURED, WireFormat, is_json
from mainspring.storage.codec import JSON, spelled
from mainspring.storage.codec.schemas import PayloadSchemas, Schema, free
from mainspring.storage.patterns import is_wild, matches

VERSION: Final = "3.0.0"
_DATABASE: Final = "database"
_INSIDE: Final = "The database of the app: what is published here stays inside."


class Document:
    """Builds the document from what the code has registered. Connects to nothing."""

    def __init__(self, consumers: Consumers) -> None:
        self._app = consumers.options.name
        self._version = consumers.options.version
        self._catalogue = consumers.catalogue
        self._registered = sorted(consumers, key=lambda each: (not isinstance(each, Route), each.group))
        self._queues = sorted(consumers.queues.declarations, key=lambda each: each.group)
        self._taken = self._heard()
        found = {*self._catalogue.registered, *self._taken, *self._routed()}
        self._topics = sorted(each for each in found if not is_wild(each))
        annotations = [each.kind for each in self._catalogue.registered.values()]
        self._schemas = PayloadSchemas([*annotations, *(kind for each in self._taken.values() for kind in each)])
        self._headers: dict[tuple[str, str], Schema] = {}
        self._servers: dict[str, Schema] = {}
        self._channels: dict[str, Schema] = {}
        self._operations: dict[str, Schema] = {}
        self._described: set[str] = set()

    def build(self) -> dict[str, Any]:
        """Return the document; what has names is sorted by them."""
        for each in self._registered:
            if isinstance(each, Route):
                self._add_route(each)
            elif isinstance(each, Intake):
                self._add_intake(each)
        self._add_inside()
        found: dict[str, Any] = {"asyncapi": VERSION, "info": {"title": self._app, "version": str(self._version)}}
        parts = {"servers": self._servers, "channels": self._channels, "operations": self._operations}
        found |= {name: _by_name(part) for name, part in parts.items() if part}
        if self._schemas.components:
            found["components"] = {"schemas": _by_name(self._schemas.components)}
        plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))  # defaults of fields are any values
        return plain

    # --- what there is -------------------------------------------------------------------------------------

    def _own(self) -> Iterator[Registration]:
        """Yield the consumers that take what is published here."""
        fed = {each.feeds for each in self._registered}
        for each in self._registered:
            if not isinstance(each, Route | Intake) and each.group not in fed:
                yield each

    def _heard(self) -> dict[str, list[Any]]:
        """Return the topics and patterns that have no message type, with the types that their consumers take."""
        found: dict[str, list[Any]] = {}
        for each in self._registered:
            if isinstance(each, Route | Intake):
                continue
            for topic in each.topics:
                if topic not in self._catalogue.registered:
                    kinds = [taken.annotation for taken in self._catalogue.of_group.get(each.group, ())]
                    known = found.setdefault(topic, [])
                    known += [kind for kind in kinds if kind not in known]
        return found

    def _routed(self) -> Iterator[str]:
        """Yield the topics and patterns of routes and intakes."""
        for each in self._registered:
            if isinstance(each, Route):
                yield from each.topics
            elif isinstance(each, Intake):
                yield from each.reader.topics

    def _matching(self, pattern: str) -> list[str]:
        return [each for each in self._topics if matches(pattern, each)]

    # --- out and in ----------------------------------------------------------------------------------------

    def _add_route(self, route: Route) -> None:
        broker = route.broker
        server = self._server(server_of(broker), broker.kind)
        for pattern in sorted(route.topics):
            for target, topics in destinations(broker, pattern, self._matching(pattern)):
                messages = [self._sent(each, route) for each in topics] or [self._sent(pattern, route)]
                operation = {
                    "action": "send",
                    "title": route.group,
                    "tags": [{"name": "route"}],
                    "bindings": sending(broker),
                }
                channel = self._channel(server, target)
                self._operate(operation, f"send.{channel}", channel, messages)

    def _add_intake(self, intake: Intake) -> None:
        broker = intake.reader.broker
        server = self._server(server_of(broker), broker.kind)
        fed = next((_told(each.function) for each in self._registered if each.group == intake.feeds), {})
        for address, source in sources(broker):
            messages = [self._received(each, broker) for each in self._brought(intake.reader, address)]
            operation = {
                "action": "receive",
                "title": broker.source,
                "tags": [{"name": "intake"}],
                "bindings": receiving(broker),
                **fed,
            }
            channel = self._channel(server, source)
            self._operate(operation, f"receive.{channel}", channel, messages)

    def _brought(self, reader: Reader, address: str | None) -> list[str]:
        """Return the topics of what an intake stores from an address."""
        if reader.mapping is not None:
            named = reader.mapping.get(address or "")
            return sorted({*reader.mapping.values()}) if named is None else [named]
        if reader.topics:
            return list(reader.topics)
        patterns = {topic for each in self._own() for topic in each.topics}
        return [each for each in self._topics if any(matches(pattern, each) for pattern in patterns)]

    # --- inside --------------------------------------------------------------------------------------------

    def _add_inside(self) -> None:
        for each in self._own():
            self._add_taker("consumer", each.group, each.topics, _told(each.function))
        for queue in self._queues:
            self._add_taker("queue", queue.group, queue.patterns, {})
        for topic in sorted(self._catalogue.registered):
            if topic not in self._described:
                self._refer(*self._inside(topic))

    def _add_taker(self, kind: str, group: str, patterns: Sequence[str], about: Mapping[str, str]) -> None:
        for pattern in sorted(patterns):
            operation = {"action": "receive", "title": group, "tags": [{"name": kind}], **about}
            name = f"receive.{group}" if len(patterns) == 1 else f"receive.{group}.{pattern}"
            self._operate(operation, name, *self._inside(pattern))

    def _inside(self, pattern: str) -> tuple[str, list[Schema]]:
        own = {"host": _key(self._app), "protocol": "mainspring", "description": _INSIDE}
        channel = self._channel(self._server(own, _DATABASE), place(pattern, pattern, "#"))
        return channel, [self._message(each) for each in self._matching(pattern) or [pattern]]

    # --- parts ---------------------------------------------------------------------------------------------

    def _server(self, server: Schema, kind: str) -> str:
        return _entered(self._servers, kind, server)

    def _channel(self, server: str, where: Place) -> str:
        channel: Schema = {"address": where.address, "servers": [{"$ref": f"#/servers/{server}"}]}
        if where.note is not None:
            channel["description"] = where.note
        if where.parameters:
            channel["parameters"] = {name: {"description": text} for name, text in where.parameters.items()}
        if where.bindings:
            channel["bindings"] = dict(where.bindings)
        wanted = _key(f"{server}.{where.name}")
        for name, known in self._channels.items():
            if {**known, "messages": None} == {**channel, "messages": None}:
                return name
        name = free(wanted, self._channels)
        self._channels[name] = {**channel, "messages": {}}
        return name

    def _operate(self, operation: Schema, name: str, channel: str, messages: Sequence[Schema]) -> None:
        found = {key: value for key, value in operation.items() if value}
        found["channel"] = {"$ref": f"#/channels/{channel}"}
        found["messages"] = self._refer(channel, messages)
        self._operations[free(_key(name), self._operations)] = found

    def _refer(self, channel: str, messages: Iterable[Schema]) -> list[Schema]:
        """Put messages into a channel, and return references to them."""
        known = self._channels[channel]["messages"]
        names = [_entered(known, _key(each["name"]), each) for each in messages]
        return [{"$ref": f"#/channels/{channel}/messages/{name}"} for name in names]

    def _message(self, topic: str) -> Schema:
        """Return a message as it is published here."""
        self._described.add(topic)
        found: Schema = {"name": topic}
        known = self._catalogue.registered.get(topic)
        kinds = [known.kind] if known is not None else self._taken.get(topic, [])
        if known is not None:
            found |= {"title": known.versions.name, "contentType": known.versions.content_type, **_told(known.kind)}
        elif kinds:
            found |= {"title": " & ".join(map(spelled, kinds)), "contentType": JSON}
        return {**found, "payload": self._payload(topic, kinds)}

    def _payload(self, topic: str, kinds: Sequence[Any]) -> Schema:
        found = [schema for each in kinds if (schema := self._schemas.of(each))]
        if len(found) > 1:  # each of its consumers must be able to read it
            return {"allOf": found}
        return found[0] if found else {"title": spelled(kinds[0]) if kinds else topic}

    def _sent(self, topic: str, route: Route) -> Schema:
        message, how, prefix = self._message(topic), route.format, route.broker.prefix
        exact = None if is_wild(topic) else topic
        if how == "structured":
            media = message.get("contentType")
            carries_json = None if media is None else is_json(media)
            message["payload"] = headers.envelope(self._app, exact, message["payload"], is_json=carries_json)
            message["contentType"] = STRUCTURED
        message["headers"] = self._header_schema(how, prefix, exact)
        message["correlationId"] = headers.correlation(how, prefix)
        bindings = keyed(route.broker)
        return {**message, "bindings": bindings} if bindings else message

    def _received(self, topic: str, broker: Broker) -> Schema:
        message = self._message(topic)
        message["headers"] = self._shared("received", broker.prefix, headers.read_headers(broker.prefix))
        message["correlationId"] = headers.correlation("cloudevents", broker.prefix)
        return message

    def _header_schema(self, how: WireFormat, prefix: str, topic: str | None) -> Schema:
        shared = self._shared(how, prefix, headers.sent_headers(how, self._app, prefix))
        named = {} if topic is None else headers.topic_header(how, prefix, topic)
        if not named:
            return shared
        own = {name: {"const": value} for name, value in named.items()}
        return {"type": "object", "allOf": [shared, {"properties": own}]}

    def _shared(self, how: str, prefix: str, schema: Schema) -> Schema:
        """Return a reference to a schema of headers, which is in the document once."""
        if (how, prefix) not in self._headers:
            name = f"headers.{how}.{prefix}" if how in ("cloudevents", "received") else f"headers.{how}"
            self._headers[how, prefix] = self._schemas.name(name, schema)
        return self._headers[how, prefix]


def _entered(known: dict[str, Schema], wanted: str, value: Schema) -> str:
    """Enter a value under this name, or one like it, unless it is there; return the name."""
    for name, each in known.items():
        if each == value:
            return name
    name = free(wanted, known)
    known[name] = value
    return name


def _key(text: str) -> str:
    """Return text as a name that needs no escape in a reference."""
    text = text.replace("*", "word").replace("#", "rest").replace(">", "rest")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-")


def _told(thing: Any) -> dict[str, str]:
    """Return the summary and description that a type or handler gives of itself, in its docstring."""
    # Of a class only its own: a base's is about the base, and @dataclass makes one of the fields.
    written = vars(thing).get("__doc__") if inspect.isclass(thing) else getattr(inspect.unwrap(thing), "__doc__", None)
    if not written or getattr(thing, "__module__", "builtins") in ("builtins", "typing"):
        return {}
    if inspect.isclass(thing) and written.startswith(f"{thing.__name__}("):
        return {}
    text = inspect.cleandoc(written)
    first, _, rest = text.partition("\n")
    return {"summary": first} | ({"description": text} if rest else {})


def _by_name(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: part[name] for name in sorted(part)}
