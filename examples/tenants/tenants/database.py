"""The database of a customer: a SQLite file in a folder of its own, or a database of the server in CUSTOMERS_URL."""

import os
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.pool import NullPool

URL = os.environ.get("CUSTOMERS_URL", "sqlite+aiosqlite:///customers/{name}/shop.db")
IS_SQLITE = URL.startswith("sqlite")


class Base(DeclarativeBase):
    """The base of the shop's tables."""


class Order(Base):
    """An order of a customer."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]


class Receipt(Base):
    """A receipt. Neither column is unique: a second one, or one of another customer, would be stored and seen."""

    __tablename__ = "receipts"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    order_id: Mapped[int]


@cache
def engine(url: str) -> AsyncEngine:
    """Return the engine of a database. It keeps no connection: most customers are idle."""
    made = create_async_engine(url, poolclass=NullPool)
    if IS_SQLITE:
        event.listen(made.sync_engine, "connect", _leave_begin_to_us)
        event.listen(made.sync_engine, "begin", _begin_immediately)
    return made


def session(url: str) -> AsyncSession:
    """Return a session on a database."""
    return async_sessionmaker(engine(url), expire_on_commit=False)()


async def create(name: str) -> str:
    """Make a customer's database and the shop's tables, and return its URL; safe to repeat."""
    url = URL.format(name=name)
    if IS_SQLITE:
        Path(make_url(url).database or "").parent.mkdir(parents=True, exist_ok=True)
    else:
        await _create_on_server(url)
    async with engine(url).begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    return url


async def _create_on_server(url: str) -> None:
    server = create_async_engine(make_url(url).set(database="postgres"), isolation_level="AUTOCOMMIT")
    try:
        async with server.connect() as connection:
            await connection.execute(text(f'CREATE DATABASE "{make_url(url).database}"'))
    except ProgrammingError as error:
        if "already exists" not in str(error):
            raise
    finally:
        await server.dispose()


# SQLite has one writer at a time. A transaction that locks at BEGIN waits for its turn and cannot fail later.


def _leave_begin_to_us(connection: Any, _: Any) -> None:
    connection.isolation_level = None


def _begin_immediately(connection: Any) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
