"""A shop on many databases: a worker process, `python -m tests.faults.shards PLAN`, and the run around these."""

import asyncio
import contextlib
import json
import logging
import random
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Literal
from uuid import UUID, uuid4

import msgspec
import psycopg

from mainspring import Context, Fleet, Mainspring
from mainspring.model.errors import StorageUnavailable
from mainspring.storage.sqlite.lender import AsyncSqlite
from tests.faults.ledger import Effects, Execution, Ledger, executions
from tests.faults.nursery import Born, nursery
from tests.faults.services import execute
from tests.faults.waiting import PATIENCE, until

TOPIC = "orders"
EFFECT = "CREATE TABLE effect (message_id text, shard text)"
_TICK = 0.05


@dataclass(frozen=True, slots=True)
class Order:
    """A message: the database that it is for, and how long its handler takes the first time."""

    n: int
    shard: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """How a worker process is set up."""

    directory: str
    """A file with what names the databases."""
    folder: str
    claim_time: float = 2.0
    most_open: int = 5
    """As many as the databases of one server: those of a dead one could have every turn."""
    bug: Literal["apart", "astray"] | None = None
    """A bug to seed, so that the checker can prove its teeth."""


def build(plan: ShardPlan) -> Fleet:
    """The fleet under test, as a user would write it."""
    options: dict[str, Any] = {"claim_time": f"{plan.claim_time}s", "grace": "100ms", "pool_size": 2, "handler_pool": 2}
    app = Mainspring("fleet://", name="faults", **options)
    effects = Effects(Path(plan.folder) / "effects")

    async def discover() -> dict[str, str]:
        found = json.loads(Path(plan.directory).read_text())
        if isinstance(found, str):
            raise RuntimeError(found)
        urls: dict[str, str] = found
        return urls

    @app.consumer(TOPIC, group="orders", transactional=True, concurrency=2)
    async def place(order: Order, ctx: Context) -> None:
        effects.begin(ctx.message_id, order.n, ctx.fence, ctx.attempt, key=order.shard)
        nap = order.seconds if ctx.fence == 1 else 0.0
        # A file has one writer at a time: there it naps before it writes.
        before, after = (nap, 0.0) if isinstance(ctx.tx, AsyncSqlite) else (0.0, nap)
        try:
            await asyncio.sleep(before)
            await _write(plan, order, ctx)
            await asyncio.sleep(after)
        except asyncio.CancelledError:
            effects.end(ctx.message_id, ctx.fence, "told")
            raise
        effects.end(ctx.message_id, ctx.fence, "ok")

    return Fleet(app, discover, refresh="100ms")


async def _write(plan: ShardPlan, order: Order, ctx: Context) -> None:
    """Write the effect in the transaction of the message; with a bug, in another one, or in another database."""
    written = f"INSERT INTO effect VALUES ('{ctx.message_id}', '{order.shard}')"
    if plan.bug is None:
        await ctx.tx.execute(written)
        return
    urls: dict[str, str] = json.loads(Path(plan.directory).read_text())
    others = [url for name, url in urls.items() if name != order.shard]
    execute(others[0] if plan.bug == "astray" else urls[order.shard], written)
    if plan.bug == "apart" and ctx.fence == 1:
        await asyncio.sleep(PATIENCE)


@dataclass
class Found:
    """What the databases say, once everything is over."""

    published: int
    unknown: int
    """Whose publish was not answered for: each may be stored or not."""
    effects: int
    lost: set[UUID]
    doubled: list[UUID]
    astray: list[UUID]
    """Effects in another database than the message was for."""
    revived: int

    @property
    def flawless(self) -> bool:
        return not self.lost and not self.doubled and not self.astray

    def line(self) -> str:
        return (
            f"messages={self.published} unknown={self.unknown} effects={self.effects} lost={len(self.lost)} "
            f"doubled={len(self.doubled)} astray={len(self.astray)} revived={self.revived}"
        )


