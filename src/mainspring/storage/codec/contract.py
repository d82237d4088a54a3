"""What reads and writes payloads of one content type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

Read = Callable[[bytes], Any]
"""Reads a payload as one type."""

Decode = Callable[[bytes, str], Any]
"""Reads (payload, content type); raises Unreadable."""


@runtime_checkable
class Codec(Protocol):
    """Turns values into the bytes of one content type, and back.

    One object serves the whole app, from every thread. Whatever it raises is told apart from a handler's failure: at
    ``publish`` it becomes Unencodable and nothing is stored, at delivery Unreadable, and the bytes stay as they are.
    """

    @property
    def content_type(self) -> str:
        """What is stored beside the bytes and finds this codec again, as in ``application/msgpack``."""
        ...

    def encode(self, value: Any) -> bytes:
        """The payload of a value."""
        ...

    def decoder(self, annotation: Any) -> Callable[[bytes], Any]:
        """What reads payloads as this type, ``Any`` included.

        Asked once for each consumer, when it registers, so that a delivery costs a call and no reflection. Raise
        when nothing of this content type can be read as that type.
        """
        ...
