"""Messages on the wire: CloudEvents 1.0 in binary and structured mode, and the headers of MassTransit and CAP."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, NamedTuple
from uuid import UUID

import msgspec

from mainspring.brokers.contract import Received, WireMessage
from mainspring.model.message import public
from mainspring.model.text import described

WireFormat = Literal["cloudevents", "structured", "masstransit", "cap"]
"""How a message is written: CloudEvents in headers or as one JSON document, or with the headers of another library."""

FORMATS: tuple[WireFormat, ...] = ("cloudevents", "structured", "masstransit", "cap")
STRUCTURED = "application/cloudevents+json"
_JSON = "application/json"
_PREFIXES = ("ce-", "ce_", "cloudevents:", "cloudevents_")
_IDS = ("messageid", "cap-msg-id", "nservicebus.messageid")
"""Headers of other libraries that hold the id, in the order in which they are tried."""
_TRACE = ("traceparent", "tracestate")
_DATA = ("data", "data_base64")
_TO_FIELDS = frozenset({"id", "specversion", "source", "type", "time", "datacontenttype", "subject", "partitionkey"})
_CORRELATION = ("correlationid", "cap-corr-id")
_CAP_TYPE = "String"
_WRITTEN = ("specversion", "id", "source", "type", "time", "subject", "correlationid", "causationid")
"""The attributes of a CloudEvent that are written."""


class Outbound(NamedTuple):
    """A stored message that is to be sent."""

    id: UUID
    topic: str
    payload: bytes
    content_type: str
    headers: Mapping[str, str] | None
    key: str | None
    correlation_id: str | None
    causation_id: UUID | None
    published_at: datetime


class Inbound(NamedTuple):
    """A message from outside, read from its wire format."""

    id: str
    """The sender's id, or what the broker knows it by."""
    sender: str | None
    """The source of a CloudEvent: ids of two senders may be the same."""
    type: str | None
    """The sender's name for what it is: a topic of ours where that is a Mainspring app."""
    payload: bytes
    content_type: str
    headers: dict[str, str]
    key: str | None
    correlation_id: str | None


class BadWire(ValueError):
    """A received message whose headers or envelope cannot be read."""


def write(message: Outbound, app: str, how: WireFormat, prefix: str) -> WireMessage:
    """Write a message in this format; ``prefix`` is how the protocol binding of CloudEvents names its headers."""
    own = public(message.headers)
    correlation = message.correlation_id
    body, content_type = message.payload, message.content_type
    if how == "structured":
        body, content_type = _structured(message, app, own), STRUCTURED
        headers = {name: own[name] for name in _TRACE if name in own}
    else:
        written = _WRITERS[how](message, app, prefix)
        headers = {**own, **written} if own else written
    return WireMessage(str(message.id), message.topic, body, content_type, headers, message.key, correlation)


def _attributes(message: Outbound, app: str, prefix: str = "") -> dict[str, str]:
    version, id_, source, type_, time, subject, correlation, causation = _names(prefix)
    found = {
        version: "1.0",
        id_: str(message.id),
        source: app,
        type_: message.topic,
        time: _time(message.published_at),
    }
    if message.key is not None:
        found[subject] = message.key
    if message.correlation_id is not None:
        found[correlation] = message.correlation_id
    if message.causation_id is not None:
        found[causation] = str(message.causation_id)
    return found


@lru_cache(maxsize=16)
def _names(prefix: str) -> tuple[str, ...]:
    return tuple(prefix + name for name in _WRITTEN)