@dataclass
class Run:
    """Databases, the worker processes that serve them, publishers on all, and what came of it."""

    folder: Path
    urls: Mapping[str, str]
    seed: int
    processes: list[Born] = field(default_factory=list)
    killed: int = 0
    revived: int = 0
    stored: dict[UUID, tuple[str, float]] = field(default_factory=dict)
    """Of each publish that was answered for: its database, and when, by the machine's monotonic clock."""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.ledger = Ledger(self.folder / "ledger")
        self.directory = self.folder / "directory.json"
        self.answer(self.urls)
        self._shard: dict[UUID, str] = {}
        self._fleet = Fleet(Mainspring("fleet://", name="faults"), self.urls, keep_open=len(self.urls))

    def answer(self, databases: object) -> None:
        """What the worker processes are told from now on, as a whole; a text is an error that is raised."""
        part = self.directory.with_suffix(".part")
        part.write_text(json.dumps(databases))
        part.rename(self.directory)

    # --- processes -----------------------------------------------------------------------------------------

    def start(self, count: int, **changes: Any) -> None:
        """Start so many worker processes."""
        plan = msgspec.json.encode(ShardPlan(str(self.directory), str(self.folder), **changes)).decode()
        for _ in range(count):
            with (self.folder / f"worker-{len(self.processes)}.log").open("ab") as log:
                self.processes.append(nursery().start("tests.faults.shards", plan, log))
        self._plan = plan

    def kill(self) -> None:
        """Kill −9 one of them, and start another in its place."""
        number = self.chance.randrange(len(self.processes))
        self.processes[number].kill()
        self.processes[number].wait(PATIENCE)
        self.killed += 1
        with (self.folder / f"worker-{number}.log").open("ab") as log:
            self.processes[number] = nursery().start("tests.faults.shards", self._plan, log)

    def end(self) -> None:
        """End all."""
        for each in self.processes:
            each.kill()
            each.wait(PATIENCE)

    def logs(self) -> list[str]:
        """What the processes have logged, one text for each place."""
        return [path.read_text(errors="replace") for path in sorted(self.folder.glob("worker-*.log"))]

    async def logged(self, text: str, before: list[int]) -> None:
        """Wait until each place has logged this more often than before."""

        def more() -> bool:
            return all(now > then for now, then in zip(self.count(text), before, strict=True))

        await until(f"every process to log {text!r}", more)

    def count(self, text: str) -> list[int]:
        """How often each place has logged this."""
        return [log.count(text) for log in self.logs()]

    # --- publishing ----------------------------------------------------------------------------------------

    async def publish(self, shard: str, seconds: float = 0.0) -> None:
        """Publish one; the ledger knows what became of the call."""
        id = uuid4()
        self._shard[id] = shard
        self.ledger.note("invoked", [id])
        order = Order(len(self._shard), shard, seconds)
        try:
            await self._fleet.publish(TOPIC, order, database=shard, message_id=id)
        except StorageUnavailable:
            self.ledger.note("unknown", [id])  # it may have been stored before the server went
        else:
            self.stored[id] = shard, time.monotonic()
            self.ledger.note("ok", [id])

    @asynccontextmanager
    async def load(self, rate: float, nap: float) -> AsyncIterator[None]:
        """Publish so many a second, to one database after another, for as long as the block lasts."""
        going = True
        shards = list(self.urls)

        async def flow() -> None:
            began, sent = time.monotonic(), 0
            async with asyncio.TaskGroup() as pending:
                while going:
                    for _ in range(int((time.monotonic() - began) * rate) - sent):
                        pending.create_task(self.publish(shards[sent % len(shards)], self.chance.uniform(0, nap)))
                        sent += 1
                    await asyncio.sleep(_TICK)

        task = asyncio.create_task(flow())
        try:
            yield
        finally:
            going = False
            await task

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Publishers are ready; at the end every process is ended."""
        try:
            async with self._fleet:
                yield
        finally:
            self.end()
            self.ledger.close()

    # --- what came of it -----------------------------------------------------------------------------------

    async def drained(self) -> None:
        """Wait until no database has anything left; revive what kills alone have made dead letters."""
        for name, url in self.urls.items():

            def empty(url: str = url) -> bool:
                with contextlib.suppress(psycopg.OperationalError):
                    return rows(url, "SELECT count(*) FROM {}delivery") == [(0,)]
                return False

            while True:
                await until(f"{name} to drain", empty, step=0.1)
                kinds = Counter(kind for (kind,) in rows(url, "SELECT kind FROM {}dead"))
                assert set(kinds) <= {"poison"}, kinds
                if not kinds:
                    break
                self.revived += kinds.total()
                await self._fleet[name].dead.revive(everything=True, by="the test")

    def executions(self) -> list[Execution]:
        """What the handlers wrote down."""
        return executions(self.folder / "effects")

    def found(self) -> Found:
        """Judge what the databases have, against what the publishers know."""
        effects: Counter[UUID] = Counter()
        astray: list[UUID] = []
        for name, url in self.urls.items():
            for text, _ in rows(url, "SELECT message_id, shard FROM effect"):
                id = UUID(text)
                effects[id] += 1
                if self._shard[id] != name:
                    astray.append(id)
        certain, unknown = self.ledger.ids("ok"), self.ledger.ids("unknown", "invoked")
        doubled = [id for id, times in effects.items() if times > 1]
        lost = certain - set(effects)
        return Found(len(certain), len(unknown), effects.total(), lost, doubled, astray, self.revived)

    def took(self, shards: Iterable[str], since: float, until: float) -> list[float]:
        """Of what was stored there in this time: the seconds until it was handled, infinite if it is not."""
        chosen = set(shards)
        ended = {each.id: each.ended for each in self.executions() if each.outcome == "ok" and each.ended is not None}
        found = [(id, at) for id, (shard, at) in self.stored.items() if shard in chosen and since <= at < until]
        return [ended.get(id, inf) - at for id, at in found]


def rows(url: str, query: str) -> list[Any]:
    """The rows of a query as another program reads them; ``{}`` is where a table of ours has its prefix."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=20)) as connection:
            return connection.execute(query.format("mainspring_")).fetchall()
    with psycopg.connect(url) as connection:
        return connection.execute(query.format("mainspring.").encode()).fetchall()


async def prepare(url: str) -> None:
    """Make the tables, ours and that of the effects."""
    await Mainspring(url, name="faults").migrate()
    execute(url, EFFECT)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    told = msgspec.json.decode(sys.argv[1], type=ShardPlan)
    build(told).run(longest_pause="1s", idle="2s", most_open=told.most_open)
