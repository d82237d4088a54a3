"""The shop on PostgreSQL and billing on a database of its own, with a broker between them, and what came of a run."""

import asyncio
import json
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psycopg

from mainspring import Mainspring
from mainspring.brokers import Broker
from tests.faults.nursery import Born, nursery
from tests.faults.places import Place
from tests.faults.relaying import TOPIC, Spec, billing, broker, shop
from tests.faults.tables import PostgresTables
from tests.faults.waiting import PATIENCE, until

POISON = "processes died while holding it"
"""In the error of what was buried because its processes ended."""


class Service:
    """So many processes of one service; one that was killed is replaced."""

    def __init__(self, log: IO[bytes], count: int, *argument: object) -> None:
        self._log = log
        self._argument = json.dumps(argument)
        self.processes: list[Born] = [self._start() for _ in range(count)]

    def kill(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait(30)
        self.processes[number] = self._start()

    def end(self) -> None:
        for each in self.processes:
            each.kill()
            each.wait(30)

    def stop(self) -> float:
        """Ask all to end, and return how many seconds that took the last of them."""
        since = time.monotonic()
        for each in self.processes:
            each.send_signal(signal.SIGTERM)
        for each in self.processes:
            each.wait(PATIENCE)
        return time.monotonic() - since

    def replace_dead(self) -> int:
        """Start again those that have ended; return how many."""
        dead = [number for number, each in enumerate(self.processes) if each.poll() is not None]
        for number in dead:
            self.processes[number] = self._start()
        return len(dead)

    def _start(self) -> Born:
        return nursery().start("tests.faults.relaying", self._argument, self._log)


@dataclass
class Found:
    """What came of a run."""

    published: set[int]
    sent: int
    """How many deliveries of the route were settled as sent."""
    effects: Counter[int]
    wire: Counter[int] | None = None
    """What the witness has read; None if it has not."""
    bound: int | None = None
    """How many duplicates there may be on the wire."""
    took: float = 0.0

    @property
    def lost(self) -> set[int]:
        return self.published - set(self.effects)

    @property
    def not_there(self) -> set[int]:
        return set() if self.wire is None else self.published - set(self.wire)

    @property
    def doubled(self) -> list[int]:
        return [order for order, times in self.effects.items() if times > 1]

    @property
    def duplicates(self) -> int:
        return 0 if self.wire is None else self.wire.total() - len(self.wire)

    @property
    def flaws(self) -> list[object]:
        """What must not be: lost, sent and not there, or doubled; and more duplicates than there may be."""
        over = 0 if self.bound is None else max(0, self.duplicates - self.bound)
        return [each for each in (self.lost, self.not_there, self.doubled, over) if each]

    def line(self) -> str:
        read = not_there = duplicates = ""
        if self.wire is not None:
            read, not_there = f" received={self.wire.total()}", f" sent-but-not-there={len(self.not_there)}"
            duplicates = f" duplicates={self.duplicates}" + ("" if self.bound is None else f"≤{self.bound}")
        return (
            f"published={len(self.published)} sent={self.sent}{read} effects={self.effects.total()} "
            f"lost={len(self.lost)}{not_there} doubled={len(self.doubled)}{duplicates} drained={self.took:.1f}s"
        )


@dataclass
class Services:
    """Both services at work: what is published by ``app`` is relayed to ``at``, and has an effect in billing."""

    app: Mainspring
    at: Place
    relays: Service
    intakes: Service
    billing_url: str
    tables: PostgresTables
    log: Path
    published: set[int] = field(default_factory=set)

    async def publish(self, orders: Iterable[int], together: int = 1) -> None:
        """Publish orders by their numbers, so many in each call."""
        left = list(orders)
        while left:
            now, left = left[:together], left[together:]
            await self.app.publish_many([(TOPIC, order) for order in now])
            self.published.update(now)

    async def drained(self) -> int:
        """Wait until the route has nothing left; return how many of its messages are dead letters."""
        async with asyncio.timeout(PATIENCE):
            while True:
                group = await self.route()
                if group["waiting"] == 0:
                    return group["dead"]
                await asyncio.sleep(0.05)

    async def route(self) -> dict[str, int]:
        """How many deliveries of the route wait, have been put off, and are dead letters."""
        (group,) = [each for each in (await self.app.stats.tally()).groups if each.group == "broker"]
        waiting = group.ready + group.running + group.scheduled + group.lapsed
        return {"waiting": waiting, "put off": group.scheduled, "dead": group.dead}

    def attempts(self) -> int:
        """How many attempts are counted against deliveries of the route that nothing holds."""
        free = f"FROM {self.tables.prefix}delivery WHERE group_name = 'broker' AND held_by IS NULL"
        (row,) = self.tables.rows(f"SELECT coalesce(sum(attempt), 0) {free}")
        return int(row[0])

    def effects(self) -> Counter[int]:
        return effects(self.billing_url)

    async def effective(self, orders: Iterable[int], patience: float = PATIENCE) -> float:
        """Wait until each has its effect; return how long that took."""
        wanted = set(orders)
        return await until("every effect", lambda: wanted <= set(self.effects()), patience)

    async def revived(self, orders: Iterable[int]) -> int:
        """Wait until each has its effect, and revive those that kills alone have made dead letters; return how many.

        A process that is killed three times while it has nothing but one suspect in hand makes a poison of it.
        """
        wanted, count = set(orders), 0
        async with Mainspring(self.billing_url, name="billing") as other, asyncio.timeout(PATIENCE):
            while not wanted <= set(self.effects()):
                for app in (self.app, other):
                    buried = await app.dead.list()
                    assert all(POISON in str(each.error) for each in buried), buried
                    count += len(buried)
                    for each in buried:
                        await app.dead.revive(each.message_id)
                await asyncio.sleep(0.2)
        return count

    async def found(self, dead: int = 0, *, since: float, bound: int | None = None, witness: bool = True) -> Found:
        """Say what came of all that was published, ``since`` when it could flow."""
        took = time.monotonic() - since
        wire = await seen(broker(self.at.witness), len(self.published)) if witness else None
        published, got = set(self.published), self.effects()
        for each in (got, wire or got):
            for order in set(each) - published:  # of an earlier run on the same place
                del each[order]
        return Found(published, len(published) - dead, got, wire, bound, took)


@asynccontextmanager
async def services(
    folder: Path,
    shop_url: str,
    schema: str,
    at: Place,
    *,
    processes: int = 1,
    billing_url: str | None = None,
    bug: bool = False,
) -> AsyncIterator[Services]:
    """Start both services, each with so many processes; billing is on SQLite unless it is named."""
    billing_url = billing_url or f"sqlite:///{folder}/billing.db"
    await Mainspring(billing_url, name="billing").migrate()
    execute(billing_url, "CREATE TABLE effect (number integer NOT NULL)")
    app = shop(shop_url, schema, broker(at.to))
    await app.declare()
    await billing(billing_url, "mainspring", broker(at.source)).declare()
    with (folder / "log").open("wb") as log, closing(PostgresTables(shop_url, schema)) as tables:
        relays = Service(log, processes, "shop", shop_url, schema, at.to, bug)
        intakes = Service(log, processes, "billing", billing_url, "mainspring", at.source, bug)
        try:
            async with app:
                yield Services(app, at, relays, intakes, billing_url, tables, folder / "log")
        finally:
            relays.end()
            intakes.end()


async def declare(*specs: Spec) -> None:
    """Make what these need on their broker."""
    for each in specs:
        connection = await broker(each).connect()
        await connection.declare()
        await connection.close()


async def seen(reads: Broker, least: int, patience: float = 10.0) -> Counter[int]:
    """Read all that is there; return the orders. Until ``least`` were read, wait for more so many seconds."""
    connection = await reads.connect()
    found: Counter[int] = Counter()
    try:
        while batch := await connection.receive(1000, 0.5 if found.total() >= least else patience):
            found.update(int(each.body) for each in batch)
            await connection.ack(batch)
    finally:
        await connection.close()
    return found


def execute(url: str, statement: str) -> None:
    """Execute a statement as another program would."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file, file:
            file.execute(statement)
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement)


def effects(url: str) -> Counter[int]:
    """The effects in the database of billing."""
    query = "SELECT number FROM effect"
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            return Counter(number for (number,) in connection.execute(query))
    with psycopg.connect(url) as connection:
        return Counter(number for (number,) in connection.execute(query))
