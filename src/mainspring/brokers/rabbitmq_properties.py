"""The properties and headers of a message in AMQP: how they are written, and how they are read."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from hashlib import sha256
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

import msgspec
from aiormq import spec

from mainspring.brokers.contract import Received, WireMessage
from mainspring.brokers.rabbitmq_frames import properties_of

if TYPE_CHECKING:
    from mainspring.brokers.rabbitmq import RabbitMQ

_PERSISTENT = 2
_LONGEST_SHORT = 255
"""Bytes of a property."""
_LONGEST_HEADER_NAME = 128
"""Bytes."""
_PROPERTIES_ROOM = 1024
"""Bytes for what shares a frame with the headers."""
_COUNTED = ("x-delivery-count", "x-acquired-count", "x-death", "x-first-death-", "x-last-death-")
"""Headers that the broker changes when it delivers again."""


def written_message(message: WireMessage, broker: RabbitMQ, frame_max: int) -> dict[str, Any]:
    """Return a message as the client publishes it. Raises ValueError for what AMQP cannot carry."""
    names = [_size(name) for name in message.headers]
    size = sum(names) + sum(map(_size, message.headers.values())) + 6 * len(names)
    room = (frame_max or size + _PROPERTIES_ROOM) - _PROPERTIES_ROOM
    if len(message.body) > broker.largest:
        over = f"its {len(message.body):,} bytes exceed the limit of {broker.largest:,}"
        raise ValueError(f"{over}: store it elsewhere and send a reference, or raise largest=")
    if size > room:  # the broker would close the connection, and so decide about every other
        raise ValueError(f"its headers have {size:,} bytes, and RabbitMQ takes {room:,}")
    if any(each > _LONGEST_HEADER_NAME for each in names):  # the client would cut the name
        raise ValueError(f"the name of a header has more than {_LONGEST_HEADER_NAME} bytes")
    correlation = message.correlation_id
    if correlation is not None and len(correlation.encode()) > _LONGEST_SHORT:
        correlation = None  # the property has no room for it: it is in the headers or the body
    properties = spec.Basic.Properties(
        message_id=message.id,
        correlation_id=correlation,
        content_type=message.content_type,
        delivery_mode=_PERSISTENT,
        headers=dict(message.headers),
    )
    return {
        "body": message.body,
        "exchange": broker.exchange,
        "routing_key": broker.key(message.topic),
        "properties": properties,
        "mandatory": True,
        "wait": False,
    }


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def read_message(message: Any, queue: str) -> Received:
    """Return a message as the client delivers it, from this queue."""
    properties, unreadable = properties_of(message.header)
    given = properties.headers or {}
    place = f"{message.exchange}/{message.routing_key}"
    kept = [(name, given[name]) for name in sorted(given) if not name.startswith(_COUNTED)]
    parts = [place, properties.message_id, properties.correlation_id, properties.content_type, properties.timestamp]
    hashed = repr([*parts, properties.message_type, properties.app_id, kept]).encode(errors="surrogatepass")
    # Without an id, two that are alike are two messages: a known content would be taken for a repeat, and be lost.
    hashed += b"" if properties.message_id else token_bytes(16)
    return Received(
        message.body,
        {name: _header(value) for name, value in given.items()},
        properties.content_type,
        queue,
        f"{place[:160]}/{sha256(hashed + message.body).hexdigest()[:32]}",
        properties.message_id or None,
        correlation_id=properties.correlation_id or None,
        redelivered=bool(message.redelivered),
        token=message.delivery_tag,
        unreadable=unreadable,
    )


def _header(value: Any) -> str | bytes:
    """Return text as it is, bytes as text where they are UTF-8, and other types as text, as in JSON."""
    match value:
        case str():
            return value
        case bytes() | bytearray():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return bytes(value)
        case datetime():
            return value.isoformat()
        case Decimal():
            return str(value)
        case _:
            return msgspec.json.encode(value).decode()
