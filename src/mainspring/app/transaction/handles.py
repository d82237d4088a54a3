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
from mainspring.storage.script import AsyncConnection, SyncConnection

Committed = Callable[[], None]
Enlist = Callable[[Any, Engine, Committed], SyncConnection | AsyncConnection]
"""Adapts a handle to run our statements; the last argument is called after its commit, where that can be seen."""
Types = frozenset[tuple[str, str]]
"""(top-level module, class name), for the class or any of its bases."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of handle."""

    spelled: str
    word: str
    """The usual name of its variable."""
    engine: Engine | None
    """Its database; None if the library has several, and reports it when used."""
    blocking: bool
    types: Types
    enlist: Enlist

    @property
    def library(self) -> str:
        """The module that its classes come from."""
        return next(iter(self.types))[0]


def _types(module: str, *names: str) -> Types:
    return frozenset((module, name) for name in names)


def _asyncio(spelled: str, word: str, engine: Engine | None, enlist: Enlist, types: Types) -> Kind:
    return Kind(spelled, word, engine, blocking=False, types=types, enlist=enlist)


def _blocking(spelled: str, word: str, engine: Engine | None, enlist: Enlist, types: Types) -> Kind:
    return Kind(spelled, word, engine, blocking=True, types=types, enlist=enlist)


def _asyncpg(handle: Any, _: Engine, _committed: Committed) -> AsyncConnection:
    """Adapt the caller's asyncpg connection to run our statements. Raises BadHandle if it would autocommit."""
    from mainspring.storage.enlisted.asyncpg import EnlistedAsyncpg, refuse_autocommit

    refuse_autocommit(handle)
    return EnlistedAsyncpg(handle)


def _psycopg(handle: Any, _: Engine, _committed: Committed) -> SyncConnection:
    """Adapt a psycopg connection; see ``_asyncpg``."""
    from mainspring.storage.enlisted.psycopg import EnlistedPsycopg

    return EnlistedPsycopg(handle)


def _async_psycopg(handle: Any, _: Engine, _committed: Committed) -> AsyncConnection:
    """Adapt an asyncio psycopg connection; see ``_asyncpg``."""
    from mainspring.storage.enlisted.psycopg import EnlistedAsyncPsycopg

    return EnlistedAsyncPsycopg(handle)


def _sqlite3(handle: Any, _: Engine, _committed: Committed) -> SyncConnection:
    """Adapt a sqlite3 connection; see ``_asyncpg``."""
    from mainspring.storage.enlisted.sqlite import EnlistedSqlite

    return EnlistedSqlite(handle)


def _async_sqlite(handle: Any, _: Engine, _committed: Committed) -> AsyncConnection:
    """Adapt the transaction lent to a coroutine on SQLite; see ``_asyncpg``."""
    from mainspring.storage.enlisted.sqlite import EnlistedAsyncSqlite

    return EnlistedAsyncSqlite(handle)


def _sqlalchemy(handle: Any, engine: Engine, committed: Committed) -> SyncConnection:
    """Adapt a SQLAlchemy session or connection; ``committed`` is called after its commit."""
    from mainspring.storage.enlisted.sqlalchemy import EnlistedSqlalchemy

    return EnlistedSqlalchemy(handle, engine, committed)


def _async_sqlalchemy(handle: Any, engine: Engine, committed: Committed) -> AsyncConnection:
    """Adapt an asyncio SQLAlchemy session or connection; see ``_sqlalchemy``."""
    from mainspring.storage.enlisted.sqlalchemy import EnlistedAsyncSqlalchemy

    return EnlistedAsyncSqlalchemy(handle, engine, committed)


def _django(handle: Any, engine: Engine, committed: Committed) -> SyncConnection:
    """Adapt Django's connection; see ``_sqlalchemy``."""
    from mainspring.storage.enlisted.django import EnlistedDjango

    return EnlistedDjango(handle, engine, committed)


def django_alias(alias: str) -> object | None:
    """Return Django's connection of that alias, or None."""
    from mainspring.storage.enlisted.django import by_alias

    found: object | None = by_alias(alias)
    return found


_ASYNCPG = _types("asyncpg", "Connection", "PoolConnectionProxy")
_SESSION = _types("sqlalchemy", "Session", "scoped_session")
_ASYNC_SESSION = _types("sqlalchemy", "AsyncSession", "async_scoped_session")
_DJANGO = _types("django", "ConnectionProxy", "BaseDatabaseWrapper")

KINDS: tuple[Kind, ...] = (
    _asyncio("asyncpg.Connection", "connection", "postgresql", _asyncpg, _ASYNCPG),
    _blocking("psycopg.Connection", "connection", "postgresql", _psycopg, _types("psycopg", "Connection")),
    _asyncio(
        "psycopg.AsyncConnection", "connection", "postgresql", _async_psycopg, _types("psycopg", "AsyncConnection")
    ),
    _blocking("sqlite3.Connection", "connection", "sqlite", _sqlite3, _types("sqlite3", "Connection")),
    _asyncio("the AsyncSqlite of ctx.tx", "ctx.tx", "sqlite", _async_sqlite, _types("mainspring", "AsyncSqlite")),
    _blocking("a SQLAlchemy Session", "session", None, _sqlalchemy, _SESSION),
    _asyncio("a SQLAlchemy AsyncSession", "session", None, _async_sqlalchemy, _ASYNC_SESSION),
    _blocking("a SQLAlchemy Connection", "connection", None, _sqlalchemy, _types("sqlalchemy", "Connection")),
    _asyncio(
        "a SQLAlchemy AsyncConnection",
        "connection",
        None,
        _async_sqlalchemy,
        _types("sqlalchemy", "AsyncConnection"),
    ),
    _blocking("django.db.connection", "connection", None, _django, _DJANGO),
)
"""Every kind. Another driver is another entry here and one small adapter."""

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
        if kind.types & classes:
            return kind
    for types, what in MISTAKEN:
        if types & classes:
            raise BadHandle(f"tx= is {what}")
    raise BadHandle(f"tx={type_.__module__}.{type_.__qualname__} is not a supported handle: pass {_accepted()}")


def _accepted() -> str:
    return ", ".join(kind.spelled for kind in KINDS if kind.library != "mainspring")  # users do not make ours
