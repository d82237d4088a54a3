"""A handle on another SQLite file than the app's is rejected, even if that has the tables too; the same file is not."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from mainspring import Mainspring
from mainspring.model.errors import BadHandle
from tests.integration.handles.alchemists import ALONE, spelled
from tests.integration.handles.conftest import Shop
from tests.integration.handles.djangos import django_database
from tests.integration.handles.refusing import refused, refused_async


@contextmanager
def plain(path: str) -> Iterator[Any]:
    with closing(sqlite3.connect(path)) as connection:
        yield connection


@contextmanager
def session(path: str) -> Iterator[Any]:
    with Session(create_engine(spelled(path, "pysqlite"), **ALONE)) as session:
        yield session


@contextmanager
def sqlalchemy_connection(path: str) -> Iterator[Any]:
    with create_engine(spelled(path, "pysqlite"), **ALONE).begin() as connection:
        yield connection


@contextmanager
def django(path: str) -> Iterator[Any]:
    with django_database(path) as alias, transaction.atomic(using=alias):
        yield alias


@asynccontextmanager
async def async_session(path: str) -> AsyncIterator[Any]:
    engine = create_async_engine(spelled(path, "aiosqlite"), **ALONE)
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


@asynccontextmanager
async def async_connection(path: str) -> AsyncIterator[Any]:
    engine = create_async_engine(spelled(path, "aiosqlite"), **ALONE)
    async with engine.connect() as connection:
        yield connection
    await engine.dispose()


def copied(source: str | Path, to: Path) -> str:
    with closing(sqlite3.connect(source)) as of, closing(sqlite3.connect(to)) as target:
        of.backup(target)
    return str(to)


@pytest.fixture
def copy(sqlite_shop: Shop, tmp_path: Path) -> str:
    """Another file with the same tables."""
    return copied(sqlite_shop.address, tmp_path / "copy.db")


def said(shop: Shop, file: str) -> str:
    return (
        f"tx= is on the SQLite file {file!r}, and this app is on {str(Path(shop.address).resolve())!r}: a message can "
        "only be part of a transaction of its own database. Connect to the app's file, or leave tx= out to store the "
        "message at once"
    )


BLOCKING = [plain, session, sqlalchemy_connection, django]


@pytest.mark.parametrize("connected", BLOCKING)
def test_another_file_is_rejected_and_both_are_named(sqlite_shop: Shop, copy: str, connected: Any) -> None:
    with connected(copy) as tx:
        assert refused(sqlite_shop, tx) == said(sqlite_shop, copy)
    with closing(sqlite3.connect(copy)) as client:
        assert client.execute("SELECT count(*) FROM mainspring_message").fetchone() == (0,)


@pytest.mark.parametrize("connected", [async_session, async_connection])
async def test_another_file_is_rejected_by_an_awaited_call_too(sqlite_shop: Shop, copy: str, connected: Any) -> None:
    async with connected(copy) as tx:
        assert await refused_async(sqlite_shop, tx) == said(sqlite_shop, copy)


def test_a_database_in_memory_is_another_one(sqlite_shop: Shop) -> None:
    with plain(":memory:") as tx:
        assert refused(sqlite_shop, tx) == said(sqlite_shop, ":memory:")


def _linked(path: Path, tmp_path: Path) -> str:
    (tmp_path / "link.db").symlink_to(path)
    return str(tmp_path / "link.db")


def _roundabout(path: Path, _: Path) -> str:
    return str(path.parent / ".." / path.parent.name / path.name)


@pytest.mark.parametrize("connected", BLOCKING)
@pytest.mark.parametrize("spelling", [_linked, _roundabout])
def test_the_same_file_by_another_path_is_the_same(
    tmp_path: Path, connected: Any, spelling: Callable[[Path, Path], str]
) -> None:
    path = tmp_path / "shop.db"
    app = Mainspring(f"sqlite:///{path}", name="shop")
    app.sync.migrate()

    with connected(spelling(path, tmp_path)) as tx:
        assert app.sync.publish("orders.placed", {}, tx=tx).status == "stored"


def test_a_relative_path_is_of_the_directory_before_or_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = Mainspring("sqlite:///shop.db", name="shop")
    app.sync.migrate()
    (tmp_path / "elsewhere").mkdir()
    copied("shop.db", tmp_path / "elsewhere" / "shop.db")
    monkeypatch.chdir(tmp_path / "elsewhere")

    for path in (tmp_path / "shop.db", Path("shop.db")):
        with plain(str(path)) as tx:
            assert app.sync.publish("orders.placed", {}, tx=tx).status == "stored"


def test_an_attached_file_is_as_good(sqlite_shop: Shop, tmp_path: Path) -> None:
    key = uuid4().hex
    with plain(str(tmp_path / "orders.db")) as tx:
        tx.execute("ATTACH ? AS shop", (sqlite_shop.address,))
        sqlite_shop.app.sync.publish("orders.placed", {}, key=key, tx=tx)
        tx.commit()

    assert sqlite_shop.count(key) == (1, 1)


def test_where_the_file_may_move_it_is_not_compared(sqlite_shop: Shop, copy: str) -> None:
    app = Mainspring(lambda: f"sqlite:///{sqlite_shop.address}", name="shop")

    with plain(copy) as tx:
        assert app.sync.publish("orders.placed", {}, tx=tx).status == "stored"


def test_every_enlisted_call_compares(sqlite_shop: Shop, copy: str) -> None:
    with plain(copy) as tx, pytest.raises(BadHandle, match="this app is on"):
        sqlite_shop.app.sync.cancel("orders.placed", key="k", tx=tx)


def test_a_session_is_compared_again_on_each_connection_of_its_pool(sqlite_shop: Shop, copy: str) -> None:
    engine = create_engine(spelled(sqlite_shop.address, "pysqlite"))
    with Session(engine) as tx:
        sqlite_shop.app.sync.publish("orders.placed", {}, tx=tx)
        tx.rollback()
        other = Mainspring(f"sqlite:///{copy}", name="shop")
        with pytest.raises(BadHandle, match="this app is on"):
            other.sync.publish("orders.placed", {}, tx=tx)
    engine.dispose()
