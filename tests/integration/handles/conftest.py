"""A shop on each database, with its tables made and a group that subscribes; made once per file of tests."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import Engine, create_engine

from mainspring import Mainspring
from tests.integration.handles.alchemists import ALONE, spelled
from tests.integration.handles.callers import Database, Kind


@dataclass
class Shop:
    """An app on one database, and a client of the test's own beside it."""

    database: Database
    address: str
    app: Mainspring
    schema: str
    commits: list[None] = field(default_factory=list)
    """Grows with each commit that the app has heard of."""
    hear: Callable[[], None] | None = None
    """What is called besides."""

    def committed(self) -> None:
        """In place of waking workers."""
        self.commits.append(None)
        if self.hear is not None:
            self.hear()

    def count(self, key: str) -> tuple[int, int]:
        """How many messages and deliveries are there under this key, for everybody to see."""
        if self.database == "SQLite":
            with closing(sqlite3.connect(self.address)) as client:
                return _pair(client.execute(_COUNT.format("mainspring_", "?", "?"), (key, key)).fetchone())
        with psycopg.connect(self.address) as client:
            return _pair(client.execute(_COUNT.format(f"{self.schema}.", "%s", "%s"), (key, key)).fetchone())

    def pending(self, join: UUID) -> int | None:
        """How many members of this join are to end; None: there is no such join, for everybody to see."""
        if self.database == "SQLite":
            with closing(sqlite3.connect(self.address)) as client:
                row = client.execute("SELECT pending FROM mainspring_joint WHERE id = ?", (join.bytes,)).fetchone()
        else:
            with psycopg.connect(self.address) as client:
                text = sql.SQL("SELECT pending FROM {} WHERE id = %s").format(sql.Identifier(self.schema, "joint"))
                row = client.execute(text, (join,)).fetchone()
        return None if row is None else int(row[0])


_COUNT = "SELECT (SELECT count(*) FROM {0}message WHERE key = {1}), (SELECT count(*) FROM {0}delivery WHERE key = {2})"


def _pair(row: object) -> tuple[int, int]:
    assert isinstance(row, tuple)
    return row[0], row[1]


@pytest.fixture(scope="module")
def postgres_shop(postgres_url: str) -> Iterator[Shop]:
    schema = f"test_{uuid4().hex[:12]}"
    yield _open(Shop("PostgreSQL", postgres_url, Mainspring(postgres_url, name="shop", schema=schema), schema))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))


@pytest.fixture(scope="module")
def sqlite_shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    path: Path = tmp_path_factory.mktemp("shop") / "shop.db"
    return _open(Shop("SQLite", str(path), Mainspring(f"sqlite:///{path}", name="shop"), "mainspring"))


def _open(shop: Shop) -> Shop:
    @shop.app.consumer("orders.placed", group="mail")
    async def mail(order: dict[str, str]) -> None: ...

    async def prepare() -> None:
        await shop.app.migrate()
        await shop.app.declare()

    asyncio.run(prepare())
    shop.app._own.publisher._transactions._committed = shop.committed
    return shop


@pytest.fixture
def shop(kind: Kind, postgres_shop: Shop, sqlite_shop: Shop) -> Shop:
    """The shop on the database of the test's ``kind``."""
    shop = postgres_shop if kind.database == "PostgreSQL" else sqlite_shop
    shop.commits.clear()
    shop.hear = None
    return shop


@pytest.fixture
def engine(postgres_shop: Shop) -> Iterator[Engine]:
    """SQLAlchemy's engine on PostgreSQL, over psycopg."""
    engine = create_engine(spelled(postgres_shop.address, "psycopg"), **ALONE)
    yield engine
    engine.dispose()


@pytest.fixture
def sqlite_engine(sqlite_shop: Shop) -> Iterator[Engine]:
    """SQLAlchemy's engine on SQLite."""
    engine = create_engine(spelled(sqlite_shop.address, "pysqlite"), **ALONE)
    yield engine
    engine.dispose()
