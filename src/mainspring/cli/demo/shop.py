"""The demo's application: a shop that takes orders, written as a user of the library would."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from mainspring import Context, Mainspring, exponential
from mainspring.cli.demo.journal import Journal
from mainspring.cli.demo.warehouse import furnish, parcel

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
        due = ctx.scheduled_for.astimezone(ZoneInfo(ZONE))
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
        """Place an order of a buggy program: its total is not a number, which send_receipt cannot decode."""
        with connection:
            self._store(connection, number, "Mallory", 0)
            garbled = {"order_id": number, "customer": "Mallory", "total": "a tenner"}
            self._app.sync.publish("orders.placed", garbled, tx=connection)
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
