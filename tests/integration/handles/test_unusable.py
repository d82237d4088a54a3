"""Closed handles, and those in a transaction that has failed."""

import contextlib
from contextlib import closing
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from django.db import connections, transaction
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tests.integration.handles.alchemists import ALONE, spelled
from tests.integration.handles.conftest import Shop
from tests.integration.handles.djangos import django_database
from tests.integration.handles.refusing import refused, refused_async


def test_closed_connections(postgres_shop: Shop, engine: Any) -> None:
    connection = psycopg.connect(postgres_shop.address)
    connection.close()
    with engine.connect() as core:
        pass

    assert refused(postgres_shop, connection) == (
        "tx= is a psycopg connection that is closed, or back in its pool: publish before you let go of it"
    )
    assert refused(postgres_shop, core) == (
        "tx= is a SQLAlchemy connection that is closed, or back in its pool: publish before you let go of it"
    )


def test_a_session_that_may_not_be_used_again(postgres_shop: Shop, engine: Any) -> None:
    session = Session(engine, close_resets_only=False)
    session.close()

    assert "cannot be used now: This Session has been permanently closed" in refused(postgres_shop, session)


async def test_a_connection_that_was_never_opened(postgres_shop: Shop) -> None:
    engine = create_async_engine(spelled(postgres_shop.address, "asyncpg"), **ALONE)

    assert "not connected yet: write `async with engine.begin()" in await refused_async(postgres_shop, engine.connect())


def test_djangos_connection_closed_within_atomic(postgres_shop: Shop) -> None:
    with django_database(postgres_shop.address) as alias, transaction.atomic(using=alias):
        connections[alias].close()
        said = refused(postgres_shop, alias)

    assert said.startswith(f"tx= is Django's connection '{alias}' that is closed")


FAILED = "in a transaction that has failed: an earlier statement raised"


def test_psycopg_in_a_failed_transaction(postgres_shop: Shop) -> None:
    with closing(psycopg.connect(postgres_shop.address)) as connection:
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 1/0")
        said = refused(postgres_shop, connection)

    assert said == (
        "tx= is in a transaction that has failed: an earlier statement raised, and nothing more can be stored in it. "
        "Roll back first, to a savepoint or altogether, then publish"
    )


async def test_asyncpg_in_a_failed_transaction(postgres_shop: Shop) -> None:
    connection = await asyncpg.connect(postgres_shop.address)
    await connection.execute("BEGIN")
    with pytest.raises(asyncpg.DivisionByZeroError):
        await connection.execute("SELECT 1/0")

    assert FAILED in await refused_async(postgres_shop, connection)
    await connection.close()


def test_sqlalchemy_in_a_failed_transaction(postgres_shop: Shop, engine: Any) -> None:
    with engine.connect() as connection:
        with contextlib.suppress(Exception):
            connection.exec_driver_sql("SELECT 1/0")
        assert FAILED in refused(postgres_shop, connection)
    with Session(engine) as session:
        with contextlib.suppress(Exception):
            session.connection().exec_driver_sql("SELECT 1/0")
        assert FAILED in refused(postgres_shop, session)


async def test_async_sqlalchemy_in_a_failed_transaction(postgres_shop: Shop) -> None:
    for driver in ("asyncpg", "psycopg"):
        engine = create_async_engine(spelled(postgres_shop.address, driver), **ALONE)
        async with engine.connect() as connection:
            with contextlib.suppress(Exception):
                await connection.exec_driver_sql("SELECT 1/0")
            assert FAILED in await refused_async(postgres_shop, connection)
        await engine.dispose()


def test_a_session_whose_flush_has_failed(sqlite_shop: Shop, sqlite_engine: Any) -> None:
    class Model(DeclarativeBase):
        pass

    class Order(Model):
        __tablename__ = f"orders_{uuid4().hex}"
        id: Mapped[int] = mapped_column(primary_key=True)
        customer: Mapped[str]

    Model.metadata.create_all(sqlite_engine)
    with Session(sqlite_engine) as session:
        session.add(Order(id=1, customer=None))
        with pytest.raises(IntegrityError):
            session.flush()
        usable = session.is_active
        said = "" if usable else refused(sqlite_shop, session)
        session.rollback()

    assert (usable, FAILED in said) == (False, True)


def test_django_in_a_failed_transaction(postgres_shop: Shop) -> None:
    with django_database(postgres_shop.address) as alias, transaction.atomic(using=alias):
        with contextlib.suppress(Exception), connections[alias].cursor() as cursor:
            cursor.execute("SELECT 1/0")
        by_the_database = refused(postgres_shop, alias)
        transaction.set_rollback(True, using=alias)
        by_django = refused(postgres_shop, alias)

    assert FAILED in by_the_database
    assert FAILED in by_django
