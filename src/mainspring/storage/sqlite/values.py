"""Values in SQLite: times, ids, lists and text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from types import UnionType
from typing import Any, get_args, get_type_hints
from uuid import UUID

import msgspec

from mainspring.model.message import Claim
from mainspring.storage.script import Row
from mainspring.timing.duration import spell

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_numbers = msgspec.json.Decoder(list[int]).decode
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode
_decode_pairs = msgspec.json.Decoder(list[tuple[str, str]]).decode


def micros(instant: datetime) -> int:
    """Microseconds since 1970, UTC."""
    return (instant - _EPOCH) // _MICROSECOND


def micros_or_none(instant: datetime | None) -> int | None:
    """The same of an instant that may be missing."""
    return None if instant is None else micros(instant)


def after(at: int, delay: timedelta) -> int:
    """The instant ``delay`` after ``at``. Refuses one that could be stored, but never read as a datetime."""
    then = at + delay // _MICROSECOND
    if then > _LAST:
        raise OverflowError(f"{spell(delay)} from now is after the year 9999")
    return then


def span(length: timedelta) -> int:
    """A length of time in microseconds, at most the time from 1970 to the last instant there is."""
    return min(length // _MICROSECOND, _LAST)


def before(at: int, age: timedelta) -> int:
    """The instant ``age`` before ``at``; the beginning of time for an age that reaches beyond it."""
    return max(at - age // _MICROSECOND, 0)


def instant(at: int) -> datetime:
    """Microseconds since 1970 as an aware datetime."""
    return _EPOCH + timedelta(0, 0, at)


def instant_or_none(at: int | None) -> datetime | None:
    """An instant that may be missing."""
    return None if at is None else _EPOCH + timedelta(0, 0, at)


def uuid_or_none(raw: bytes | None) -> UUID | None:
    """An id that may be missing."""
    return None if raw is None else UUID(bytes=raw)


def numbers(values: Iterable[int]) -> str:
    """A list of numbers for ``json_each``: one parameter however many there are."""
    return _encode(list(values)).decode()


def names(values: Iterable[str]) -> str:
    """A list of names, for ``json_each`` or to be kept."""
    return _encode(list(values)).decode()


def progress_rows(texts: Mapping[Claim, str]) -> str:
    """Progress under claims as rows for ``json_each``, which has no NUL."""
    rows = ((*claim[:2], claim.message_id.hex.upper(), str(storable(text))) for claim, text in texts.items())
    return _encode([(*claim, text.replace("\x00", "\\x00")) for *claim, text in rows]).decode()


def read_names(text: str) -> tuple[str, ...]:
    """A kept list of names."""
    return _decode_names(text)


def read_pairs(text: str) -> list[tuple[str, str]]:
    """Rows of two texts, gathered by ``json_group_array``."""
    return _decode_pairs(text)


def storable(text: str | None) -> str | None:
    """Text from errors and handlers: a NUL, at which SQLite ends it, and what has no UTF-8 form become escapes."""
    if text is None:
        return None
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class SqliteValues:
    """``Values`` on SQLite, which has numbers, text and bytes only."""

    def id(self, id: UUID) -> bytes:
        return id.bytes

    def instant(self, at: datetime | None) -> int | None:
        return micros_or_none(at)

    micros = instant

    def span(self, length: timedelta | None) -> int | None:
        return None if length is None else span(length)

    def text(self, text: str) -> str:
        return storable(text) or ""

    def needle(self, text: str) -> bytes:
        """See ``Values.needle``: text in small letters, as bytes."""
        return text.encode("utf-8", "backslashreplace").lower()

    def seqs(self, seqs: list[int]) -> str:
        """See ``Values.seqs``: a list for ``json_each``."""
        return numbers(seqs)

    def read_seqs(self, column: str) -> list[int]:
        """See ``Values.read_seqs``: a list that was gathered by ``json_group_array``."""
        return _decode_numbers(column)

    def texts(self, texts: Iterable[str]) -> str:
        """See ``Values.texts``: a list for ``json_each``, which has no NUL."""
        return names(text.replace("\x00", "\\x00") for text in texts)

    def read_texts(self, column: str) -> tuple[str, ...]:
        """See ``Values.read_texts``: a list that was gathered by ``json_group_array``."""
        return read_names(column)

    def rows(self, rows: Iterable[Sequence[Any]], width: int) -> tuple[str]:  # noqa: ARG002 - one for every dialect
        """See ``Values.rows``: a list of lists for ``json_each``."""
        return (_encode(list(rows)).decode(),)

    def read_instant(self, column: int) -> datetime:
        return instant(column)

    def read_span(self, column: int) -> timedelta:
        return timedelta(microseconds=column)

    def fields(self, kind: type, row: Row) -> list[Any]:
        """See ``Values.fields``: a value is read by the type of its field."""
        read = zip(row, _readers(kind), strict=False)
        return [value if value is None or reader is None else reader(value) for value, reader in read]


_READERS: dict[Any, Callable[[Any], Any]] = {
    UUID: lambda raw: UUID(bytes=raw),
    datetime: instant,
    timedelta: lambda length: timedelta(microseconds=length),
    bool: bool,
    tuple[str, ...]: read_names,
}


@cache
def _readers(kind: type) -> list[Callable[[Any], Any] | None]:
    """The reader of each field that is stored as something else."""
    hints = get_type_hints(kind)
    # Of ``datetime | None`` the first.
    types = (get_args(hint)[0] if isinstance(hint, UnionType) else hint for hint in hints.values())
    return [_READERS.get(each) for each in types]
