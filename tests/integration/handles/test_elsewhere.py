"""Handles of another database, another event loop, another thread."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from django.db import connections, transaction
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from mainspring.model.errors import SchemaMissing
from tests.integration.handles.alchemists import ALONE, spelled
from tests.integration.handles.conftest import Shop
from tests.integration.handles.djangos import django_database
from tests.integration.handles.refusing import refused, refused_async
from tests.services.postgres import new_database


def test_a_handle_of_the_other_kind_of_database(postgres_shop: Shop, sqlite_shop: Shop, engine: Any) -> None:
    with engine.connect() as connection, django_database(sqlite_shop.address) as alias, transaction.atomic(using=alias):
        through_sqlalchemy = refused(sqlite_shop, connection)
        through_django = refused(postgres_shop, alias)

    assert through_sqlalchemy == (
        "tx is a SQLAlchemy handle on postgresql, and this app is on SQLite: a message can only be part of a "
        "transaction of its own database. Pass a handle on SQLite, or leave tx= out to store the message at once"
    )
    assert through_django == (
        f"tx is Django's connection '{alias}' on sqlite, and this app is on PostgreSQL: a message can only be "
        "part of a transaction of its own database. Pass a handle on PostgreSQL, or leave tx= out to store the message "
        "at once"
    )


def _psycopg(url: str, publish: Callable[[Any], None]) -> None:
    with psycopg.connect(url) as connection:
        publish(connection)


def _session(url: str, publish: Callable[[Any], None]) -> None:
    with Session(create_engine(spelled(url, "psycopg"), **ALONE)) as session:
        publish(session)


def _django(url: str, publish: Callable[[Any], None]) -> None:
    with django_database(url) as alias, transaction.atomic(using=alias):
        publish(alias)


@pytest.mark.parametrize("caller", [_psycopg, _session, _django])
def test_another_database_of_the_same_kind_is_named(postgres_shop: Shop, caller: Any) -> None:
    name = f"other_{uuid4().hex[:8]}"
    with new_database(postgres_shop.address, name) as other, pytest.raises(SchemaMissing) as refusal:
        caller(other, lambda tx: postgres_shop.app.sync.publish("orders.placed", {}, tx=tx))

    assert str(refusal.value).startswith(f"the database '{name}' that tx= is connected to has no Mainspring tables (")
    assert str(refusal.value).endswith(
        f"): run `mainspring migrate --url URL --schema {postgres_shop.app.options.schema}` on it. "
        "If it is another database than the app's, connect to the app's own: "
        "a message can only be part of a transaction of its own database. "
        f"The app is on {postgres_shop.app._own.place.address.shown}"
    )
    assert (refusal.value.found, refusal.value.needed > 0) == (0, True)


async def test_another_database_of_the_same_kind_is_named_by_asyncpg_too(postgres_shop: Shop) -> None:
    name = f"other_{uuid4().hex[:8]}"
    with new_database(postgres_shop.address, name) as other:
        connection = await asyncpg.connect(other)
        with pytest.raises(SchemaMissing, match=f"the database '{name}'"):
            async with connection.transaction():
                await postgres_shop.app.publish("orders.placed", {}, tx=connection)
        await connection.close()


async def test_a_session_of_another_event_loop(postgres_shop: Shop) -> None:
    engine = create_async_engine(spelled(postgres_shop.address, "asyncpg"), **ALONE)
    async with AsyncSession(engine) as session:
        _ = await session.connection()
        said = await asyncio.to_thread(lambda: asyncio.run(refused_async(postgres_shop, session)))

    assert said == "tx= is a connection of another event loop: open one on the loop that publishes"
    await engine.dispose()


async def test_psycopg_knows_no_loop_and_works_on_any(postgres_shop: Shop) -> None:
    key = uuid4().hex
    async with await psycopg.AsyncConnection.connect(postgres_shop.address) as connection:
        publish = postgres_shop.app.publish
        await asyncio.to_thread(lambda: asyncio.run(publish("orders.placed", {}, key=key, tx=connection)))

    assert postgres_shop.count(key) == (1, 1)


def _elsewhere(work: Callable[[], str]) -> str:
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(work()))
    thread.start()
    thread.join()
    return said[0]


def test_djangos_connections_of_another_thread(postgres_shop: Shop, sqlite_shop: Shop) -> None:
    with django_database(postgres_shop.address) as alias, transaction.atomic(using=alias):
        mine = connections[alias]
        django_said = _elsewhere(lambda: refused(postgres_shop, mine))
    with closing(sqlite3.connect(sqlite_shop.address)) as connection:
        sqlite_said = _elsewhere(lambda: refused(sqlite_shop, connection))

    assert django_said == (
        f"tx= is Django's connection '{alias}' of another thread: use `django.db.connection` or the alias, which are "
        "each thread's own"
    )
    assert "belongs to another thread" in sqlite_said
