"""Billing: reads orders from RabbitMQ, and writes an invoice for each: `mainspring worker services.billing:app`."""

import asyncio
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass

from mainspring import Context, Mainspring
from mainspring.brokers import RabbitMQ
from services.tracing import trace_as

RABBITMQ_URL = os.environ.get("RABBITMQ_URL", "amqp://guest:guest@localhost/")

trace_as("billing")
app = Mainspring("sqlite:///billing.db", name="billing")
queue = RabbitMQ(RABBITMQ_URL, exchange="shop.events", queue="billing.orders", bindings=["orders.placed"])

# order_id is not unique: a second invoice would be written, and seen.
INVOICES = "CREATE TABLE IF NOT EXISTS invoices (id INTEGER PRIMARY KEY, order_id INTEGER, total INTEGER)"


@dataclass
class Order:
    """What billing needs to know of an order; the message may say more."""

    order_id: int
    total: int


@app.consumer("orders.placed", source=queue, transactional=True)
async def bill(order: Order, ctx: Context) -> None:
    """Write the invoice. It is committed together with the fact that the message is done, so it is written once."""
    await ctx.tx.execute("INSERT INTO invoices (order_id, total) VALUES (?, ?)", (order.order_id, order.total))


async def create_tables() -> None:
    """Create the tables, the service's own and Mainspring's; safe to repeat."""
    await app.migrate()
    with closing(sqlite3.connect("billing.db")) as database:
        database.execute(INVOICES)


if __name__ == "__main__":
    asyncio.run(create_tables())
    print("billing: tables created")
