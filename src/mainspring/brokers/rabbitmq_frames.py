"""Frames of AMQP: what a delivered message has beside its body reaches the client as bytes, and is read here."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from pamqp.header import ContentHeader

from mainspring.brokers.contract import bounded

_METHOD, _HEADER = 1, 2
_HEAD = struct.Struct(">BHI")
_DELIVER = b"\x00\x3c\x00\x3c"
_FIXED = 12
"""Bytes of a content header before its properties."""
_HEADERS_ONLY = b"\x20\x00"
_NAME = "properties"
_LONGEST_PLACE = 60
"""Characters of an exchange or routing key that is no text: in UTF-8 they fit into 255 bytes."""


class Frames:
    """Reads for the client, and passes the properties of each delivered message as bytes in one header.

    At a property or the name of a header that is no UTF-8 text the client's reader ends, and with it the connection:
    such a message would come first on every connection, and no other would be received.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._ahead = b""
        self._left = 0
        """Bytes of the current frame that the client reads as they are."""
        self._delivering: set[int] = set()
        """The channels whose next content header is that of a delivery."""

    def at_eof(self) -> bool:
        """Whether there is nothing more to read."""
        return not self._ahead and self._reader.at_eof()

    async def readexactly(self, size: int) -> bytes:
        """Read so many bytes. Raises IncompleteReadError at the end of the connection."""
        if not self._ahead:
            if self._left:
                self._left -= size
                return await self._reader.readexactly(size)
            self._ahead = await self._begun()
        taken, self._ahead = self._ahead[:size], self._ahead[size:]
        return taken

    async def _begun(self) -> bytes:
        head = await self._reader.readexactly(_HEAD.size)
        kind, channel, size = _HEAD.unpack(head)
        if kind not in (_METHOD, _HEADER):  # a body, a heartbeat, or no AMQP at all
            self._left = size + 1
            return head
        frame = await self._reader.readexactly(size + 1)
        if frame.startswith(_DELIVER) and kind == _METHOD:
            self._delivering.add(channel)
            frame = _delivery(frame)
        elif kind == _HEADER and channel in self._delivering:
            self._delivering.discard(channel)
            frame = _wrapped(frame)
        return _HEAD.pack(kind, channel, len(frame) - 1) + frame


def properties_of(header: Any) -> tuple[Any, str | None]:
    r"""Return the properties of a delivered message, and why they cannot be read; None if they can.

    Text that is no UTF-8 then has its odd bytes as ``\xff``. Where nothing can be read, the properties have one header,
    with all their bytes.
    """
    wrapped = header.properties
    raw = bytes(wrapped.headers[_NAME])
    try:
        return _read(raw), None
    except Exception as error:  # noqa: BLE001 - whatever it holds, it blocks no other
        why = f"its AMQP properties cannot be read: {error}"
    try:
        return _read(_Lenient(raw)), why
    except Exception:  # noqa: BLE001 - the first reason is told
        return wrapped, why


class _Lenient(bytes):
    """Bytes that the client's decoder reads as text even where they are none."""

    __slots__ = ()

    def __getitem__(self, part: Any) -> Any:
        found = super().__getitem__(part)
        return _Lenient(found) if isinstance(found, bytes) else found

    def decode(self, encoding: str = "utf-8", errors: str = "backslashreplace") -> str:
        return super().decode(encoding, errors)


def _read(raw: bytes) -> Any:
    header = ContentHeader()
    header.unmarshal(type(raw)(bytes(_FIXED) + raw))
    return header.properties


def _wrapped(frame: bytes) -> bytes:
    """Return a content header with the properties as a header of bytes."""
    raw = frame[_FIXED:-1]
    name = _NAME.encode()
    table = bytes([len(name)]) + name + b"x" + struct.pack(">I", len(raw)) + raw
    return frame[:_FIXED] + _HEADERS_ONLY + struct.pack(">I", len(table)) + table + frame[-1:]


def _delivery(frame: bytes) -> bytes:
    """Return Basic.Deliver with an exchange and a routing key that are text."""
    exchange = 4 + 1 + frame[4] + 8 + 1  # after the consumer tag, the delivery tag, and whether it is redelivered
    key = exchange + 1 + frame[exchange]
    places = [frame[exchange + 1 : key], frame[key + 1 : -1]]
    try:
        b"\n".join(places).decode()
    except UnicodeDecodeError:
        texts = [each.decode(errors="backslashreplace") for each in places]
        written = [bounded(each, _LONGEST_PLACE).encode() for each in texts]
        return frame[:exchange] + b"".join(bytes([len(each)]) + each for each in written) + frame[-1:]
    return frame
