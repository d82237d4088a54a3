"""From a URL to a storage: the only file that names the concrete ones."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mainspring.app.config import Options
from mainspring.app.options import closest
from mainspring.model.errors import BadOption
from mainspring.storage.contract import Storage
from mainspring.storage.script import AsyncConnection, Connection
from mainspring.storage.sql import MailboxScripts

Engine = Literal["sqlite", "postgresql", "memory"]
Opened = tuple[Storage, MailboxScripts | None]
"""A storage nobody has opened yet, and the scripts for callers who bring their own transaction."""

_URL = re.compile(r"^([A-Za-z][A-Za-z0-9]*)(?:\+[A-Za-z0-9_]+)?://(.*)$", re.DOTALL)
_ENGINES: dict[str, Engine] = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
    "memory": "memory",
}
_KNOWN = "sqlite:///shop.db, sqlite:////var/lib/shop.db, postgresql://user@host/shop, memory://"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is."""

    engine: Engine
    target: str
    """A path for SQLite, a DSN for PostgreSQL."""

    @property
    def missing(self) -> bool:
        """Whether it is a file that does not exist."""
        return self.engine == "sqlite" and not Path(self.target).exists()

    @property
    def shown(self) -> str:
        """For people and logs: no password and no parameters, since they may hold one too."""
        if self.engine != "postgresql":
            return self.target
        scheme, _, rest = self.target.partition("?")[0].partition("://")
        who, at, where = rest.rpartition("@")
        return f"{scheme}://{who.partition(':')[0]}{at}{where}"


def read_url(url: object) -> Address:
    """Read the URL; raises BadOption saying which ones there are. Secrets in it are never repeated."""
    if not isinstance(url, str):
        raise BadOption(f"the database is given as a URL, not {type(url).__qualname__}: {_KNOWN}")
    parts = _URL.match(url.strip())
    if parts is None:
        raise BadOption(f"the database URL has no scheme: write one of {_KNOWN}")
    scheme, rest = parts[1].lower(), parts[2]
    engine = _ENGINES.get(scheme)
    if engine is None:
        raise BadOption(
            f"{scheme!r} is not a database Mainspring knows.{closest(scheme, _ENGINES)} Write one of {_KNOWN}"
        )
    if engine == "postgresql":
        # Only the driver is dropped: which one talks is not the URL's to say.
        return Address(engine, f"postgresql://{rest}")
    if engine == "memory":
        if rest.strip("/"):
            raise BadOption(f"memory:// takes no name, not {rest!r}: everything is gone with the process")
        return Address(engine, "memory://")
    return Address(engine, _sqlite_path(rest))


def open_storage(address: Address, options: Options) -> Opened:
    """Build the storage of this address. Connects to nothing."""
    return _BUILDERS[address.engine](address.target, options)


def opener(address: Address, options: Options, storage: Storage) -> Callable[[], Storage]:
    """What builds a storage for each time the app is opened: nothing is left of the last loop, or of a parent process.

    Memory is all there is of itself, so there it is another door to the same rows. A SQLite file has one writer in
    a process, whoever opens it.
    """
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


def ddl(engine: Literal["sqlite", "postgresql"], schema: str) -> str:
    """Every table as one SQL script, with what lets ``migrate`` recognise them. Connects to nothing."""
    if engine == "sqlite":
        from mainspring.storage.sqlite import SqliteStorage

        return SqliteStorage.ddl(schema)
    from mainspring.storage.postgres import PostgresStorage

    return PostgresStorage.ddl(schema)


def join_asyncpg(handle: Any) -> AsyncConnection:
    """The caller's asyncpg connection as one that runs our statements. Raises BadHandle if it would autocommit."""
    from mainspring.storage.postgres.joined import JoinedAsyncpg, refuse_autocommit

    refuse_autocommit(handle)
    return JoinedAsyncpg(handle)


def join_sqlite3(handle: Any) -> Connection:
    """The caller's sqlite3 connection as one that runs our statements. Raises BadHandle if it would autocommit."""
    from mainspring.storage.sqlite import JoinedSqlite

    return JoinedSqlite(handle)


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


def _sqlite(path: str, options: Options) -> Opened:
    from mainspring.storage.sqlite import SqliteStorage

    storage = SqliteStorage(path, prefix=options.schema, durable=options.durable)
    return storage, storage.scripts


def _postgresql(dsn: str, options: Options) -> Opened:
    from mainspring.storage.postgres import PostgresStorage

    storage = PostgresStorage(dsn, schema=options.schema, pool_size=options.pool_size)
    return storage, storage.scripts


def _memory(_: str, _options: Options) -> Opened:
    from mainspring.storage.memory import MemoryStorage

    return MemoryStorage(), None


_BUILDERS: dict[Engine, Callable[[str, Options], Opened]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "memory": _memory,
}
