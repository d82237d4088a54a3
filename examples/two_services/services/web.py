"""The web application of orders: `uvicorn services.web:web`."""

from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import insert

from mainspring.integrations.fastapi import lifespan
from services.orders import OrderPlaced, app, engine, orders

web = FastAPI(title="Orders", lifespan=lifespan(app), telemetry={"operation_spans": False})  # one span per request


class NewOrder(BaseModel):
    """A customer's request."""

    item: str
    total: int


@web.post("/orders", status_code=201)
async def place(new: NewOrder) -> OrderPlaced:
    """Store the order and the message in one transaction: both are there, or neither is."""
    async with engine.begin() as connection:
        order_id = await connection.scalar(insert(orders).values(new.model_dump()).returning(orders.c.id))
        placed = OrderPlaced(order_id, new.item, new.total)
        await app.publish(placed, key=f"order:{order_id}", tx=connection)
    return placed
