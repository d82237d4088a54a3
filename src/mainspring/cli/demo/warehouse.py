"""The shop's back office: parcels, prices, a catalogue and warehouses, to explore in the dashboard."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from mainspring import Context, Done, Mainspring, Slice, every, exponential
from mainspring.model.errors import LeaseLost

CITIES = ("Delft", "Gdańsk", "Kyoto", "León", "Lima", "Oulu", "Québec", "Tromsø", "Turin", "Xi'an", "York", "Łódź")
_ITEMS = ("escapement", "hairspring", "jewel bearing", "mainspring", "pallet fork", "winding crown")
_UNKNOWN_STREET, _TOO_HEAVY, _CARRIER_BUSY = 0.03, 0.05, 0.15
_PAGES = 24


class UnknownAddress(Exception):
    """No carrier can find the address; retrying does not help."""


class CarrierBusy(Exception):
    """The carrier is overloaded; a retry may help."""


def furnish(app: Mainspring) -> None:
    """Register the consumers and schedules of the back office."""
    _parcels(app)
    _prices(app)
    _rhythms(app)


def parcel(order_id: int, customer: str) -> dict[str, Any]:
    """Return the payload of the parcel of an order."""
    items = random.sample(_ITEMS, k=random.randint(1, 3))
    address = {
        "city": random.choice(CITIES),
        "street": f"{random.choice(_ITEMS).title()} Street {random.randint(1, 99)}",
    }
    insured = {"card_number": f"4000 00{random.randint(10, 99)} 0000 {random.randint(1000, 9999)}", "sum": 100}
    return {"parcel": f"P-{order_id}", "customer": customer, "address": address, "items": items, "insured": insured}


def _parcels(app: Mainspring) -> None:
    @app.consumer("parcels.packed", retry=exponential("1s", attempts=3), concurrency=3, timeout="30s")
    async def book_carrier(parcel: dict[str, Any], ctx: Context) -> Done:
        await asyncio.sleep(random.uniform(0.05, 0.4))
        luck = random.Random(parcel["parcel"]).random()
        if luck < _UNKNOWN_STREET:
            raise UnknownAddress(f"no carrier knows {', '.join(parcel['address'].values())!r}")
        if luck < _TOO_HEAVY:
            raise ValueError(f"parcel {parcel['parcel']} weighs {31 + 100 * luck:.1f} kg; the limit is 30 kg")
        if random.random() < _CARRIER_BUSY:
            raise CarrierBusy(f"503 from the carrier after {random.uniform(0.2, 2):.1f} s")
        await ctx.publish("parcels.shipped", {"parcel": parcel["parcel"], "city": parcel["address"]["city"]})
        return Done(f"booked for {parcel['address']['city']}")

    @app.consumer("parcels.shipped", concurrency=2)
    async def tell_customer(shipped: dict[str, Any]) -> None:
        del shipped
        await asyncio.sleep(random.uniform(0.01, 0.06))

    @app.consumer("parcels.*", group="tracking", batch=20, linger="500ms")
    async def track(parcels: list[dict[str, Any]]) -> None:
        await asyncio.sleep(0.01 * len(parcels))


def _prices(app: Mainspring) -> None:
    @app.consumer("prices.changed", ordered=True, concurrency=4)
    async def apply_price(price: dict[str, Any]) -> None:
        del price
        await asyncio.sleep(random.uniform(0.01, 0.05))

    @app.consumer("catalogue.render", concurrency=1)
    async def render_catalogue(_: dict[str, Any], ctx: Context) -> Done:
        for page in range(1, _PAGES + 1):
            ctx.progress(f"page {page} of {_PAGES}")
            await asyncio.sleep(random.uniform(0.1, 0.3))
        return Done(f"{_PAGES} pages")


def _rhythms(app: Mainspring) -> None:
    @app.recurring(every("20s"), name="catalogue")
    async def catalogue(ctx: Context) -> None:
        await ctx.publish("catalogue.render", {"edition": ctx.scheduled_for.isoformat()}, key="catalogue")

    @app.recurring(every("10s"), name="reconcile", retry="none")
    async def reconcile() -> Done:
        await asyncio.sleep(random.uniform(0.1, 1))
        if random.random() < 1 / 4:
            raise ArithmeticError(f"the till is {random.randint(1, 9)} short")
        return Done(f"{random.randint(20, 90)} payments matched")

    @app.recurring("30 2 * * *", name="stock_take", timezone="Europe/Berlin")
    async def stock_take() -> None: ...

    @app.recurring("0 9 * * mon-fri", name="newsletter", timezone="America/New_York", overlap="queue")
    async def newsletter() -> None: ...

    @app.fanout("warehouses", "inventory", every="15s", jitter="3s")
    async def warehouses() -> AsyncIterator[str]:
        for city in CITIES:
            yield city

    @warehouses.slices(concurrency=3)
    async def count_shelves(shelf: Slice, ctx: Context) -> Done:
        await asyncio.sleep(random.uniform(0.2, 0.8))
        if shelf.shard == "Oulu" and ctx.attempt == 1:
            raise TimeoutError("the warehouse in Oulu does not respond")
        return Done(f"{random.randint(100, 900)} items in {shelf.shard}")


async def feed_prices(app: Mainspring) -> None:
    """Publish new prices while holding the lease: one process at a time."""
    with contextlib.suppress(LeaseLost):
        async with app.leases.hold("price-feed", timedelta(seconds=10)):
            while True:
                item = random.choice(_ITEMS)
                await app.publish("prices.changed", {"item": item, "price": round(random.uniform(1, 50), 2)}, key=item)
                await asyncio.sleep(random.uniform(0.3, 1.2))
