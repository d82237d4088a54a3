"""The demo's shop: orders and their handlers, a back office to explore in the dashboard, and a journal of events."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

from mainspring import Context, Done, Mainspring, Slice, every, exponential
from mainspring.brokers.memory import MemoryBroker, MemoryQueues
from mainspring.model.errors import LeaseLost

Kind = Literal["placed", "undone", "handled", "retry", "paid", "expired", "report", "dead"]
_LINES = 100
CITIES = ("Delft", "Gdańsk", "Kyoto", "León", "Lima", "Oulu", "Québec", "Tromsø", "Turin", "Xi'an", "York", "Łódź")
_ITEMS = ("escapement", "hairspring", "jewel bearing", "mainspring", "pallet fork", "winding crown")
_UNKNOWN_STREET, _TOO_HEAVY, _CARRIER_BUSY = 0.03, 0.05, 0.15
_PAGES = 24
PAYMENT_TIME = "4s"
"""How long a customer has to pay; hours in a real shop."""
REPORT, ZONE = "sales_report", "Asia/Tokyo"
"""The time zone of the report's schedule."""
GROUPS = ("send_receipt", "analytics", "expire_unpaid")
_GARBLED = 3
"""Which order in every 120 comes from a buggy program."""
_REGRETS, _PAYS = 0.12, 0.7
"""The shares of customers that roll back, and that pay in time."""
_CUSTOMERS = ("Ada", "Alan", "Barbara", "Edsger", "Grace", "Katherine", "Margaret", "Radia", "Tony", "Whitfield")


@dataclass(frozen=True, slots=True)
class Event:
    """One event; ``group`` is empty for actions of customers."""

    at: float
    kind: Kind
    group: str
    text: str


