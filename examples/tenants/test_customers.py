# ruff: noqa: E402 - the shop reads where its databases are when it is imported
"""Tests of the shop: databases in a folder of the test's own, without a worker."""

import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from httpx2 import ASGITransport, AsyncClient

folder = TemporaryDirectory()
os.environ["REGISTRY_URL"] = f"sqlite+aiosqlite:///{Path(folder.name) / 'registry.db'}"
os.environ["CUSTOMERS_URL"] = f"sqlite+aiosqlite:///{folder.name}/{{name}}/shop.db"

from tenants import registry
from tenants.shop import OrderPlaced, app, fleet
from tenants.web import web

from mainspring import Fleet


@pytest.fixture
async def client() -> AsyncIterator[AsyncClient]:
    """Yield an HTTP client of the shop."""
    await registry.create()
    async with fleet, AsyncClient(transport=ASGITransport(app=web), base_url="http://shop") as client:
        yield client


@pytest.fixture
def receipts() -> Iterator[sqlite3.Connection]:
    """Yield a database with the table that the consumer writes to."""
    with sqlite3.connect(":memory:") as connection:
        connection.execute("CREATE TABLE receipts (customer TEXT, order_id INTEGER)")
        yield connection
    connection.close()


async def test_an_order_and_its_message_are_in_the_database_of_the_customer(client: AsyncClient) -> None:
    for name in ("acme", "bolt"):
        assert (await client.post("/customers", json={"name": name})).status_code == 201

    placed = await client.post("/customers/bolt/orders", json={"item": "tea"})

    assert placed.json() == {"customer": "bolt", "order": 1, "receipts": 0}
    # It is parked: only a worker makes the consumer known there.
    assert [each.topic for each in await fleet["bolt"].messages.list("parked")] == ["orders.placed"]
    assert await fleet["acme"].messages.list("parked") == []


async def test_a_customer_that_is_not_there_is_a_404(client: AsyncClient) -> None:
    assert (await client.post("/customers/bold/orders", json={"item": "tea"})).status_code == 404


async def test_an_order_has_one_receipt(receipts: sqlite3.Connection) -> None:
    acme = Fleet(app, {"acme": "sqlite:///acme.db"})["acme"]  # an app; under test nothing connects to its database
    async with acme.testing(tx=receipts) as kit:
        await acme.publish(OrderPlaced("acme", 7))
        await kit.drain()

    assert receipts.execute("SELECT * FROM receipts").fetchall() == [("acme", 7)]
