"""Schemas of what a route writes beside and around a payload, in each format, and of what an intake looks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainspring.brokers.wire import WireFormat

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TRACE: Schema = {
    "traceparent": {**_TEXT, "description": "The trace of the sender, as in W3C Trace Context."},
    "tracestate": _TEXT,
}
_ID: Schema = {**_TEXT, "description": "The id of the message, by which a receiver knows a repeat."}
_TIME: Schema = {**_TEXT, "format": "date-time", "description": "When it was published."}
_CORRELATION: Schema = {**_TEXT, "description": "The id of what it belongs to."}
_CAUSE: Schema = {**_TEXT, "description": "The id of the message in whose handler it was published."}


def _attributes(app: str | None) -> Schema:
    """Return the attributes of a CloudEvent; all that is required is first."""
    return {
        "specversion": {**_TEXT, "const": "1.0"},
        "id": _ID,
        "source": _TEXT if app is None else {**_TEXT, "const": app},
        "type": {**_TEXT, "description": "The topic."},
        "time": _TIME,
        "subject": {**_TEXT, "description": "The key."},
        "correlationid": _CORRELATION,
        "causationid": _CAUSE,
    }


_REQUIRED = ("specversion", "id", "source", "type", "time")


def sent_headers(how: WireFormat, app: str, prefix: str) -> Schema:
    """Return the schema of the headers that a route writes; those of the publisher are beside them, as text."""
    if how == "cloudevents":
        attributes = {f"{prefix}{name}": each for name, each in _attributes(app).items()}
        return _object(attributes | _TRACE, [f"{prefix}{name}" for name in _REQUIRED])
    if how == "masstransit":
        own = {"MessageId": _ID, "MT-MessageType": _TEXT, "MT-Host-Info": {**_TEXT, "const": app}}
        more = {"CorrelationId": _CORRELATION, "ConversationId": _CORRELATION, "InitiatorId": _CAUSE}
        return _object(own | more | _TRACE, list(own))
    if how == "cap":
        own = {"cap-msg-id": _ID, "cap-msg-name": _TEXT, "cap-msg-type": _TEXT, "cap-corr-id": _CORRELATION}
        own |= {"cap-corr-seq": _TEXT, "cap-senttime": _TIME}
        return _object(own | _TRACE, list(own))
    return _object(_TRACE)


def read_headers(prefix: str) -> Schema:
    """Return the schema of the headers that an intake looks for. None is required: senders have other conventions."""
    return _object({f"{prefix}{name}": each for name, each in _attributes(None).items()} | _TRACE)


def envelope(app: str, topic: str | None, data: Schema, *, is_json: bool | None) -> Schema:
    """Return the schema of a CloudEvent in structured mode; None: whether the payload is JSON is not known."""
    attributes = _attributes(app) | {"datacontenttype": _TEXT}
    if topic is not None:
        attributes["type"] = {**_TEXT, "const": topic}
    if is_json is not False:
        attributes["data"] = data
    if is_json is not True:
        attributes["data_base64"] = {**_TEXT, "contentEncoding": "base64"}
    required = [*_REQUIRED, "datacontenttype", *(() if is_json is None else ("data" if is_json else "data_base64",))]
    return _object(attributes, required)


def topic_header(how: WireFormat, prefix: str, topic: str) -> Mapping[str, str]:
    """Return the header that names the topic, and its value; nothing if the envelope has it."""
    return {
        "cloudevents": {f"{prefix}type": topic},
        "structured": {},
        "masstransit": {"MT-MessageType": f"urn:message:{topic}"},
        "cap": {"cap-msg-name": topic},
    }[how]


def correlation(how: WireFormat, prefix: str) -> Schema:
    """Return where the correlation id of a message is."""
    place = {
        "cloudevents": f"header#/{prefix}correlationid",
        "structured": "payload#/correlationid",
        "masstransit": "header#/CorrelationId",
        "cap": "header#/cap-corr-id",
    }[how]
    return {"location": f"$message.{place}"}


def _object(properties: Schema, required: Sequence[str] = ()) -> Schema:
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {})
