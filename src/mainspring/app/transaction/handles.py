"""Every handle that ``tx=`` accepts, and what is passed instead of one by mistake.

A handle is recognised by the module and name of its class, so no library that the user lacks is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mainspring.app.storages import Engine
from mainspring.model.errors import BadHandle
from mainspring.storage.enlisted.errors import OwnFile
from mainspring.storage.script import AsyncConnection, SyncConnection

Committed = Callable[[], None]
"""Called after the handle's commit, if the library reports commits."""
Types = frozenset[tuple[str, str]]
"""(top-level module, class name), for the class or any of its bases."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of handle: classes of one library."""

    spelled: str
    word: str
    """The usual name of its variable."""
    engine: Engine | None
    """Its database; None if the library has several, and reports it when used."""
    library: str
    classes: tuple[str, ...]
    blocking: bool

    def enlist(
        self, handle: Any, engine: Engine, committed: Committed, file: OwnFile | None = None
    ) -> SyncConnection | AsyncConnection:
        """Adapt a handle to run our statements. Raises BadHandle if it would autocommit, or has another SQLite file."""
        match self.library, self.blocking:
            case "asyncpg", _:
                from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg, refuse_autocommit

                refuse_autocommit(handle)
                return EnlistedAsyncpg(handle)
            case "psycopg", blocking:
                from mainspring.storage.enlisted.psycopg import EnlistedAsyncPsycopg, EnlistedPsycopg

                return EnlistedPsycopg(handle) if blocking else EnlistedAsyncPsycopg(handle)
            case "sqlalchemy", blocking:
                from mainspring.storage.enlisted.sqlalchemy import EnlistedAsyncSqlalchemy, EnlistedSqlalchemy

                adapter = EnlistedSqlalchemy if blocking else EnlistedAsyncSqlalchemy
                return adapter(handle, engine, committed, file)
            case "django", _:
                from mainspring.storage.enlisted.django import EnlistedDjango

                return EnlistedDjango(handle, engine, committed, file)
            case _, blocking:
                from mainspring.storage.enlisted.sqlite import EnlistedAsyncSqlite, EnlistedSqlite

                return EnlistedSqlite(handle, file) if blocking else EnlistedAsyncSqlite(handle)


def django_alias(alias: str) -> object | None:
    """Return Django's connection of that alias, or None."""
    from mainspring.storage.enlisted.django import by_alias

    found: object | None = by_alias(alias)
    return found


def _types(module: str, *names: str) -> Types:
    return frozenset((module, name) for name in names)


KINDS: tuple[Kind, ...] = (
    Kind(
        "asyncpg.Connection",
        "connection",
        "postgresql",
        "asyncpg",
        ("Connection", "PoolConnectionProxy"),
        blocking=False,
    ),
    Kind("psycopg.Connection", "connection", "postgresql", "psycopg", ("Connection",), blocking=True),
    Kind("psycopg.AsyncConnection", "connection", "postgresql", "psycopg", ("AsyncConnection",), blocking=False),
    Kind("sqlite3.Connection", "connection", "sqlite", "sqlite3", ("Connection",), blocking=True),
    Kind("the AsyncSqlite of ctx.tx", "ctx.tx", "sqlite", "mainspring", ("AsyncSqlite",), blocking=False),
    Kind("a SQLAlchemy Session", "session", None, "sqlalchemy", ("Session", "scoped_session"), blocking=True),
    Kind(
        "a SQLAlchemy AsyncSession",
        "session",
        None,
        "sqlalchemy",
        ("AsyncSession", "async_scoped_session"),
        blocking=False,
    ),
    Kind("a SQLAlchemy Connection", "connection", None, "sqlalchemy", ("Connection",), blocking=True),
    Kind("a SQLAlchemy AsyncConnection", "connection", None, "sqlalchemy", ("AsyncConnection",), blocking=False),
    Kind(
        "django.db.connection", "connection", None, "django", ("ConnectionProxy", "BaseDatabaseWrapper"), blocking=True
    ),
)
"""Every kind. Another driver is another entry here, a case of ``enlist`` and one small adapter."""

