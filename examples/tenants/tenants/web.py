"""The shop's web application: `uvicorn tenants.web:web`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncSession

from mainspring import Mainspring, errors
from tenants import database, registry
from tenants.database import Order, Receipt
from tenants.shop import OrderPlaced, fleet


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Have the fleet open: each database opens when it is used."""
    async with fleet:
        yield


web = FastAPI(title="Tenants", lifespan=lifespan)


class NewCustomer(BaseModel):
    """A new customer; its database has the same name."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,30}$")


class NewOrder(BaseModel):
    """A customer's request."""

    item: str


class Shown(BaseModel):
    """An order, and how many receipts there are."""

    customer: str
    order: int
    receipts: int = 0


@web.post("/customers", status_code=201)
async def add(new: NewCustomer) -> dict[str, list[str]]:
    """Make the customer's database, then name it: the row comes last, so that nothing finds a database half made."""
    url = await database.create(new.name)
    await Mainspring(url, name="tenants").migrate()
    try:
        await registry.add(new.name, url)
    except IntegrityError:
        raise HTTPException(409, f"{new.name} is a customer already") from None
    await fleet.refresh()
    return {"customers": list(fleet)}


async def customer_named(name: str) -> str:
    """Return the name of a customer that there is."""
    if name not in fleet:
        await fleet.refresh()  # another process may have added it
    if name not in fleet:
        raise HTTPException(404, f"there is no customer {name}")
    return name


Customer = Annotated[str, Depends(customer_named)]


async def session_of(name: Customer) -> AsyncIterator[AsyncSession]:
    """Yield a session on the customer's database."""
    async with database.session((await registry.urls())[name]) as session:
        yield session


Session = Annotated[AsyncSession, Depends(session_of)]


@web.post("/customers/{name}/orders", status_code=201)
async def place(name: Customer, new: NewOrder, session: Session) -> Shown:
    """Store the order and its message in one transaction, in the customer's database."""
    async with session.begin():
        order = Order(item=new.item)
        session.add(order)
        await session.flush()
        await fleet.publish(OrderPlaced(name, order.id), tx=session)
    return Shown(customer=name, order=order.id)


@web.get("/customers/{name}/orders/{order_id}")
async def show(name: Customer, order_id: int, session: Session) -> Shown:
    """Return an order with its receipts."""
    if await session.get(Order, order_id) is None:
        raise HTTPException(404, "no such order")
    receipts = select(func.count()).select_from(Receipt).where(Receipt.order_id == order_id)
    return Shown(customer=name, order=order_id, receipts=await session.scalar(receipts) or 0)


@web.get("/health")
async def health() -> dict[str, str]:
    """Return the health of the fleet, and of each customer's database."""
    found = await fleet.health()
    return {"fleet": found.status, **{name: each.status for name, each in found.databases.items()}}


@web.exception_handler(OperationalError)
@web.exception_handler(errors.StorageUnavailable)
async def away(request: Request, _: Exception) -> JSONResponse:
    """Respond 503 where one database is away. The others go on."""
    name = request.path_params.get("name", "the registry")
    return JSONResponse({"detail": f"the database of {name} is away"}, 503)