class Journal:
    """Counts and recent events. Written by handlers, threads and customers, read by the view."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: deque[Event] = deque(maxlen=_LINES)
        self._undone: set[int] = set()
        self._reached: set[int] = set()
        self.counts: Counter[Kind] = Counter()
        self.handled: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()

    def note(self, kind: Kind, group: str, text: str, order: int | None = None) -> None:
        """Record an event, and the order it concerns."""
        with self._lock:
            self.counts[kind] += 1
            if kind in ("handled", "expired", "report"):
                self.handled[group] += 1
            elif kind == "retry":
                self.retried[group] += 1
            if order is not None:
                (self._undone if kind == "undone" else self._reached).add(order)
            self._recent.append(Event(time.time(), kind, group, text))

    def recent(self, count: int) -> list[Event]:
        """Return the last events, newest first."""
        with self._lock:
            return list(self._recent)[: -count - 1 : -1]

    @property
    def ghosts(self) -> int:
        """The number of rolled-back orders that reached a handler. It must be 0."""
        with self._lock:
            return len(self._undone & self._reached)


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

    # A broker in this process: elsewhere it is a RabbitMQ(…) or a Kafka(…), and the carrier another service.
    carrier = MemoryQueues({"carrier": ["parcels.shipped"]})
    app.route("parcels.shipped", to=MemoryBroker(carrier), group="to_carrier")

    @app.consumer("pickups.announced", source=MemoryBroker(carrier, read="carrier"))
    async def confirm_pickup(shipped: dict[str, Any]) -> None:
        del shipped
        await asyncio.sleep(random.uniform(0.01, 0.05))


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
        await ctx.publish("catalogue.render", {"edition": str(ctx.scheduled_for)}, key="catalogue")

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


@dataclass
class OrderPlaced:
    """A customer has placed an order."""

    order_id: int
    customer: str
    total: float


class MailServerBusy(Exception):
    """The external mail server is busy."""


def build(url: str, journal: Journal) -> Mainspring:
    """Build the application: one message type, three consumers, a scheduled report, and the warehouse."""
    app = Mainspring(url, name="shop", preset="development", grace="2s")
    app.message("orders.placed")(OrderPlaced)

    @app.consumer(OrderPlaced, retry=exponential("300ms", attempts=4), concurrency=4)
    async def send_receipt(order: OrderPlaced, ctx: Context) -> None:
        await asyncio.sleep(random.uniform(0.02, 0.15))
        if random.random() < (0.15, 0.3, 0)[min(ctx.attempt, 3) - 1]:
            journal.note("retry", ctx.group, f"order {order.order_id}: mail server busy, attempt {ctx.attempt}")
            raise MailServerBusy(f"421 too many connections (order {order.order_id})")
        await ctx.publish("parcels.packed", parcel(order.order_id, order.customer), key=f"order:{order.order_id}")
        again = f" on attempt {ctx.attempt}" if ctx.attempt > 1 else ""
        journal.note("handled", ctx.group, f"receipt {order.order_id} to {order.customer}{again}", order.order_id)

    @app.consumer("orders.placed", group="analytics", concurrency=2)
    def count_order(order: dict[str, Any], ctx: Context) -> None:
        time.sleep(random.uniform(0.005, 0.04))  # a plain function: it runs in a thread and may block
        journal.note("handled", ctx.group, f"order {order['order_id']} counted", order["order_id"])

    @app.consumer("payments.timeout")
    async def expire_unpaid(unpaid: dict[str, Any], ctx: Context) -> None:
        journal.note("expired", ctx.group, f"order {unpaid['order_id']} was not paid in time", unpaid["order_id"])

    @app.recurring("*/3 * * * * *", timezone=ZONE, name=REPORT)
    async def sales_report(ctx: Context) -> None:
        due = (ctx.scheduled_for or ctx.started_at).astimezone(ZoneInfo(ZONE))
        text = f"{journal.counts['placed']} orders by {due:%H:%M:%S} in {ZONE.rpartition('/')[2]}"
        journal.note("report", ctx.group, text)

    furnish(app)
    return app


class Customers:
    """Customers that order, roll back some orders, and pay for most. Blocking code on the shop's own connection."""

    def __init__(self, app: Mainspring, path: Path, journal: Journal) -> None:
        self._app = app
        self._path = path
        self._journal = journal
        self._waiting_to_pay: list[tuple[float, int]] = []

    def open_books(self) -> None:
        """Create the shop's own tables, beside the library's."""
        with books(self._path) as connection:
            connection.execute("CREATE TABLE orders (id integer PRIMARY KEY, customer text, total real)")
            connection.execute("CREATE TABLE payments (order_id integer PRIMARY KEY)")

    def shop_until(self, closing_time: threading.Event, *, pause: float) -> None:
        """Order and pay until ``closing_time`` is set. Runs in a thread."""
        self.open_books()
        with books(self._path) as connection:
            number = 0
            while not closing_time.wait(random.uniform(0.4, 1.6) * pause):
                number += 1
                if number % 120 == _GARBLED:
                    self._place_garbled(connection, number)
                else:
                    self._place(connection, number, regret=random.random() < _REGRETS)
                self._pay_due(connection)

    def _place(self, connection: sqlite3.Connection, number: int, *, regret: bool) -> None:
        order = OrderPlaced(number, random.choice(_CUSTOMERS), round(random.uniform(3, 200), 2))
        try:
            with connection:  # one transaction: the order and its messages, all or none
                self._store(connection, number, order.customer, order.total)
                self._app.sync.publish(order, tx=connection)
                if regret:
                    raise _ChangedMind  # noqa: TRY301
        except _ChangedMind:
            self._journal.note("undone", "", f"order {number}: {order.customer} changed their mind", number)
            return
        self._journal.note("placed", "", f"order {number}: {order.customer}, {order.total:.2f}")
        if random.random() < _PAYS:
            self._waiting_to_pay.append((time.monotonic() + random.uniform(0.3, 3), number))

    def _place_garbled(self, connection: sqlite3.Connection, number: int) -> None:
        """Place an order that its program does not validate: send_receipt cannot decode a total that is no number."""
        with connection:
            self._store(connection, number, "Mallory", 0)
            garbled = {"order_id": number, "customer": "Mallory", "total": "a tenner"}
            self._app.sync.publish("orders.placed", garbled, tx=connection, validate=False)
        self._journal.note("placed", "", f"order {number}: Mallory, 'a tenner' (unreadable)")

    def _store(self, connection: sqlite3.Connection, number: int, customer: str, total: float) -> None:
        connection.execute("INSERT INTO orders VALUES (?, ?, ?)", (number, customer, total))
        self._app.sync.publish(
            "payments.timeout", {"order_id": number}, delay=PAYMENT_TIME, key=f"order:{number}", tx=connection
        )

    def _pay_due(self, connection: sqlite3.Connection) -> None:
        due = [number for at, number in self._waiting_to_pay if at <= time.monotonic()]
        self._waiting_to_pay = [each for each in self._waiting_to_pay if each[1] not in due]
        for number in due:
            with connection:
                connection.execute("INSERT INTO payments VALUES (?)", (number,))
                stopped = self._app.sync.cancel("payments.timeout", key=f"order:{number}", tx=connection)
            if stopped.cancelled:
                self._journal.note("paid", "expire_unpaid", f"order {number} paid, its timeout is cancelled")


class _ChangedMind(Exception):
    pass


@contextmanager
def books(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a connection to the shop's own tables, as any blocking code would."""
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        yield connection
