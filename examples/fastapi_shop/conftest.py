"""Runs every test in one transaction that is rolled back at its end."""
# ruff: noqa: E402 - the store reads DATABASE_URL when it is imported

import os
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from httpx2 import ASGITransport, AsyncClient
from sqlalchemy.ext.asyncio import AsyncConnection

folder = TemporaryDirectory()
os.environ["DATABASE_URL"] = os.environ.get("TEST_DATABASE_URL", f"sqlite+aiosqlite:///{Path(folder.name) / 'test.db'}")

from store import tables
from store.database import engine, sessions
from store.web import web


@pytest.fixture
async def connection() -> AsyncIterator[AsyncConnection]:
    """Yield the connection of the store's sessions in a test: their commits are savepoints in its transaction."""
    await tables.create()
    async with engine.connect() as connection, connection.begin() as outer:
        sessions.configure(bind=connection, join_transaction_mode="create_savepoint")
        yield connection
        await outer.rollback()
    await engine.dispose()


@pytest.fixture
def mainspring_tx(connection: AsyncConnection) -> AsyncConnection:
    """Return the transaction in which the library's fixture `mainspring` stores its messages."""
    return connection


@pytest.fixture
async def customer() -> AsyncIterator[AsyncClient]:
    """Yield an HTTP client of the store."""
    async with AsyncClient(transport=ASGITransport(app=web), base_url="http://store") as client:
        yield client
