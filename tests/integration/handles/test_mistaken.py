"""Handles given to the wrong call, and what is near a handle and is none."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from mainspring.model.errors import Misuse
from tests.integration.handles.alchemists import ALONE, spelled
from tests.integration.handles.conftest import Shop
from tests.integration.handles.djangos import django_database
from tests.integration.handles.refusing import refused, refused_async


async def test_blocking_handles_belong_to_the_blocking_call(postgres_shop: Shop, engine: Any) -> None:
    with psycopg.connect(postgres_shop.address) as connection, Session(engine) as session:
        assert await refused_async(postgres_shop, connection) == (
            "psycopg.Connection blocks: write `app.sync.publish(…, tx=connection)`, without await, where it is used"
        )
        assert await refused_async(postgres_shop, session) == (
            "a SQLAlchemy Session blocks: write `app.sync.publish(…, tx=session)`, without await, where it is used"
        )


async def test_asyncio_handles_belong_to_the_awaited_call(postgres_shop: Shop) -> None:
    engine = create_async_engine(spelled(postgres_shop.address, "asyncpg"), **ALONE)
    async with AsyncSession(engine) as session, engine.connect() as connection:
        _ = await session.connection()
        assert refused(postgres_shop, session) == (
            "a SQLAlchemy AsyncSession is asyncio's: write `await app.publish(…, tx=session)`"
        )
        assert refused(postgres_shop, connection) == (
            "a SQLAlchemy AsyncConnection is asyncio's: write `await app.publish(…, tx=connection)`"
        )
        # The blocking side of it may be used where SQLAlchemy lends it out, and only there.
        assert "write `await app.publish(…, tx=session)` with the AsyncSession" in refused(
            postgres_shop, session.sync_session
        )
        key = uuid4().hex
        publish = postgres_shop.app.sync.publish
        await session.run_sync(lambda blocking: publish("orders.placed", {}, key=key, tx=blocking))
        await session.commit()

    assert postgres_shop.count(key) == (1, 1)
    await engine.dispose()


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda engine: engine, "an engine: write `with engine.begin() as connection:` and pass the connection"),
        (
            lambda engine: create_async_engine(engine.url),
            "an engine: write `async with engine.begin() as connection:` and pass the connection",
        ),
        (sessionmaker, "the factory of sessions: write `with Session.begin() as session:` and pass the session"),
        (
            lambda engine: async_sessionmaker(),
            "the factory of sessions: write `async with Session.begin() as session:` and pass the session",
        ),
        (
            lambda engine: engine.begin(),
            "a context manager that was not entered: write `with … as connection:` and pass the connection",
        ),
    ],
)
def test_what_makes_handles_is_none(postgres_shop: Shop, engine: Any, mistake: Callable[[Any], Any], said: str) -> None:
    assert refused(postgres_shop, mistake(engine)) == f"tx= is {said}"


def test_transactions_and_cursors_are_none(postgres_shop: Shop, sqlite_shop: Shop, engine: Any) -> None:
    with (
        Session(engine) as session,
        session.begin() as unit,
        engine.connect() as connection,
        connection.begin() as root,
    ):
        assert {refused(postgres_shop, unit), refused(postgres_shop, root)} == {
            "tx= is SQLAlchemy's transaction object: pass the session or the connection that it belongs to"
        }
    with psycopg.connect(postgres_shop.address) as plain, plain.transaction() as block, plain.cursor() as cursor:
        assert refused(postgres_shop, block) == (
            "tx= is psycopg's transaction object: pass the connection that it belongs to"
        )
        assert refused(postgres_shop, cursor) == "tx= is a cursor: pass its connection, cursor.connection"
    with closing(sqlite3.connect(sqlite_shop.address)) as connection:
        assert refused(sqlite_shop, connection.cursor()) == "tx= is a cursor: pass its connection, cursor.connection"


async def test_asyncpgs_pool_and_transaction_are_none(postgres_shop: Shop) -> None:
    async with asyncpg.create_pool(postgres_shop.address, min_size=1, max_size=1) as pool:
        of_the_pool = await refused_async(postgres_shop, pool)
        async with pool.acquire() as connection:
            of_the_block = await refused_async(postgres_shop, connection.transaction())

    assert of_the_pool == (
        "tx= is a pool: write `async with pool.acquire() as connection, connection.transaction():` and pass the "
        "connection"
    )
    assert of_the_block == "tx= is asyncpg's transaction object: pass the connection that it belongs to"


def test_what_is_near_djangos_connection_is_none(postgres_shop: Shop) -> None:
    with django_database(postgres_shop.address) as alias, connections[alias].cursor() as cursor:
        assert refused(postgres_shop, connections) == (
            "tx= is all of Django's connections: pass one, connections['default']"
        )
        assert refused(postgres_shop, transaction.atomic(using=alias)) == (
            "tx= is the atomic block: pass `django.db.connection`, or the alias"
        )
        assert refused(postgres_shop, cursor) == "tx= is a cursor: pass `django.db.connection`, or the alias"


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        ("psycopg2.extensions", "connection", "of psycopg2, which is not supported: use psycopg, version 3"),
        ("psycopg_pool.pool", "ConnectionPool", "a pool: write `with pool.connection() as connection:`"),
        ("psycopg_pool.pool_async", "AsyncConnectionPool", "a pool: write `async with pool.connection() as"),
        ("aiosqlite.core", "Connection", "an aiosqlite connection, which works through SQLAlchemy only"),
    ],
)
def test_what_is_recognised_without_being_installed(postgres_shop: Shop, module: str, name: str, said: str) -> None:
    assert refused(postgres_shop, type(name, (), {"__module__": module})()).startswith(f"tx= is {said}")


@pytest.mark.parametrize("driver", ["psycopg2", "pg8000"])
def test_other_drivers_beneath_sqlalchemy_are_refused_by_name(postgres_shop: Shop, engine: Any, driver: str) -> None:
    # As the dialect of that driver says it; the driver itself need not be there to be refused.
    engine.dialect.driver = driver

    with Session(engine) as session:
        said = refused(postgres_shop, session)

    assert said == (
        f"tx= is a SQLAlchemy handle over the driver {driver}, which Mainspring cannot use: write "
        "create_engine('postgresql+psycopg://…')"
    )


def test_a_session_with_several_databases_says_how_to_name_one(postgres_shop: Shop, engine: Any) -> None:
    class Model(DeclarativeBase):
        pass

    class Order(Model):
        __tablename__ = "orders"
        id: Mapped[int] = mapped_column(primary_key=True)

    key = uuid4().hex
    with Session(binds={Order: engine}) as session:
        assert refused(postgres_shop, session) == (
            "tx= is a session with no single database: name the one that Mainspring's tables are in, by "
            "tx=session.connection(bind_arguments={'mapper': Order})"
        )
        named = session.connection(bind_arguments={"mapper": Order})
        postgres_shop.app.sync.publish("orders.placed", {}, key=key, tx=named)
        session.commit()

    assert postgres_shop.count(key) == (1, 1)


@pytest.mark.parametrize("nothing", [7, object(), ("a", "b")])
def test_anything_else_is_answered_with_what_is_accepted(postgres_shop: Shop, nothing: object) -> None:
    said = refused(postgres_shop, nothing)

    assert said == (
        f"tx=builtins.{type(nothing).__name__} is not a supported handle: pass asyncpg.Connection, "
        "psycopg.Connection, psycopg.AsyncConnection, sqlite3.Connection, a SQLAlchemy Session, a SQLAlchemy "
        "AsyncSession, a SQLAlchemy Connection, a SQLAlchemy AsyncConnection, django.db.connection"
    )


def test_a_text_that_is_no_alias(postgres_shop: Shop) -> None:
    assert refused(postgres_shop, "nowhere").startswith(
        "tx='nowhere' is a text, and only the alias of one of Django's databases may be one, in a process where Django "
        "is set up: pass asyncpg.Connection, "
    )


def test_nothing_at_all_is_no_transaction_and_never_a_handle(postgres_shop: Shop) -> None:
    with pytest.raises(Misuse):
        postgres_shop.app.sync.cancel("orders.placed", key=7, tx=None)  # type: ignore[arg-type]
