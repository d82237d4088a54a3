"""Compare orders and receipts in every customer's database: `python -m tenants.audit`."""

import asyncio
from collections import Counter

from sqlalchemy import select

from tenants import database, registry
from tenants.database import Order, Receipt


async def audit() -> str:
    """Return, over all customers, which orders have no receipt, which have several, and which are elsewhere."""
    orders = receipts = lost = doubled = elsewhere = 0
    shown = []
    for name, url in (await registry.urls()).items():
        async with database.session(url) as session:
            placed = (await session.scalars(select(Order.id))).all()
            written = (await session.execute(select(Receipt.customer, Receipt.order_id))).all()
        own = Counter(order_id for customer, order_id in written if customer == name)
        orders, receipts = orders + len(placed), receipts + len(written)
        lost += len(set(placed) - set(own))
        doubled += sum(times > 1 for times in own.values())
        elsewhere += len(written) - own.total()
        shown.append(f"{name} {len(placed)}")
    return (
        f"{orders} orders ({', '.join(shown)}), {receipts} receipts: {lost} lost, {doubled} doubled, "
        f"{elsewhere} elsewhere"
    )


if __name__ == "__main__":
    print(asyncio.run(audit()))
