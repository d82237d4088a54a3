"""What would commit by itself is refused, and nothing else is refused for that."""

from uuid import uuid4

import asyncpg
import psycopg
import pytest
from django.db import connections, transaction
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tests.integration.handles.alchemists import ALONE, spelled
from tests.integration.handles.conftest import Shop
from tests.integration.handles.djangos import django_database
from tests.integration.handles.refusing import refused, refused_async


def test_psycopg_with_autocommit_outside_a_transaction(postgres_shop: Shop) -> None:
    with psycopg.connect(postgres_shop.address, autocommit=True) as connection:
        said = refused(postgres_shop, connection)

    assert said == (
        "tx= is a psycopg connection with autocommit=True outside a transaction, where every statement commits by "
        "itself: write `with connection.transaction():` around the call"
    )


async def test_async_psycopg_with_autocommit_outside_a_transaction(postgres_shop: Shop) -> None:
    async with await psycopg.AsyncConnection.connect(postgres_shop.address, autocommit=True) as connection:
        assert "`async with connection.transaction():`" in await refused_async(postgres_shop, connection)


async def test_asyncpg_outside_a_transaction(postgres_shop: Shop) -> None:
    connection = await asyncpg.connect(postgres_shop.address)
    said = await refused_async(postgres_shop, connection)
    await connection.close()

    assert "outside a transaction, where every statement commits by itself" in said


@pytest.mark.parametrize("where", ["engine", "connection"])
def test_sqlalchemy_in_autocommit(postgres_shop: Shop, sqlite_shop: Shop, where: str) -> None:
    for shop, driver in ((postgres_shop, "psycopg"), (sqlite_shop, "pysqlite")):
        level = {"isolation_level": "AUTOCOMMIT"}
        engine = create_engine(spelled(shop.address, driver), **ALONE, **(level if where == "engine" else {}))
        with engine.connect() as connection:
            if where == "connection":
                connection.execution_options(**level)
            assert refused(shop, connection) == (
                "tx= is a SQLAlchemy handle in AUTOCOMMIT, where every statement commits by itself: leave "
                "isolation_level='AUTOCOMMIT' out for what must be one transaction"
            )
        with Session(engine.execution_options(**level)) as session:
            assert "in AUTOCOMMIT" in refused(shop, session)
        engine.dispose()


async def test_async_sqlalchemy_in_autocommit(postgres_shop: Shop, sqlite_shop: Shop) -> None:
    for shop, driver in ((postgres_shop, "asyncpg"), (postgres_shop, "psycopg"), (sqlite_shop, "aiosqlite")):
        engine = create_async_engine(spelled(shop.address, driver), isolation_level="AUTOCOMMIT", **ALONE)
        async with AsyncSession(engine) as session:
            assert "in AUTOCOMMIT" in await refused_async(shop, session)
        await engine.dispose()


@pytest.mark.parametrize("database", ["postgres_shop", "sqlite_shop"])
def test_django_outside_atomic(postgres_shop: Shop, sqlite_shop: Shop, database: str) -> None:
    shop = postgres_shop if database == "postgres_shop" else sqlite_shop
    with django_database(shop.address) as alias:
        assert refused(shop, connections[alias]) == (
            f"tx= is Django's connection '{alias}' outside atomic, where every statement commits by itself: write "
            "`with transaction.atomic():` around the call"
        )


def test_django_with_transactions_managed_by_hand_is_accepted(postgres_shop: Shop, sqlite_shop: Shop) -> None:
    key = uuid4().hex
    for shop in (postgres_shop, sqlite_shop):
        with django_database(shop.address) as alias:
            transaction.set_autocommit(False, using=alias)
            shop.app.sync.publish("orders.placed", {}, key=key, tx=alias)
            transaction.rollback(using=alias)
            shop.app.sync.publish("orders.placed", {}, key=key, tx=alias)
            transaction.commit(using=alias)

        assert shop.count(key) == (1, 1)
