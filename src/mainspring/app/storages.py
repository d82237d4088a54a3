"""Opens the storage of a URL. No other module of the app names concrete storages."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable
from urllib.parse import parse_qs, urlsplit

from mainspring.app.config import Options
from mainspring.app.options import closest
from mainspring.model.errors import BadOption, Misuse, StorageUnavailable
from mainspring.model.roles import ROLES, Role
from mainspring.storage.contract import Storage
from mainspring.storage.operation import Clocked, Gateway
from mainspring.timing.clock import Clock

if TYPE_CHECKING:
    from mainspring.app.mainspring import Mainspring
    from mainspring.storage.memory import MemoryStorage
    from mainspring.storage.postgres import PostgresOperationSet
    from mainspring.storage.sqlite import SqliteOperationSet

Engine = Literal["sqlite", "postgresql", "memory"]
Driver = Literal["asyncpg", "psycopg"]
OperationSet: TypeAlias = "PostgresOperationSet | SqliteOperationSet"
"""Every operation of a database that has transactions."""

_URL = re.compile(r"^([A-Za-z][A-Za-z0-9]*)(?:\+([A-Za-z0-9_]+))?://(.*)$", re.DOTALL)
_ENGINES: dict[str, Engine] = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "memory": "memory",
    "fleet": "memory",
}
_DRIVERS: dict[str, Driver] = {"asyncpg": "asyncpg", "psycopg": "psycopg", "psycopg_async": "psycopg"}
_FLEET = "fleet://"
_KNOWN = "sqlite:///shop.db, sqlite:////var/lib/shop.db, postgresql://user@host/shop, memory://"


@runtime_checkable
class UrlObject(Protocol):
    """A URL as an object, as SQLAlchemy has it: ``engine.url``."""

    def render_as_string(self, hide_password: bool = True) -> str:  # noqa: FBT001, FBT002 - SQLAlchemy's own signature
        """Return it as text."""
        ...


class Enlists(Protocol):
    """Factory of operations for callers' transactions."""

    def __call__(self, gateway: Gateway | None = None, clock: Clocked | None = None) -> OperationSet:
        """Use the clock of the storage unless another is given. Without a gateway they are scripts."""
        ...


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is."""

    engine: Engine
    target: str = field(repr=False)
    """A path for SQLite, a DSN for PostgreSQL, which may hold a password."""
    driver: Driver | None = None
    """The driver that the URL names, on PostgreSQL."""

    @property
    def is_fleet(self) -> bool:
        """Whether the app has no database of its own: it leads a fleet."""
        return self.target == _FLEET

    @property
    def missing(self) -> bool:
        """Whether it is a file that does not exist."""
        return self.engine == "sqlite" and not Path(self.target).exists()

    @property
    def shown(self) -> str:
        """For display: no password, and of the parameters only the host, since others may hold one too."""
        if self.engine != "postgresql":
            return self.target
        scheme, _, rest = self.target.partition("://")
        spelled = scheme if self.driver is None else f"{scheme}+{self.driver}"
        shown, _, parameters = rest.partition("?")
        user, at, where = shown.rpartition("@")
        if not at and "@" in parameters:  # the ? may be part of the password
            return f"{spelled}://…"
        hosts = parse_qs(parameters).get("host", ())
        host = f"?host={hosts[-1]}" if hosts else ""
        return f"{spelled}://{user.partition(':')[0]}{at}{where}{host}"


def read_url(url: object) -> Address:
    """Read the URL; raise BadOption with the accepted ones. Secrets in it are never repeated."""
    if isinstance(url, UrlObject):
        url = url.render_as_string(hide_password=False)
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
        # SQLAlchemy has drivers that we lack: its URLs are accepted, with one of our drivers.
        return Address(engine, f"postgresql://{rest}", _DRIVERS.get((parts[2] or "").lower()))
    if engine == "memory":
        if rest.strip("/"):
            why = (
                "its databases are those of Fleet(app, …)"
                if scheme == "fleet"
                else "everything is gone with the process"
            )
            raise BadOption(f"{scheme}:// takes no name, not {rest!r}: {why}")
        return Address(engine, f"{scheme}://")
    return Address(engine, _sqlite_path(rest))


def own_place(address: Address, url: object) -> tuple[str | None, str]:
    """Return the app's file, None if it has none or may move, and its database as errors name it."""
    file = address.target if address.engine == "sqlite" and not callable(url) else None
    return file, f"the file {address.target!r}" if address.engine == "sqlite" else address.shown


