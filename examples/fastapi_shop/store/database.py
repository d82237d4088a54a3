"""The database: a SQLite file, or the one of DATABASE_URL."""

import os
from collections.abc import AsyncIterator
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

URL = os.environ.get("DATABASE_URL", "sqlite+aiosqlite:///store.db")

engine = create_async_engine(URL)
sessions = async_sessionmaker(engine, expire_on_commit=False)


class Base(DeclarativeBase):
    """The base of the shop's tables."""


class Order(Base):
    """An order and its status: placed, paid or expired."""

    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    email: Mapped[str]
    total: Mapped[int]
    status: Mapped[str] = mapped_column(default="placed")
    receipt: Mapped[bool] = mapped_column(default=False)


async def get_session() -> AsyncIterator[AsyncSession]:
    """Yield a session for a request."""
    async with sessions() as session:
        yield session


async def transaction() -> AsyncIterator[AsyncSession]:
    """Yield a session for a handler: committed if it succeeds, rolled back if it fails."""
    async with sessions.begin() as session:
        yield session


if engine.dialect.name == "sqlite":
    # SQLite has one writer at a time. A transaction that locks at BEGIN waits for its turn and cannot fail later.

    @event.listens_for(engine.sync_engine, "connect")
    def leave_begin_to_us(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine.sync_engine, "begin")
    def begin_immediately(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
