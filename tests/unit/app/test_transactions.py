import sqlite3
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import BadHandle
from mainspring.storage.script import Script, Statement

ACCEPTED = (
    "pass asyncpg.Connection, psycopg.Connection, psycopg.AsyncConnection, sqlite3.Connection, a SQLAlchemy Session, a "
    "SQLAlchemy AsyncSession, a SQLAlchemy Connection, a SQLAlchemy AsyncConnection, django.db.connection"
)


def made(module: str, name: str) -> Any:
    """An object whose class looks like a driver's."""
    return type(name, (), {"__module__": module})()


def nothing() -> Script[None]:
    yield Statement("SELECT 1")


async def test_a_wrong_handle_names_what_is_accepted() -> None:
    with pytest.raises(BadHandle) as refused:
        await Transactions("sqlite", None).run(7, nothing())

    assert str(refused.value) == f"tx=builtins.int is not a supported handle: {ACCEPTED}"


async def test_a_text_is_a_handle_only_where_django_knows_it() -> None:
    with pytest.raises(BadHandle) as refused:
        await Transactions("sqlite", None).run("connection", nothing())

    assert str(refused.value) == (
        "tx='connection' is a text, and only the alias of one of Django's databases may be one, in a process where "
        f"Django is set up: {ACCEPTED}"
    )


async def test_a_blocking_handle_belongs_to_the_blocking_call() -> None:
    with pytest.raises(BadHandle) as refused:
        await Transactions("sqlite", None).run(sqlite3.connect(":memory:"), nothing())

    assert str(refused.value) == (
        "sqlite3.Connection blocks: write `app.sync.publish(…, tx=connection)`, without await, where it is used"
    )


@pytest.mark.parametrize(
    ("module", "name"), [("asyncpg.connection", "Connection"), ("asyncpg.pool", "PoolConnectionProxy")]
)
def test_an_asyncio_handle_belongs_to_the_asyncio_call(module: str, name: str) -> None:
    with pytest.raises(BadHandle) as refused:
        Transactions("postgresql", None).run_blocking(made(module, name), nothing())

    assert str(refused.value) == "asyncpg.Connection is asyncio's: write `await app.publish(…, tx=connection)`"


def test_a_handle_of_another_kind_of_database_is_refused() -> None:
    with pytest.raises(BadHandle) as refused:
        Transactions("postgresql", None).run_blocking(sqlite3.connect(":memory:"), nothing())

    assert str(refused.value) == (
        "tx is a sqlite3.Connection, and this app is on PostgreSQL: a message can only be part of a transaction of its "
        "own database. Pass a handle on PostgreSQL, or leave tx= out to store the message at once"
    )


def test_a_subclass_of_a_known_handle_is_known() -> None:
    class Mine(sqlite3.Connection):
        pass

    with pytest.raises(BadHandle, match=r"^tx is a sqlite3\.Connection, and this app is on PostgreSQL"):
        Transactions("postgresql", None).run_blocking(sqlite3.connect(":memory:", factory=Mine), nothing())


async def test_memory_has_no_transactions_to_join() -> None:
    app = Mainspring("memory://")

    with pytest.raises(BadHandle) as refused:
        await app.publish("a", 1, tx=sqlite3.connect(":memory:"))

    assert str(refused.value) == ("memory:// has no transactions: leave tx out, or use sqlite:/// or postgresql://")
