"""The shop's web application: `uvicorn store.web:web`."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel, ConfigDict
from sqlalchemy.ext.asyncio import AsyncSession

from mainspring import Receipt
from mainspring.integrations.fastapi import lifespan, within
from store.database import Order, get_session
from store.messages import OrderPlaced, PaymentDue, spring

web = FastAPI(title="Store", lifespan=lifespan(spring))

Session = Annotated[AsyncSession, Depends(get_session)]
Publish = Annotated[Callable[..., Awaitable[Receipt]], Depends(within(spring.publish, get_session))]


class NewOrder(BaseModel):
    """A customer's request; the total is in cents."""

    email: str
    total: int


class Shown(BaseModel):
    """The response to a customer."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    status: str
    receipt: bool


@web.post("/orders", status_code=201)
async def place(new: NewOrder, session: Session, publish: Publish) -> Shown:
    """Store the order and both of its messages in one transaction."""
    async with session.begin():
        order = Order(email=new.email, total=new.total)
        session.add(order)
        await session.flush()
        await publish(OrderPlaced(order.id))
        await publish(PaymentDue(order.id), delay="15m", key=f"order:{order.id}")
        if new.total <= 0:
            raise HTTPException(422, "nothing to pay")  # both messages are rolled back with the order
    return Shown.model_validate(order)


@web.get("/orders/{order_id}")
async def show(order_id: int, session: Session) -> Shown:
    """Return the status of an order."""
    return Shown.model_validate(await _found(order_id, session))


@web.post("/orders/{order_id}/pay")
async def pay(order_id: int, session: Session) -> Shown:
    """Mark the order as paid, and cancel its expiry."""
    async with session.begin():
        order = await _found(order_id, session)
        order.status = "paid"
        await spring.cancel(PaymentDue, key=f"order:{order_id}", tx=session)
    return Shown.model_validate(order)


async def _found(order_id: int, session: AsyncSession) -> Order:
    order = await session.get(Order, order_id)
    if order is None:
        raise HTTPException(404, "no such order")
    return order