def open_storage(
    address: Address, options: Options, dsn: Callable[[], str] | None = None, *, sparing: bool = False
) -> tuple[Storage, Enlists | None]:
    """Build the storage of this address, and the factory of operations for callers' transactions. Connects to nothing.

    On PostgreSQL ``dsn`` is called before every connection, and a ``sparing`` storage has few of them.
    """
    match address.engine:
        case "sqlite":
            from mainspring.storage.sqlite import SqliteStorage

            sqlite = SqliteStorage(address.target, prefix=options.tables, durable=options.durable)
            return sqlite, sqlite.enlisted
        case "postgresql":
            from mainspring.storage.postgres import PostgresStorage

            postgres = PostgresStorage(
                address.target,
                schema=options.tables,
                pool_size=options.pool_size,
                driver=address.driver,
                ask=dsn,
                require_tls=options.require_tls,
                sparing=sparing,
            )
            return postgres, postgres.enlisted
        case "memory":
            from mainspring.storage.memory import MemoryStorage

            return MemoryStorage(), None


def opener(
    address: Address,
    options: Options,
    storage: Storage,
    url: UrlFunction | None = None,
    *,
    sparing: bool = False,
) -> Callable[[], Storage]:
    """Return what builds a storage each time the app is opened, free of the last loop or a parent process.

    On memory all of them share the same rows. A SQLite file has one writer in a process, however often it is opened.
    A function ``url`` is called each time to get the database, of the same engine, and on PostgreSQL also before every
    connection, since credentials may change.
    """
    if url is not None:
        return _opener_by_function(address, options, storage, url)
    if address.is_fleet:
        return _no_database
    if address.engine == "memory":
        return storage.sibling
    if address.engine == "postgresql":
        return lambda: open_storage(address, options, sparing=sparing)[0]
    first = {os.getpid(): storage}

    def build() -> Storage:
        if os.getpid() not in first:
            first.clear()
            first[os.getpid()] = open_storage(address, options)[0]
        return first[os.getpid()].sibling()

    return build


def _no_database() -> Storage:
    raise Misuse(
        "this app has no database of its own, its URL is fleet://: open the fleet, `async with fleet:`, and use "
        "fleet.publish(…), fleet.worker() or fleet['acme']; or name a database, Mainspring('sqlite:///shop.db')"
    )


def _opener_by_function(
    address: Address, options: Options, storage: Storage, url: UrlFunction
) -> Callable[[], Storage]:
    openers = {address: opener(address, options, storage)}

    def address_now() -> Address:
        now = read_url(resolve_url(url))
        if now.engine != address.engine:
            raise BadOption(f"the database was {address.engine} and is now {now.engine}: an app stays with one engine")
        return now

    def build() -> Storage:
        now = address_now()
        if now.engine == "postgresql":
            return open_storage(now, options, lambda: address_now().target)[0]
        if now not in openers:
            openers[now] = opener(now, options, open_storage(now, options)[0])
        return openers[now]()

    return build


def mend_clock(address: Address, options: Options) -> timedelta:
    """Correct the clock of a file that is ahead of this host's. Return by how much it was."""
    if address.engine != "sqlite":
        raise BadOption("only a SQLite file has a clock that can be mended: set the clock of the database's host")
    from mainspring.storage.sqlite.inspection import mend

    return timedelta() if address.missing else mend(address.target, options.tables)


def hand_turned(clock: Clock) -> MemoryStorage:
    """Return a memory storage by a test's clock."""
    from mainspring.storage.memory import MemoryStorage

    return MemoryStorage(clock)


