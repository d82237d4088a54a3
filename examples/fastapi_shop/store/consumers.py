"""The worker's consumers: `mainspring worker store.consumers:spring`."""

from typing import Annotated

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from mainspring import Depends, exponential
from store.database import Order, transaction
from store.messages import OrderPlaced, PaymentDue, spring
from store.post import PostOffice

Session = Annotated[AsyncSession, Depends(transaction)]


@spring.consumer(OrderPlaced, retry=exponential("1s", cap="10m", attempts=15), timeout="30s")
async def send_receipt(placed: OrderPlaced, session: Session, post: Annotated[PostOffice, Depends()]) -> None:
    """Send the receipt. The order was committed together with the message."""
    order = await session.get_one(Order, placed.order_id)
    if order.receipt:
        return  # a message may be delivered twice
    await post.send(order.email, f"{order.total / 100:.2f} for order {order.id}")
    order.receipt = True


@spring.consumer(PaymentDue)
async def expire(due: PaymentDue, session: Session) -> None:
    """Expire the order unless it is paid."""
    unpaid = update(Order).where(Order.id == due.order_id, Order.status == "placed")
    await session.execute(unpaid.values(status="expired"))
