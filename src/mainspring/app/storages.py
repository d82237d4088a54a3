"""From a URL to a storage: the only file that names the concrete ones."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from mainspring.app.config import Options
from mainspring.app.options import closest
from mainspring.app.url_function import UrlFunction, told
from mainspring.model.errors import BadOption
from mainspring.storage.contract import Storage
from mainspring.storage.operation import Clocked, Gateway
from mainspring.storage.script import AsyncConnection, Connection
from mainspring.timing.clock import Clock

if TYPE_CHECKING:
    from mainspring.storage.memory import MemoryStorage
    from mainspring.storage.postgres.rooms import PostgresRooms
    from mainspring.storage.sqlite.rooms import SqliteRooms

Engine = Literal["sqlite", "postgresql", "memory"]
Driver = Literal["asyncpg", "psycopg"]
Rooms: TypeAlias = "PostgresRooms | SqliteRooms"
"""Every operation of a database that has transactions to join."""

_URL = re.compile(r"^([A-Za-z][A-Za-z0-9]*)(?:\+([A-Za-z0-9_]+))?://(.*)$", re.DOTALL)
_ENGINES: dict[str, Engine] = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "memory": "memory",
}
_DRIVERS: dict[str, Driver] = {"asyncpg": "asyncpg", "psycopg": "psycopg", "psycopg_async": "psycopg"}
_KNOWN = "sqlite:///shop.db, sqlite:////var/lib/shop.db, postgresql://user@host/shop, memory://"


class Joined(Protocol):
    """Makes the operations for transactions of callers."""

    def __call__(self, gateway: Gateway | None = None, clock: Clocked | None = None) -> Rooms:
        """By the clock of the storage unless another is given. Without a gateway they are only scripts."""
        ...


Opened = tuple[Storage, Joined | None]
"""A storage that is not open yet, and what makes the operations for callers that bring their own transaction."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is."""

    engine: Engine
    target: str = field(repr=False)
    """A path for SQLite, a DSN for PostgreSQL, which may hold a password."""
    driver: Driver | None = None
    """Which driver the URL asks for, on PostgreSQL."""

    @property
    def missing(self) -> bool:
        """Whether it is a file that does not exist."""
        return self.engine == "sqlite" and not Path(self.target).exists()

    @property
    def shown(self) -> str:
        """For people and logs: no password and no parameters, since they may hold one too."""
        if self.engine != "postgresql":
            return self.target
        scheme, _, rest = self.target.partition("://")
        spelled = scheme if self.driver is None else f"{scheme}+{self.driver}"
        shown, _, parameters = rest.partition("?")
        who, at, where = shown.rpartition("@")
        if not at and "@" in parameters:  # the ? may well be one of the password's
            return f"{spelled}://…"
        return f"{spelled}://{who.partition(':')[0]}{at}{where}"


def read_url(url: object) -> Address:
    """Read the URL; raises BadOption saying which ones there are. Secrets in it are never repeated."""
    if not isinstance(url, str):
        raise BadOption(f"the database is given as a URL, not {type(url).__qualname__}: {_KNOWN}")
    parts = _URL.match(url.strip())
    if parts is None:
        raise BadOption(f"the database URL has no scheme: write one of {_KNOWN}")
    scheme, rest = parts[1].lower(), parts[3]
    engine = _ENGINES.get(scheme)
    if engine is None:
        raise BadOption(
            f"{scheme!r} is not a database Mainspring knows.{closest(scheme, _ENGINES)} Write one of {_KNOWN}"
        )
    if engine == "postgresql":
        # SQLAlchemy has drivers that we have not: its URLs are good all the same, and ours to choose for.
        return Address(engine, f"postgresql://{rest}", _DRIVERS.get((parts[2] or "").lower()))
    if engine == "memory":
        if rest.strip("/"):
            raise BadOption(f"memory:// takes no name, not {rest!r}: everything is gone with the process")
        return Address(engine, "memory://")
    return Address(engine, _sqlite_path(rest))


