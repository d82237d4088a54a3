"""Compare the databases of both services: `python -m services.audit`."""

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing

from sqlalchemy import select

from services.orders import engine, orders


async def audit() -> str:
    """Return how many orders have no invoice, and how many have several."""
    async with engine.connect() as connection:
        placed = (await connection.scalars(select(orders.c.id))).all()
    await engine.dispose()
    with closing(sqlite3.connect("billing.db")) as database:
        billed = Counter(order_id for (order_id,) in database.execute("SELECT order_id FROM invoices"))
    lost, doubled = set(placed) - set(billed), [each for each, times in billed.items() if times > 1]
    return f"{len(placed)} orders, {billed.total()} invoices: {len(lost)} lost, {len(doubled)} doubled"


if __name__ == "__main__":
    print(asyncio.run(audit()))
