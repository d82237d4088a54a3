"""How Python values are sent through psycopg: as whatever type the statement asks for.

Left to itself psycopg names a type for every value, the smallest that fits it. The same text would then be prepared
once for every mixture of types that ever comes along, and an array of small numbers would be cast for every row that
it is compared with. Without a name the server takes the type from the statement, as it does for asyncpg.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from struct import Struct
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.abc import AdaptContext, Buffer, DumperKey
from psycopg.adapt import AdaptersMap, Dumper, Loader, PyFormat
from psycopg.pq import Format

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_TIMESTAMPTZ_OID = 1184
_LONG = Struct(">q")
_INTERVAL = Struct(">qii")
_ARRAY = Struct(">iiIii")
_LENGTH = Struct(">i")
_NULL = _LENGTH.pack(-1)
_DAY = 86_400


class _Kind(NamedTuple):
    """A type whose binary form is the same wherever it may stand: not numbers, which have several sizes."""

    oid: int
    pack: Callable[[Any], bytes]


def _interval(value: timedelta) -> bytes:
    return _INTERVAL.pack(value.seconds * 1_000_000 + value.microseconds, value.days, 0)


def _timestamptz(value: datetime) -> bytes:
    since = value - _EPOCH
    return _LONG.pack((since.days * _DAY + since.seconds) * 1_000_000 + since.microseconds)


_KINDS: dict[type, _Kind] = {
    bool: _Kind(16, lambda value: b"\x01" if value else b"\x00"),
    bytes: _Kind(17, bytes),
    str: _Kind(25, str.encode),
    datetime: _Kind(_TIMESTAMPTZ_OID, _timestamptz),
    timedelta: _Kind(1186, _interval),
    UUID: _Kind(2950, attrgetter("bytes")),
}


def _kind(cls: type) -> tuple[type, _Kind] | None:
    for each in cls.__mro__:
        if each in _KINDS:
            return each, _KINDS[each]
    return None


class _Value(Dumper):
    """One value in binary form."""

    format = Format.BINARY

    def __init__(self, cls: type, context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)
        found = _kind(cls)
        assert found is not None
        self._pack = found[1].pack

    def dump(self, obj: Any) -> Buffer | None:
        return self._pack(obj)


class _Number(Dumper):
    """A number as text, which any size can be read from."""

    def dump(self, obj: int) -> Buffer | None:
        return b"%d" % obj


class _List(Dumper):
    """An array as text: of numbers, or of nothing. For any other it becomes an ``_Array``."""

    def get_key(self, obj: list[Any], format: PyFormat) -> DumperKey:  # noqa: ARG002 - psycopg's own signature
        kind = _kind_within(obj)
        return self.cls if kind is None else (self.cls, kind[0])

    def upgrade(self, obj: list[Any], format: PyFormat) -> Dumper:  # noqa: ARG002
        kind = _kind_within(obj)
        return self if kind is None else _Array(self.cls, kind[1])

    def dump(self, obj: list[int | None]) -> Buffer | None:
        return b"{%b}" % b",".join([b"NULL" if each is None else b"%d" % each for each in obj])


class _Array(Dumper):
    """An array in binary form."""

    format = Format.BINARY

    def __init__(self, cls: type, kind: _Kind) -> None:
        super().__init__(cls)
        self._kind = kind

    def dump(self, obj: list[Any]) -> Buffer | None:
        oid, pack = self._kind
        parts = [_ARRAY.pack(1, None in obj, oid, len(obj), 1)]
        for each in obj:
            if each is None:
                parts.append(_NULL)
            else:
                packed = pack(each)
                parts.append(_LENGTH.pack(len(packed)))
                parts.append(packed)
        return b"".join(parts)


def _kind_within(values: list[Any]) -> tuple[type, _Kind] | None:
    for each in values:
        if each is not None:
            return _kind(type(each))
    return None


class _Instant(Loader):
    """A timestamptz in UTC, whatever the session's own time zone is."""

    format = Format.BINARY

    def load(self, data: Buffer) -> datetime:
        return _EPOCH + timedelta(microseconds=_LONG.unpack(data)[0])


def adapters(known: AdaptersMap) -> AdaptersMap:
    """What psycopg knows, and the above."""
    ours = AdaptersMap(known)
    for cls in _KINDS:
        ours.register_dumper(cls, _Value)
    ours.register_dumper(int, _Number)
    ours.register_dumper(list, _List)
    return ours


def in_utc(adapters: AdaptersMap) -> None:
    """Read instants in UTC on a connection whose session could not be told to."""
    adapters.register_loader(_TIMESTAMPTZ_OID, _Instant)