def open_storage(address: Address, options: Options) -> Opened:
    """Build the storage of this address. Connects to nothing."""
    return _BUILDERS[address.engine](address, options)


def opener(
    address: Address, options: Options, storage: Storage, url: UrlFunction | None = None
) -> Callable[[], Storage]:
    """What builds a storage for each time the app is opened: nothing is left of the last loop, or of a parent process.

    Memory is all there is of itself, so there it is another door to the same rows. A SQLite file has one writer in
    a process, however often it is opened. Where ``url`` is a function, it is asked each time which database of its
    engine it is, and on PostgreSQL also before every connection, since credentials may change.
    """
    if url is not None:
        return _asking(address, options, storage, url)
    if address.engine == "memory":
        return storage.sibling
    if address.engine == "postgresql":
        return lambda: open_storage(address, options)[0]
    first = {os.getpid(): storage}

    def build() -> Storage:
        if os.getpid() not in first:
            first.clear()
            first[os.getpid()] = open_storage(address, options)[0]
        return first[os.getpid()].sibling()

    return build


def _asking(address: Address, options: Options, storage: Storage, url: UrlFunction) -> Callable[[], Storage]:
    openers = {address: opener(address, options, storage)}

    def ask() -> Address:
        now = read_url(told(url))
        if now.engine != address.engine:
            raise BadOption(f"the database was {address.engine} and is now {now.engine}: an app stays with one engine")
        return now

    def build() -> Storage:
        now = ask()
        if now.engine == "postgresql":
            return _postgresql(now, options, lambda: ask().target)[0]
        if now not in openers:
            openers[now] = opener(now, options, open_storage(now, options)[0])
        return openers[now]()

    return build


def mend_clock(address: Address, options: Options) -> timedelta:
    """Set the clock of a file right, where it is ahead of this host's. Returns by how much it was."""
    if address.engine != "sqlite":
        raise BadOption("only a SQLite file has a clock that can be mended: set the clock of the database's host")
    from mainspring.storage.sqlite.mending import mend

    return timedelta() if address.missing else mend(address.target, options.tables)


def hand_turned(clock: Clock) -> MemoryStorage:
    """A storage in memory, by the clock of a test."""
    from mainspring.storage.memory import MemoryStorage

    return MemoryStorage(clock)


def ddl(engine: Literal["sqlite", "postgresql"], tables: str) -> str:
    """Every table as one SQL script, with what lets ``migrate`` recognise them. Connects to nothing."""
    if engine == "sqlite":
        from mainspring.storage.sqlite import SqliteStorage

        return SqliteStorage.ddl(tables)
    from mainspring.storage.postgres import PostgresStorage

    return PostgresStorage.ddl(tables)


def migration_table(tables: str) -> str:
    """The table that says what has been applied, on SQLite."""
    from mainspring.storage.sqlite.dialect import prefix

    return f"{prefix(tables)}_migration"


def caveat(address: Address) -> str | None:
    """What there is to know about the database engine that is installed here; None when there is nothing."""
    if address.engine != "sqlite":
        return None
    from mainspring.storage.sqlite import wal_reset_bug

    return wal_reset_bug()


def join_asyncpg(handle: Any, _: Engine, _committed: Callable[[], None]) -> AsyncConnection:
    """The caller's asyncpg connection as one that runs our statements. Raises BadHandle if it would autocommit."""
    from mainspring.storage.postgres.joined import JoinedAsyncpg, refuse_autocommit

    refuse_autocommit(handle)
    return JoinedAsyncpg(handle)


def join_psycopg(handle: Any, _: Engine, _committed: Callable[[], None]) -> Connection:
    """The caller's psycopg connection; see ``join_asyncpg``."""
    from mainspring.storage.postgres.joined_psycopg import JoinedPsycopg

    return JoinedPsycopg(handle)


