"""Every handle that ``tx=`` accepts, and what is passed instead of one by mistake.

A handle is recognised by the module and name of its class, so no library that the user lacks is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mainspring.app.storages import (
    Engine,
    django_alias,
    enlist_async_psycopg,
    enlist_async_sqlalchemy,
    enlist_async_sqlite,
    enlist_asyncpg,
    enlist_django,
    enlist_psycopg,
    enlist_sqlalchemy,
    join_sqlite3,
)
from mainspring.model.errors import BadHandle
from mainspring.storage.script import AsyncConnection, SyncConnection

Committed = Callable[[], None]
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
    join: Callable[[Any, Engine, Committed], SyncConnection | AsyncConnection]

    @property
    def library(self) -> str:
        """The module that its classes come from."""
        return next(iter(self.types))[0]


def _types(module: str, *names: str) -> Types:
    return frozenset((module, name) for name in names)


KINDS: tuple[Kind, ...] = (
    Kind(
        "asyncpg.Connection",
        "connection",
        "postgresql",
        blocking=False,
        types=_types("asyncpg", "Connection", "PoolConnectionProxy"),
        join=enlist_asyncpg,
    ),
    Kind(
        "psycopg.Connection",
        "connection",
        "postgresql",
        blocking=True,
        types=_types("psycopg", "Connection"),
        join=enlist_psycopg,
    ),
    Kind(
        "psycopg.AsyncConnection",
        "connection",
        "postgresql",
        blocking=False,
        types=_types("psycopg", "AsyncConnection"),
        join=enlist_async_psycopg,
    ),
    Kind(
        "sqlite3.Connection",
        "connection",
        "sqlite",
        blocking=True,
        types=_types("sqlite3", "Connection"),
        join=join_sqlite3,
    ),
    Kind(
        "the AsyncSqlite of ctx.tx",
        "ctx.tx",
        "sqlite",
        blocking=False,
        types=_types("mainspring", "AsyncSqlite"),
        join=enlist_async_sqlite,
    ),
    Kind(
        "a SQLAlchemy Session",
        "session",
        None,
        blocking=True,
        types=_types("sqlalchemy", "Session", "scoped_session"),
        join=enlist_sqlalchemy,
    ),
    Kind(
        "a SQLAlchemy AsyncSession",
        "session",
        None,
        blocking=False,
        types=_types("sqlalchemy", "AsyncSession", "async_scoped_session"),
        join=enlist_async_sqlalchemy,
    ),
    Kind(
        "a SQLAlchemy Connection",
        "connection",
        None,
        blocking=True,
        types=_types("sqlalchemy", "Connection"),
        join=enlist_sqlalchemy,
    ),
    Kind(
        "a SQLAlchemy AsyncConnection",
        "connection",
        None,
        blocking=False,
        types=_types("sqlalchemy", "AsyncConnection"),
        join=enlist_async_sqlalchemy,
    ),
    Kind(
        "django.db.connection",
        "connection",
        None,
        blocking=True,
        types=_types("django", "ConnectionProxy", "BaseDatabaseWrapper"),
        join=enlist_django,
    ),
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
