"""Two namespaces on one database with the same names, keys and ids: what each holds, and everything that it shows."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass, is_dataclass, replace
from datetime import timedelta
from typing import Any, get_args
from uuid import UUID

import asyncpg

from mainspring import Mainspring, every
from mainspring.model.message import ALL_LEVELS, ClaimRequest
from mainspring.model.verdict import Bury, Done, Failure, Settlement
from mainspring.model.views import Beat, State

MINE, THEIRS = "mine-51c2", "theirs-7f3a"
"""In every payload, error, reason and name of an operator: no answer may hold that of the other namespace."""
WAITING, PARKED, DEAD, HANDLED, JOB = (UUID(int=number) for number in range(1, 6))
"""Ids of messages that both namespaces have."""
ALONE, *TAKEN = (UUID(int=number) for number in range(6, 9))
"""Ids of messages that only the other namespace has; the latter are published in both."""
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Place:
    """A database and where the tables of a namespace are in it."""

    engine: str
    url: str
    schema: str

    def app(self, namespace: str, mark: str) -> Mainspring:
        """An app of that namespace, with consumers, a schedule and a fan-out."""
        app = Mainspring(
            self.url,
            name="shop",
            namespace=namespace,
            schema=self.schema,
            keep="all",
            auto_migrate=True,
            idle_poll="50ms",
        )

        @app.consumer("orders.placed")
        async def ship(order: Any) -> str:
            return mark

        @app.consumer("orders.paid")
        async def bill(order: Any) -> str:
            return mark

        @app.recurring(every("24h"), name="nightly")
        async def nightly() -> None: ...

        @app.fanout("etl", "payments", cron="0 0 1 1 *")
        async def tenants() -> AsyncIterator[str]:
            for shard in ("a", "b"):
                yield shard

        @tenants.slices()
        async def load(each: Any) -> None: ...

        app.queue("jobs", "jobs.new")
        app.consumers_of_the_walk = (ship, bill)  # type: ignore[attr-defined]
        return app

    async def tables(self, namespace: str) -> dict[str, list[str]]:
        """Every row of every table of the namespace, as text."""
        if self.engine == "memory":
            return {}
        if self.engine == "sqlite":
            return await asyncio.to_thread(self._sqlite, f"{self.schema}-{namespace}_")
        connection = await asyncpg.connect(self.url)
        try:
            named = f"{self.schema}-{namespace}"
            tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", named)
            return {
                table: sorted(row[0] for row in await connection.fetch(f'SELECT t::text FROM "{named}".{table} AS t'))
                for (table,) in tables
            }
        finally:
            await connection.close()

    def _sqlite(self, prefix: str) -> dict[str, list[str]]:
        with sqlite3.connect(self.url.removeprefix("sqlite:///")) as file:
            names = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            mine = [name for name in names if name.startswith(prefix)]
            return {name: sorted(map(repr, file.execute(f'SELECT * FROM "{name}"'))) for name in mine}


async def stock(app: Mainspring, mark: str) -> None:
    """Put something of everything into the namespace."""
    said = {"who": mark}
    await app.declare()
    await app.publish("orders.paid", said, message_id=WAITING, key="order:1", delay=HOUR)
    await app.publish("nobody.listens", said, message_id=PARKED, key="order:1")
    for id, verdict in ((DEAD, Bury(Failure("error", f"LookupError: {mark}", mark))), (HANDLED, Done(mark))):
        await app.publish("orders.placed", said, message_id=id)
        storage = await app._connection.storage("the walk")
        (held,) = await storage.mailbox.claim([ClaimRequest("ship", 1, ALL_LEVELS)], "node-1", HOUR)
        await storage.mailbox.settle([Settlement(held.claim, verdict, "all")], "node-1")
    if mark == THEIRS:
        for id in (ALONE, *TAKEN):
            await app.publish("orders.paid", said, message_id=id, key="order:1", delay=HOUR)
    await app.queue("jobs").declare()
    await app.publish("jobs.new", said, message_id=JOB)
    ship, bill = app.consumers_of_the_walk  # type: ignore[attr-defined]
    await app.join([(bill, said)], then=(ship, said), key="order:1")
    await app.publish("orders.paid", said, unique="key", key="alike", delay=HOUR)
    await app.groups.pause("bill", by=mark, reason=mark)
    await app.schedules.put("weekly", every("7d"), topic="reports.due", payload=said, by=mark)
    await app.schedules.trigger("weekly", by=mark)
    await app.inbox.failed(await app.inbox.admit("evt_1", "stripe"), error=mark)
    await app.inbox.admit("evt_2", "stripe")
    await app.leases.acquire("reports", HOUR)
    await app.fanouts.edit("etl", "payments", "a", every="1h", by=mark)
    await app.fanouts.run("etl", "payments", by=mark)
    await storage.upkeep.beat(Beat("node-1", "shop", mark, 1, ("ship",), 2, "poll"))


async def shown(app: Mainspring) -> dict[str, Any]:
    """Everything that the namespace shows of itself by its public reads, without the time of asking."""
    found: dict[str, Any] = {state: await app.messages.list(state) for state in get_args(State)}
    for id in (WAITING, PARKED, DEAD, HANDLED, JOB, ALONE, *TAKEN):
        found[str(id)] = await app.messages.get(id)
    found["runs"] = await app.messages.runs()
    found["failures"] = await app.messages.failures()
    found["causes"] = await app.dead.causes()
    found["groups"] = await app.groups.list()
    found["workers"] = await app.workers.list()
    found["schedules"] = await app.schedules.list()
    found["recent"] = await app.schedules.recent()
    found["inbox"] = await app.inbox.list()
    found["leases"] = await app.leases.list()
    found["joins"] = await app.joins.list()
    found["fanouts"] = await app.fanouts.list()
    found["cursors"] = await app.fanouts.cursors("etl", "payments")
    found["policies"] = await app.fanouts.policies("etl", "payments")
    found["audit"] = await app.audit()
    found["tally"] = _timeless(await app.stats.tally())
    found["roster"] = _timeless(await app.stats.roster())
    return found


def _timeless(view: Any) -> Any:
    assert is_dataclass(view)
    return replace(view, now=None)  # type: ignore[type-var]
