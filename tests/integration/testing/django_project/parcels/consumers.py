"""Placing an order, and what follows from it."""

from django.db import transaction

from mainspring import Context, Mainspring, intervals
from parcels.models import Order  # type: ignore[import-not-found]

app = Mainspring(name="shop")  # on the database that MAINSPRING_URL names


def place(email: str) -> Order:
    """As a view would."""
    with transaction.atomic():
        order = Order.objects.create(email=email)
        app.sync.publish("orders.placed", {"id": order.pk}, tx="default")
    return order


@app.consumer("orders.placed", retry=intervals(60))
def confirm(order: dict[str, int], ctx: Context) -> None:
    found = Order.objects.get(pk=order["id"])
    found.state = "confirmed"
    found.save()
    ctx.sync.publish("orders.confirmed", order, delay="1d")
    if found.email == "nobody":
        raise ValueError("nobody reads this")


@app.consumer("orders.confirmed")
async def thank(order: dict[str, int]) -> None:
    await app.publish("mail", order)
