"""Savepoints on SQLite, whose driver begins by itself before it writes, and not before a savepoint."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from django.db import transaction
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from tests.integration.handles.alchemists import ALONE, spelled
from tests.integration.handles.conftest import Shop
from tests.integration.handles.djangos import django_database
from tests.integration.handles.refusing import refused, refused_async


@pytest.fixture
def mended(sqlite_shop: Shop) -> Iterator[Engine]:
    """An engine that begins every transaction with BEGIN, as SQLAlchemy's page on SQLite says."""
    engine = create_engine(spelled(sqlite_shop.address, "pysqlite"), **ALONE)
    event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    yield engine
    engine.dispose()


def test_a_savepoint_before_anything_is_written_would_be_the_whole_transaction(
    sqlite_shop: Shop, sqlite_engine: Engine
) -> None:
    with Session(sqlite_engine) as session, session.begin_nested():
        said = refused(sqlite_shop, session)

    assert said == (
        "tx= is in a savepoint, and sqlite3 may have begun no transaction around it: releasing it would commit the "
        "message for good, whatever becomes of the rest. Publish before begin_nested(), or have every transaction "
        "begin with BEGIN, as SQLAlchemy's page on SQLite says under savepoints"
    )


async def test_the_same_with_aiosqlite(sqlite_shop: Shop) -> None:
    engine = create_async_engine(spelled(sqlite_shop.address, "aiosqlite"), **ALONE)
    async with AsyncSession(engine) as session, session.begin_nested():
        said = await refused_async(sqlite_shop, session)

    assert said.startswith("tx= is in a savepoint")
    await engine.dispose()


def test_it_is_no_empty_warning(sqlite_shop: Shop, sqlite_engine: Engine) -> None:
    # What would happen to the message happens here to a table of the application's.
    table = f"orders_{uuid4().hex}"
    with sqlite_engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE {table} (id integer)")

    with Session(sqlite_engine) as session:
        with session.begin_nested():
            session.connection().exec_driver_sql(f"INSERT INTO {table} VALUES (1)")
        session.rollback()

    with sqlite_engine.connect() as connection:
        assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 1


def test_what_was_published_before_the_savepoint_has_begun_the_transaction(
    sqlite_shop: Shop, sqlite_engine: Engine
) -> None:
    key = uuid4().hex

    with Session(sqlite_engine) as session:
        sqlite_shop.app.sync.publish("orders.placed", {}, key=key, tx=session)
        with session.begin_nested():
            sqlite_shop.app.sync.publish("orders.placed", {}, key=key, tx=session)
        session.rollback()

    assert sqlite_shop.count(key) == (0, 0)


def test_with_begin_at_the_beginning_any_savepoint_is_accepted(sqlite_shop: Shop, mended: Engine) -> None:
    kept, undone = uuid4().hex, uuid4().hex

    with Session(mended) as session:
        with session.begin_nested():
            sqlite_shop.app.sync.publish("orders.placed", {}, key=undone, tx=session)
        session.rollback()
        with session.begin_nested():
            sqlite_shop.app.sync.publish("orders.placed", {}, key=kept, tx=session)
        session.commit()

    assert (sqlite_shop.count(undone), sqlite_shop.count(kept)) == ((0, 0), (1, 1))


def test_django_begins_before_its_savepoints(sqlite_shop: Shop) -> None:
    key = uuid4().hex

    with django_database(sqlite_shop.address) as alias, transaction.atomic(using=alias):
        with transaction.atomic(using=alias):
            sqlite_shop.app.sync.publish("orders.placed", {}, key=key, tx=alias)
        transaction.set_rollback(True, using=alias)

    assert sqlite_shop.count(key) == (0, 0)


def test_django_with_transactions_managed_by_hand_begins_as_late_as_the_driver(sqlite_shop: Shop) -> None:
    with django_database(sqlite_shop.address) as alias:
        transaction.set_autocommit(False, using=alias)
        with transaction.atomic(using=alias), transaction.atomic(using=alias):
            said = refused(sqlite_shop, alias)
        transaction.rollback(using=alias)

    assert said.startswith("tx= is in a savepoint")