def join_async_psycopg(handle: Any, _: Engine, _committed: Callable[[], None]) -> AsyncConnection:
    """The caller's asyncio psycopg connection; see ``join_asyncpg``."""
    from mainspring.storage.postgres.joined_psycopg import JoinedAsyncPsycopg

    return JoinedAsyncPsycopg(handle)


def join_sqlite3(handle: Any, _: Engine, _committed: Callable[[], None]) -> Connection:
    """The caller's sqlite3 connection; see ``join_asyncpg``."""
    from mainspring.storage.sqlite import JoinedSqlite

    return JoinedSqlite(handle)


def join_async_sqlite(handle: Any, _: Engine, _committed: Callable[[], None]) -> AsyncConnection:
    """The transaction that a coroutine was lent on SQLite; see ``join_asyncpg``."""
    from mainspring.storage.sqlite.awaited import JoinedAsyncSqlite

    return JoinedAsyncSqlite(handle)


def lent_in_place(handle: Any) -> object:
    """What a coroutine is lent in a test: its handle, as it would be lent by the app."""
    if not isinstance(handle, sqlite3.Connection):
        return handle
    from mainspring.storage.sqlite.awaited import AsyncSqlite, Here

    return AsyncSqlite(Here(handle))


def join_sqlalchemy(handle: Any, engine: Engine, committed: Callable[[], None]) -> Connection:
    """The caller's SQLAlchemy session or connection; ``committed`` is called after it has committed."""
    from mainspring.storage.joined.sqlalchemy import JoinedSqlalchemy

    return JoinedSqlalchemy(handle, engine, committed)


def join_async_sqlalchemy(handle: Any, engine: Engine, committed: Callable[[], None]) -> AsyncConnection:
    """The caller's asyncio SQLAlchemy session or connection; see ``join_sqlalchemy``."""
    from mainspring.storage.joined.sqlalchemy import JoinedAsyncSqlalchemy

    return JoinedAsyncSqlalchemy(handle, engine, committed)


def join_django(handle: Any, engine: Engine, committed: Callable[[], None]) -> Connection:
    """Django's connection; see ``join_sqlalchemy``."""
    from mainspring.storage.joined.django import JoinedDjango

    return JoinedDjango(handle, engine, committed)


def django_alias(alias: str) -> object | None:
    """Django's connection of that alias, None where there is none."""
    from mainspring.storage.joined.django import by_alias

    found: object | None = by_alias(alias)
    return found


def _sqlite_path(rest: str) -> str:
    if not rest.startswith("/"):
        raise BadOption(
            f"sqlite://{rest} has two slashes: write sqlite:///{rest or 'shop.db'}, or four for an absolute path"
        )
    path = rest[1:]
    if path in ("", ":memory:") or path.startswith("file:"):
        raise BadOption("SQLite in memory cannot be shared between connections: write memory:// or name a file")
    if "?" in path:
        raise BadOption(
            f"sqlite:///{path} has parameters: SQLite is set up by Mainspring(…) options, drop them from the URL"
        )
    return path


def _sqlite(address: Address, options: Options) -> Opened:
    from mainspring.storage.sqlite import SqliteStorage

    storage = SqliteStorage(address.target, prefix=options.tables, durable=options.durable)
    return storage, storage.joined


def _postgresql(address: Address, options: Options, ask: Callable[[], str] | None = None) -> Opened:
    from mainspring.storage.postgres import PostgresStorage

    storage = PostgresStorage(
        address.target, schema=options.tables, pool_size=options.pool_size, driver=address.driver, ask=ask
    )
    return storage, storage.joined


def _memory(_: Address, _options: Options) -> Opened:
    from mainspring.storage.memory import MemoryStorage

    return MemoryStorage(), None


_BUILDERS: dict[Engine, Callable[[Address, Options], Opened]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "memory": _memory,
}
