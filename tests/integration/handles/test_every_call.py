"""Every call that takes ``tx=`` works on that handle alone: what it did is gone when the transaction rolls back."""

import inspect
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mainspring import Admission, Consumer, Context, Item, Lease, Mainspring, SyncLease, every
from mainspring.app.queue.queue import SyncQueue
from tests.integration.app.test_twins import TWINS

HOUR = timedelta(hours=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
IN_OPTIONS = {f"Unpack[{each}Options]" for each in ("Publish", "Send", "Join")}
"""Keywords that it is one of."""
OTHERS = {"Mainspring.testing", "Context.publish", "Context.join", "SyncContext.publish", "SyncContext.join"}
"""A test's own transaction, and what a handler's own transaction is passed to by the same publisher."""


class Shop:
    """An app on a file that has one of everything the calls are about."""

    def __init__(self, path: Path) -> None:
        self.path = path
        app = Mainspring(f"sqlite:///{path}", name="shop")

        @app.consumer("mail")
        def mail(to: str) -> None: ...

        @app.consumer("parcels")
        class Parcels(Consumer[str]):
            async def consume(self, message: str, ctx: Context) -> None: ...

        assert Parcels.mainspring is not None
        self.app, self.mail, self.parcels = app.sync, mail, Parcels.mainspring.sync
        self.app.migrate()
        self.app.declare()
        self.app.publish("mail", "ann", key="a", delay=HOUR)
        self.app.schedules.put("hourly", every("1h"), "mail", "ann")
        self.app.schedules.put("paused", every("1h"), "mail", "ann")
        self.app.schedules.pause("paused")
        self.admission: Admission = self.app.inbox.admit("evt", "stripe", group="work")
        lease = self.app.leases.acquire("reports")
        assert lease is not None
        self.lease: SyncLease = lease
        self.queue: SyncQueue[Any] = self.app.queue("jobs", "jobs")
        self.queue.declare()
        self.app.publish("jobs", 1)
        self.item: Item[Any]
        [self.item] = self.queue.claim()

    def stored(self) -> list[str]:
        """Every row of the file, for everybody to see."""
        with closing(sqlite3.connect(self.path)) as file:
            return list(file.iterdump())


def _once(shop: Shop, tx: Any) -> None:
    with shop.app.inbox.once("evt_2", "stripe", tx=tx):
        pass


CALLS: dict[str, Callable[[Shop, Any], object]] = {
    "Mainspring.publish": lambda shop, tx: shop.app.publish("mail", "bob", tx=tx),
    "Mainspring.publish_many": lambda shop, tx: shop.app.publish_many([("mail", "bob")], tx=tx),
    "Mainspring.join": lambda shop, tx: shop.app.join([(shop.mail, "bob")], then=(shop.mail, "bob"), tx=tx),
    "Mainspring.cancel": lambda shop, tx: shop.app.cancel("mail", key="a", tx=tx),
    "Consumed.send": lambda shop, tx: shop.mail.sync.send("bob", tx=tx),
    "ClassSender.send": lambda shop, tx: shop.parcels.send("bob", tx=tx),
    "Schedules.put": lambda shop, tx: shop.app.schedules.put("daily", every("24h"), "mail", "bob", tx=tx),
    "Schedules.once": lambda shop, tx: shop.app.schedules.once("later", datetime.now(UTC) + HOUR, "mail", "bob", tx=tx),
    "Schedules.alter": lambda shop, tx: shop.app.schedules.alter("hourly", every("2h"), tx=tx),
    "Schedules.pause": lambda shop, tx: shop.app.schedules.pause("hourly", tx=tx),
    "Schedules.resume": lambda shop, tx: shop.app.schedules.resume("paused", tx=tx),
    "Schedules.trigger": lambda shop, tx: shop.app.schedules.trigger("hourly", tx=tx),
    "Schedules.backfill": lambda shop, tx: shop.app.schedules.backfill("hourly", START, START + 3 * HOUR, tx=tx),
    "Schedules.delete": lambda shop, tx: shop.app.schedules.delete("hourly", tx=tx),
    "Inbox.admit": lambda shop, tx: shop.app.inbox.admit("evt_2", "stripe", tx=tx),
    "Inbox.once": _once,
    "Inbox.done": lambda shop, tx: shop.app.inbox.done(shop.admission, tx=tx),
    "Inbox.failed": lambda shop, tx: shop.app.inbox.failed(shop.admission, tx=tx),
    "Inbox.dead": lambda shop, tx: shop.app.inbox.dead(shop.admission, tx=tx),
    "Queue.ack": lambda shop, tx: shop.queue.ack(shop.item, tx=tx),
    "Queue.abandon": lambda shop, tx: shop.queue.abandon(shop.item, tx=tx),
    "Queue.fail": lambda shop, tx: shop.queue.fail(shop.item, error="no", tx=tx),
    "Lease.confirm": lambda shop, tx: shop.lease.confirm(tx=tx),
}


def taking_tx() -> set[str]:
    """The public calls with a parameter ``tx``, and those that have it among their options."""
    classes = [*(awaited for awaited, _ in TWINS), Lease]
    return {
        f"{each.__name__}.{name}"
        for each in classes
        for name, method in inspect.getmembers(each, inspect.isfunction)
        if not name.startswith("_")
        if "tx" in (taken := inspect.signature(method).parameters)
        or getattr(taken.get("options"), "annotation", "") in IN_OPTIONS
    }


def test_every_call_that_takes_it_is_in_the_table() -> None:
    assert taking_tx() - OTHERS == set(CALLS)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return Shop(tmp_path_factory.mktemp("every_call") / "shop.db")


def test_what_any_of_them_did_is_gone_after_a_rollback(shop: Shop) -> None:
    before = shop.stored()
    unlike: list[str] = []
    with closing(sqlite3.connect(shop.path, isolation_level=None)) as tx:
        statements: list[str] = []
        tx.set_trace_callback(statements.append)
        for name, call in CALLS.items():
            tx.execute("BEGIN")
            statements.clear()
            call(shop, tx)
            here, elsewhere = any("mainspring_" in each for each in statements), shop.stored() != before
            tx.execute("ROLLBACK")
            if not here or elsewhere or shop.stored() != before:
                unlike.append(name)
    shop.app.close()

    assert unlike == []
