"""Orders: stored in PostgreSQL, and sent to RabbitMQ by `mainspring worker services.orders:app`."""

import asyncio
import os
from dataclasses import dataclass

from sqlalchemy import Column, Integer, MetaData, Table, Text
from sqlalchemy.ext.asyncio import create_async_engine

from mainspring import Mainspring
from mainspring.brokers import RabbitMQ
from services.tracing import trace_as

URL = os.environ.get("DATABASE_URL", "postgresql+asyncpg://postgres@localhost/orders")
RABBITMQ_URL = os.environ.get("RABBITMQ_URL", "amqp://guest:guest@localhost/")

trace_as("orders")
engine = create_async_engine(URL)
orders = Table(
    "orders", MetaData(), Column("id", Integer, primary_key=True), Column("item", Text), Column("total", Integer)
)

app = Mainspring(URL, name="orders")
app.route("orders.*", to=RabbitMQ(RABBITMQ_URL, exchange="shop.events"))


@app.message("orders.placed")
@dataclass
class OrderPlaced:
    """An order has been placed; its total is in cents."""

    order_id: int
    item: str
    total: int


async def create_tables() -> None:
    """Create the tables, the service's own and Mainspring's; safe to repeat."""
    async with engine.begin() as connection:
        await connection.run_sync(orders.metadata.create_all)
    await engine.dispose()
    await app.migrate()


if __name__ == "__main__":
    asyncio.run(create_tables())
    print("orders: tables created")