@lru_cache(maxsize=256)  # messages that are published together have one
def _time(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _cloudevents(message: Outbound, app: str, prefix: str) -> dict[str, str]:
    # datacontenttype is the content type of the protocol itself in binary mode.
    return _attributes(message, app, prefix)


def _structured(message: Outbound, app: str, own: Mapping[str, str]) -> bytes:
    # Extension attributes are lower-case letters and digits: other names stay out, as the specification has no place
    # for them.
    extensions = {
        name: value
        for name, value in own.items()
        if name.isalnum() and name.islower() and name.isascii() and name not in _DATA
    }
    event: dict[str, Any] = {**extensions, **_attributes(message, app), "datacontenttype": message.content_type}
    if is_json(message.content_type) and _is_document(message.payload):
        event["data"] = msgspec.Raw(message.payload)
    else:
        event["data_base64"] = base64.b64encode(message.payload).decode()
    return msgspec.json.encode(event)


def _masstransit(message: Outbound, app: str, _prefix: str) -> dict[str, str]:
    found = {"MessageId": str(message.id), "MT-MessageType": f"urn:message:{message.topic}", "MT-Host-Info": app}
    if message.correlation_id is not None:
        found["CorrelationId"] = found["ConversationId"] = message.correlation_id
    if message.causation_id is not None:
        found["InitiatorId"] = str(message.causation_id)
    return found


def _cap(message: Outbound, _app: str, _prefix: str) -> dict[str, str]:
    return {
        "cap-msg-id": str(message.id),
        "cap-msg-name": message.topic,
        "cap-msg-type": _CAP_TYPE,
        "cap-corr-id": message.correlation_id or str(message.id),
        "cap-corr-seq": "0",
        "cap-senttime": message.published_at.isoformat(),
    }


_WRITERS = {"cloudevents": _cloudevents, "masstransit": _masstransit, "cap": _cap}


def read(received: Received) -> Inbound:
    """Read a received message, in whichever format it is. Raises BadWire."""
    if _is_structured(received.content_type):
        return _read_structured(received)
    attributes, rest = _split(received.headers)
    sent_id, type_ = attributes.get("id"), attributes.get("type") or None
    id_ = sent_id or received.message_id
    correlation = attributes.pop("correlationid", None) or received.correlation_id or None
    if rest:  # they may be those of another library
        lower = {name.lower(): value for name, value in rest.items()}
        id_ = id_ or next((lower[name] for name in _IDS if lower.get(name)), None)
        if id_ is None and _is_uuid(lower.get("id")):
            id_ = lower["id"]  # Debezium's outbox router; other programs name other things so
        type_ = type_ or lower.get("cap-msg-name") or _masstransit_type(lower.get("mt-messagetype"))
        correlation = correlation or next((lower[name] for name in _CORRELATION if lower.get(name)), None)
    return Inbound(
        id_ or received.coordinates,
        attributes.get("source") if sent_id else None,
        type_,
        received.body,
        attributes.get("datacontenttype") or received.content_type or _JSON,
        rest if attributes.keys() <= _TO_FIELDS else {**rest, **_extensions(attributes)},
        attributes.get("partitionkey") or attributes.get("subject") or received.key,
        correlation,
    )


@lru_cache(maxsize=256)  # content types repeat with each message
def _is_structured(content_type: str | None) -> bool:
    return (content_type or "").partition(";")[0].strip().lower() == STRUCTURED


def _read_structured(received: Received) -> Inbound:
    headers = {name: _text(name, value) for name, value in received.headers.items()}
    try:
        event = msgspec.json.decode(received.body, type=dict[str, msgspec.Raw])
        written = {name: _attribute(value) for name, value in event.items() if name not in _DATA}
        attributes = {name: value for name, value in written.items() if value is not None}
        content_type = attributes.get("datacontenttype") or _JSON
        payload = bytes(event["data"]) if "data" in event else b""
        if "data_base64" in event:
            payload = msgspec.json.decode(event["data_base64"], type=bytes)
        elif "data" in event and not is_json(content_type):
            payload = _text_data(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadWire(f"its body is no CloudEvent, although its content type says so: {described(error)}") from error
    correlation = attributes.pop("correlationid", None) or received.correlation_id
    return Inbound(
        attributes.get("id") or received.message_id or received.coordinates,
        attributes.get("source") if attributes.get("id") else None,
        attributes.get("type"),
        payload,
        content_type,
        {**headers, **_extensions(attributes)},
        attributes.get("partitionkey") or attributes.get("subject") or received.key,
        correlation,
    )


def _attribute(value: msgspec.Raw) -> str | None:
    read = msgspec.json.decode(value)
    return read if read is None or isinstance(read, str) else msgspec.json.encode(read).decode()


def _text_data(raw: bytes) -> bytes:
    """Return data that is no JSON: it is written as a JSON string where it is text."""
    value = msgspec.json.decode(raw)
    return value.encode() if isinstance(value, str) else raw


def _text(name: str, value: str | bytes) -> str:
    try:
        return value if isinstance(value, str) else value.decode()
    except UnicodeDecodeError as error:
        raise BadWire(f"its header {name!r} is no UTF-8 text") from error


def _split(headers: Mapping[str, str | bytes]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the attributes of a CloudEvent, by their bare names, and the other headers."""
    attributes: dict[str, str] = {}
    rest: dict[str, str] = {}
    for name, value in headers.items():
        bare = _bare(name)
        text = value if isinstance(value, str) else _text(name, value)
        if bare is None:
            rest[name] = text
        else:
            attributes[bare] = text
    return attributes, rest


@lru_cache(maxsize=256)  # names repeat with each message
def _bare(name: str) -> str | None:
    """Return the name of an attribute without its prefix; None of another header."""
    lower = name.lower()
    return next((lower[len(each) :] for each in _PREFIXES if lower.startswith(each)), None)


def _extensions(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if name not in _TO_FIELDS}


def _masstransit_type(urns: str | None) -> str | None:
    first = (urns or "").partition(";")[0].strip()
    return first.removeprefix("urn:message:").replace(":", ".") or None


def _is_uuid(text: str | None) -> bool:
    try:
        return text is not None and bool(UUID(text))
    except ValueError:
        return False


def _is_document(payload: bytes) -> bool:
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def is_json(content_type: str) -> bool:
    """Return whether payloads of this content type are JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == _JSON or kind.endswith("+json")
