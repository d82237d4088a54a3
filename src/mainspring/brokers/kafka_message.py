"""A message of Kafka as it was received: its headers, which are bytes there, and what identifies it."""

from __future__ import annotations

from operator import methodcaller
from typing import Any

from mainspring.brokers.contract import Received, bounded

CONTENT_TYPE = "content-type"
_UNREADABLE = "the name of one of its headers is no UTF-8 text, and so none of them can be read"
_headers = methodcaller("headers")
"""The client returns headers with a hole in them for such a name, and leaves the error behind. A call from Python to
C may skip the check for that, and then the process dies; a call from C to C has it."""


def received_message(message: Any, partition: object, *, again: bool) -> Received:
    """Return a message. Its time is part of its coordinates: in a topic that is made again, offsets begin at 0."""
    headers: dict[str, str | bytes] = {}
    content_type = unreadable = None
    try:
        given = _headers(message) or ()
    except SystemError:
        given, unreadable = (), _UNREADABLE
    for name, value in given:
        if name.lower() == CONTENT_TYPE:
            content_type = None if value is None else value.decode(errors="replace")
        else:
            headers[name] = _text(value or b"")
    key, topic, offset, (_, timestamp) = message.key(), message.topic(), message.offset(), message.timestamp()
    return Received(
        message.value() or b"",
        headers,
        content_type,
        topic,
        bounded(f"{topic}/{message.partition()}/{offset}/{timestamp}", 200),
        key=None if key is None else key.decode(errors="backslashreplace"),
        redelivered=again,
        token=(partition, offset),
        unreadable=unreadable,
    )


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