MISTAKEN: tuple[tuple[Types, str], ...] = (
    (_types("sqlalchemy", "Engine"), "an engine: write `with engine.begin() as connection:` and pass the connection"),
    (
        _types("sqlalchemy", "AsyncEngine"),
        "an engine: write `async with engine.begin() as connection:` and pass the connection",
    ),
    (
        _types("sqlalchemy", "sessionmaker"),
        "the factory of sessions: write `with Session.begin() as session:` and pass the session",
    ),
    (
        _types("sqlalchemy", "async_sessionmaker"),
        "the factory of sessions: write `async with Session.begin() as session:` and pass the session",
    ),
    (
        _types("sqlalchemy", "Transaction", "SessionTransaction", "AsyncTransaction", "AsyncSessionTransaction"),
        "SQLAlchemy's transaction object: pass the session or the connection that it belongs to",
    ),
    (
        _types("asyncpg", "Pool"),
        "a pool: write `async with pool.acquire() as connection, connection.transaction():` and pass the connection",
    ),
    (_types("asyncpg", "Transaction"), "asyncpg's transaction object: pass the connection that it belongs to"),
    (
        _types("psycopg_pool", "ConnectionPool", "NullConnectionPool"),
        "a pool: write `with pool.connection() as connection:` and pass the connection",
    ),
    (
        _types("psycopg_pool", "AsyncConnectionPool", "AsyncNullConnectionPool"),
        "a pool: write `async with pool.connection() as connection:` and pass the connection",
    ),
    (_types("psycopg", "BaseTransaction"), "psycopg's transaction object: pass the connection that it belongs to"),
    (_types("psycopg", "BaseCursor"), "a cursor: pass its connection, cursor.connection"),
    (_types("sqlite3", "Cursor"), "a cursor: pass its connection, cursor.connection"),
    (_types("django", "CursorWrapper"), "a cursor: pass `django.db.connection`, or the alias"),
    (_types("django", "BaseConnectionHandler"), "all of Django's connections: pass one, connections['default']"),
    (_types("django", "Atomic"), "the atomic block: pass `django.db.connection`, or the alias"),
    (
        _types("psycopg2", "connection", "cursor"),
        "of psycopg2, which is not supported: use psycopg, version 3, alone or beneath SQLAlchemy or Django",
    ),
    (
        _types("aiosqlite", "Connection"),
        "an aiosqlite connection, which works through SQLAlchemy only: pass an AsyncSession on sqlite+aiosqlite:///…",
    ),
    (
        _types("contextlib", "_GeneratorContextManager", "_AsyncGeneratorContextManager"),
        "a context manager that was not entered: write `with … as connection:` and pass the connection",
    ),
)
"""Objects mistaken for a handle, and what to pass instead."""


def recognise(handle: object) -> tuple[Kind, object]:
    """Return the kind of this handle, and the handle itself if an alias names it. Raises BadHandle for others."""
    if isinstance(handle, str):
        named = django_alias(handle)
        if named is None:
            raise BadHandle(
                f"tx={handle!r} is a text, and only the alias of one of Django's databases may be one, in a process "
                f"where Django is set up: pass {_accepted()}"
                if handle.isidentifier()
                else f"tx= is a text: pass the connection or session itself, {_accepted()}"
            )
        handle = named
    made_of: Any = type(handle)
    return _kind(made_of), handle


@lru_cache(maxsize=64)
def _kind(type_: type) -> Kind:
    classes = {(each.__module__.partition(".")[0], each.__name__) for each in type_.__mro__}
    for kind in KINDS:
        if _types(kind.library, *kind.classes) & classes:
            return kind
    for types, what in MISTAKEN:
        if types & classes:
            raise BadHandle(f"tx= is {what}")
    raise BadHandle(f"tx={type_.__module__}.{type_.__qualname__} is not a supported handle: pass {_accepted()}")


def _accepted() -> str:
    return ", ".join(kind.spelled for kind in KINDS if kind.library != "mainspring")  # users do not make ours
