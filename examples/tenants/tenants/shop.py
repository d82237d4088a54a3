"""The shop: one app, one consumer, on the database of every customer: `mainspring worker tenants.shop:fleet`."""

from dataclasses import dataclass

from mainspring import Context, Fleet, Mainspring, RoutedMessage
from tenants import registry
from tenants.database import IS_SQLITE

app = Mainspring("fleet://", name="tenants")


@app.message("orders.placed")
@dataclass
class OrderPlaced:
    """An order has been placed."""

    customer: str
    order_id: int


WRITE = "INSERT INTO receipts (customer, order_id) VALUES (?, ?)".replace("?", "?" if IS_SQLITE else "%s")


@app.consumer(OrderPlaced, transactional=True)
async def send_receipt(placed: OrderPlaced, ctx: Context) -> None:
    """Write the receipt, in the database that the order is in: it is committed with the end of the message, once."""
    await ctx.tx.execute(WRITE, (placed.customer, placed.order_id))


def by_customer(message: RoutedMessage) -> str:
    """Name the database of a message."""
    customer: str = message.payload.customer
    return customer


fleet = Fleet(app, registry.urls, route=by_customer, refresh="2s")
