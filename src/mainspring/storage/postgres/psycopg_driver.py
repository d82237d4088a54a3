"""The driver psycopg: its connections, and how values are sent and read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from struct import Struct
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import psycopg
from psycopg import waiting
from psycopg.abc import AdaptContext, Buffer, DumperKey, PQGen
from psycopg.adapt import AdaptersMap, Dumper, Loader, PyFormat
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format

from mainspring.storage.postgres.driver import NAME, Connection, Ears, Refusal, SettingsRefused
from mainspring.storage.postgres.errors import unreadable

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_TIMESTAMPTZ_OID = 1184
_LONG = Struct(">q")
_INTERVAL = Struct(">qii")
_ARRAY = Struct(">iiIii")
_LENGTH = Struct(">i")
_NULL = _LENGTH.pack(-1)
_DAY = 86_400


T = TypeVar("T")
_Row = tuple[Any, ...]
# While connecting, libpq reports errors as text, without a SQLSTATE. A text that is not listed here, or not in English,
# counts as a server that is away: then it is tried again, which is wrong but does no harm.
_WORDS = (
    (re.compile(r'database ".*" does not exist|no such database'), "3D000"),
    (re.compile(r"password authentication failed|no password supplied"), "28P01"),
    (
        re.compile(r'authentication failed|pg_hba\.conf|role ".*" (does not exist|is not permitted)|no such user'),
        "28000",
    ),
    (re.compile(r"permission denied for database"), "42501"),
)


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
    """Read instants in UTC on a connection whose session cannot be set to it."""
    adapters.register_loader(_TIMESTAMPTZ_OID, _Instant)


class Wire(psycopg.AsyncConnection[_Row]):
    """psycopg's connection, without its patience.

    A wait that is cancelled ends it. psycopg would rather save the connection: it asks the server to stop, over
    another connection, and waits for ten seconds in all, on what may be a network that is down.
    """

    waits: bool = False

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:  # noqa: ASYNC109
        """Wait for what ``gen`` does on this connection."""
        limit = {} if timeout is None else {"timeout": timeout}  # psycopg before 3.3 knows no such thing
        self.waits = True
        try:
            return await waiting.wait_async(gen, self.pgconn.socket, interval=interval, **limit)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            self.pgconn.finish()
            raise
        finally:
            self.waits = False

    def terminate(self) -> None:
        """End it at once, also while a call waits on it."""
        if self.closed:
            return
        if self.waits:
            # Its number must not be free for another while the loop still watches it: the waiting call ends it.
            shut(self)
        else:
            self.pgconn.finish()


class PsycopgConnection:
    """``Connection`` over psycopg."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._socket = wire.pgconn.socket
        self._unread = select.poll()
        self._unread.register(self._socket, select.POLLIN)
        self._ears: Ears = {}
        self._lost: Callable[[], None] | None = None

    @property
    def raw(self) -> Any:
        return self._wire

    def is_closed(self) -> bool:
        """See ``Connection.is_closed``. Input on an idle connection nearly always means that it has ended."""
        wire = self._wire
        with contextlib.suppress(psycopg.OperationalError):
            while not wire.closed and self._unread.poll(0):
                wire.pgconn.consume_input()
        return wire.closed

    async def fetch(self, sql: str, /, *args: Any) -> list[_Row]:
        try:
            cursor = await self._wire.execute(sql.encode(), args, binary=True)
            return [] if cursor.rownumber is None else await cursor.fetchall()
        finally:
            self._attend()

    async def execute(self, sql: str, /) -> None:
        try:
            await self._wire.execute(sql.encode(), prepare=False)
        finally:
            self._attend()

    async def listen(self, ears: Ears, lost: Callable[[], None]) -> None:
        """See ``Connection.listen``.

        Not by psycopg's ``notifies()``, which keeps the connection to itself for as long as it listens.
        """
        self._ears, self._lost = ears, lost
        self._wire.add_notify_handler(lambda notify: ears[notify.channel](notify.payload))
        for channel in ears:
            await self.execute(f'LISTEN "{channel}"')

    def _attend(self) -> None:
        """Read notifications between statements. A statement replaces this listener while it runs."""
        if self._lost is None:
            return
        if self._wire.closed:
            self._lost()
            return
        asyncio.get_running_loop().add_reader(self._socket, self._hear)
        # Also now: what came along with the last answer will not make the socket readable again.
        while notify := self._wire.pgconn.notifies():
            self._ears[notify.relname.decode()](notify.extra.decode())

    def _hear(self) -> None:
        # First this: at its end libpq closes the socket, and its number may be another's at once.
        asyncio.get_running_loop().remove_reader(self._socket)
        with contextlib.suppress(psycopg.OperationalError):
            self._wire.pgconn.consume_input()
        self._attend()

    def major(self) -> int:
        return self._wire.info.server_version // 10_000

    def server_pid(self) -> int:
        return self._wire.info.backend_pid

    def terminate(self) -> None:
        wire = self._wire
        if wire.closed:
            return
        if self._lost is not None and not wire.waits:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._lost()
        wire.terminate()

    async def hang_up(self) -> None:
        """See ``Connection.hang_up``. libpq ends it without waiting for a reply."""
        self.terminate()


class PsycopgDriver:
    """``Driver`` over psycopg 3."""

    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self) -> None:
        self._adapters = adapters(psycopg.adapters)

    async def connect(self, dsn: str, settings: Mapping[str, str] | None, patience: float) -> Connection:
        try:
            options = conninfo_to_dict(dsn).get("options") if settings is None else with_settings(dsn, settings)
            async with asyncio.timeout(patience):
                wire = await Wire.connect(
                    dsn,
                    autocommit=True,
                    prepare_threshold=None if settings is None else 0,
                    context=self._adapters,
                    cursor_factory=psycopg.AsyncRawCursor,
                    application_name=NAME,
                    client_encoding="utf8",
                    options=options,
                )
        except (psycopg.ProgrammingError, UnicodeError):
            raise unreadable() from None
        except psycopg.OperationalError as error:
            if settings is not None and _names_one(str(error), settings):
                raise SettingsRefused from error
            raise
        if wire.info.timezone is not UTC:
            in_utc(wire.adapters)
        return PsycopgConnection(wire)

    def refusal(self, error: BaseException) -> Refusal | None:
        if not isinstance(error, psycopg.Error):
            return None
        if error.sqlstate:
            return Refusal(error.sqlstate, error.diag.source_function == "RevalidateCachedQuery")
        if isinstance(error, psycopg.OperationalError):
            text = str(error)
            return next((Refusal(state) for words, state in _WORDS if words.search(text)), None)
        if isinstance(error, psycopg.InterfaceError | psycopg.InternalError):
            return None
        return Refusal("22000")  # a value that psycopg itself would not send


def shut(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """End the conversation and leave the connection to the waiting call: libpq must not be freed while in use."""
    with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.pgconn.socket)) as same:
        same.shutdown(socket.SHUT_RDWR)


def with_settings(dsn: str, settings: Mapping[str, str]) -> str:
    """Settings as libpq takes them, after those of the URL or else of the environment."""
    first = conninfo_to_dict(dsn).get("options") or os.environ.get("PGOPTIONS", "")
    ours = ("-c {}={}".format(name, value.replace(" ", "\\ ")) for name, value in settings.items())
    return " ".join((str(first), *ours)).strip()


def _names_one(text: str, settings: Mapping[str, str]) -> bool:
    # There is no SQLSTATE, and words are translated; names of settings are not.
    return any(re.search(rf"\b{name}\b", text, re.IGNORECASE) for name in ("options", *settings))
