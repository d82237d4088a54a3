"""Tests of each service by itself: no RabbitMQ, no worker, and no row left behind."""

import sqlite3
from collections.abc import Iterator

import pytest
from services import billing, orders


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    """Yield the database of billing for one test."""
    with sqlite3.connect(":memory:") as connection:
        connection.execute(billing.INVOICES)
        yield connection
    connection.close()


async def test_other_services_hear_of_an_order() -> None:
    async with orders.app.testing() as kit:
        await orders.app.publish(orders.OrderPlaced(7, "tea", 950))
        await kit.drain()

        (sent,) = kit.sent(orders.OrderPlaced)
        assert sent.address == "exchange shop.events, routing key orders.placed"
        assert sent.payload == {"order_id": 7, "item": "tea", "total": 950}


async def test_an_order_that_comes_twice_has_one_invoice(database: sqlite3.Connection) -> None:
    async with billing.app.testing(tx=database) as kit:
        for _ in range(2):
            await kit.receive(billing.bill, {"order_id": 7, "item": "tea", "total": 950}, id="evt-7")
        await kit.drain()

        assert database.execute("SELECT order_id, total FROM invoices").fetchall() == [(7, 950)]
