"""The application that the tests beside it are about."""

from dataclasses import dataclass

from mainspring import Context, Mainspring, exponential

app = Mainspring("postgresql://shop@db.internal/shop", name="shop")
carrier: dict[str, bool] = {"answers": True}


@app.message("orders.placed")
@dataclass
class OrderPlaced:
    order_id: int
    total: float


@app.consumer(OrderPlaced)
async def take_payment(order: OrderPlaced, ctx: Context) -> None:
    await ctx.publish("payments.reminder", {"order_id": order.order_id}, delay="24h", key=f"order:{order.order_id}")


@app.consumer("payments.reminder")
async def remind(reminder: dict[str, int]) -> None:
    await app.publish("mail.sent", reminder)


@app.consumer(OrderPlaced, retry=exponential("1m", factor=2, cap="1h", attempts=4, jitter=0))
def ship(order: OrderPlaced, ctx: Context) -> None:
    if not carrier["answers"]:
        raise ConnectionError("the carrier does not answer")
    ctx.sync.publish("orders.shipped", {"order_id": order.order_id})