def ddl(engine: Literal["sqlite", "postgresql"], tables: str) -> str:
    """Return every table as one SQL script that ``migrate`` recognises. Connects to nothing."""
    if engine == "sqlite":
        from mainspring.storage.sqlite import SqliteStorage

        return SqliteStorage.ddl(tables)
    from mainspring.storage.postgres import PostgresStorage

    return PostgresStorage.ddl(tables)


def grants(tables: str, role: Role, to: str, owner: str | None = None) -> str:
    """Return the statements that make ``to`` a role of this kind on PostgreSQL. Connects to nothing."""
    from mainspring.storage.postgres.dialect import Names
    from mainspring.storage.postgres.roles import grants

    if role not in ROLES:
        raise BadOption(f"role={role!r} is not one of {', '.join(ROLES)}.{closest(str(role), ROLES)}")
    return "\n".join((*grants(Names(tables), role, to, owner), ""))


def statements(engine: Literal["sqlite", "postgresql"], tables: str) -> dict[str, dict[str, str]]:
    """Return every statement that is sent, by room and by name, as loaded for these tables. Connects to nothing."""
    from mainspring.storage.portable.statements import load, rooms

    if engine == "sqlite":
        from mainspring.storage.sqlite.dialect import PACKAGE, prefix

        package, named = PACKAGE, prefix(tables)
    else:
        from mainspring.storage.postgres.dialect import PACKAGE, Names

        package, named = PACKAGE, Names(tables).quoted
    return {
        room: {name: load(package, name, named) for name in texts} for room, texts in sorted(rooms(package).items())
    }


def migration_table(tables: str) -> str:
    """Return the table of applied migrations, on SQLite."""
    from mainspring.storage.sqlite.dialect import prefix

    return f"{prefix(tables)}_migration"


def caveat(address: Address) -> str | None:
    """Return a warning about the installed database engine, or None."""
    if address.engine != "sqlite":
        return None
    from mainspring.storage.sqlite import wal_reset_bug

    return wal_reset_bug()


def lent_in_place(handle: Any) -> object:
    """Return a test's handle as the app would lend it to a coroutine."""
    if not isinstance(handle, sqlite3.Connection):
        return handle
    from mainspring.storage.sqlite.lender import AsyncSqlite, InPlace

    return AsyncSqlite(InPlace(handle))


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


UrlFunction = Callable[[], str | UrlObject | Awaitable[str | UrlObject]]
_PATIENCE = 10.0


def resolve_url(url: UrlFunction) -> object:
    """Call the function; await what it returns, if needed, on a loop in a new thread."""
    answer = url()
    if not inspect.isawaitable(answer):
        return answer
    future: Future[str | UrlObject] = Future()

    async def awaited() -> str | UrlObject:
        return await answer

    def work() -> None:
        try:
            future.set_result(asyncio.run(awaited()))
        except BaseException as error:  # noqa: BLE001 - it is raised in the waiting thread
            future.set_exception(error)

    threading.Thread(target=work, name="mainspring-url", daemon=True).start()
    try:
        return future.result(_PATIENCE)
    except TimeoutError:
        raise StorageUnavailable(f"the function that gives the URL has not returned for {_PATIENCE:g} s") from None


def identity(address: Address) -> tuple[str, ...] | None:
    """Return what addresses of one database have in common: engine, server and name, or its file; None in memory."""
    if address.engine == "memory":
        return None
    if address.engine == "sqlite":
        return _essence(address)
    from mainspring.storage.postgres.address import read_address

    where = read_address(address.target)
    return address.engine, where.hosts, where.database


def is_same_database(app: Mainspring, url: str) -> bool:
    """Return False if they cannot be the same. A server has many names, so only database names are compared."""
    # The same package: no other code needs the address, which may hold a password.
    return _essence(app._own.place.address) == _essence(read_url(url))  # noqa: SLF001


def _essence(address: Address) -> tuple[str, str]:
    if address.engine == "sqlite":
        return address.engine, str(Path(address.target).resolve())
    return address.engine, urlsplit(address.target).path
