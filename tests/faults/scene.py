"""One fault run: a database, a fleet on it, publishers, and the judgement at the end."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from mainspring import Mainspring
from mainspring.model.errors import StorageUnavailable
from tests.faults.fleet import Fleet, Member
from tests.faults.judge import Judgement, judge
from tests.faults.ledger import Execution, Ledger, executions
from tests.faults.plan import TOPIC, Job, Plan
from tests.faults.tables import PostgresTables, SqliteTables, tables_of
from tests.faults.waiting import PATIENCE, until
from tests.faults.worker import build

_TICK = 0.05


class Scene:
    """What a fault test works with."""

    def __init__(self, plan: Plan, tables: PostgresTables | SqliteTables, fleet: Fleet, seed: int) -> None:
        self.plan = plan
        self.tables = tables
        self.fleet = fleet
        self.seed = seed
        self.chance = random.Random(seed)
        self.ledger = Ledger(Path(plan.folder) / "ledger")
        self.deaths: dict[int, float] = {}
        self.stored_at: list[float] = []
        """When each publish that is certain was answered for, by the monotonic clock."""
        self._n = 0

    async def workers(self, count: int, **changes: Any) -> list[Member]:
        """Start so many workers and wait until they are ready."""
        plan = replace(self.plan, **changes)
        started = [self.fleet.start(plan) for _ in range(count)]
        await self.fleet.ready(*started)
        return started

    @property
    def engine(self) -> str:
        return "SQLite" if self.plan.url.startswith("sqlite") else "PostgreSQL"

    @asynccontextmanager
    async def publishing(self, url: str | None = None) -> AsyncIterator[Mainspring]:
        """An app of this process, open for publishing."""
        app = Mainspring(url or self.plan.url, name="clients", schema=self.plan.schema, auto_migrate=True)
        async with app:
            yield app

    async def publish(self, app: Mainspring, jobs: list[Job], **options: Any) -> list[UUID]:
        """Publish these at once; the ledger knows what became of each call."""
        ids = [uuid4() for _ in jobs]
        self.ledger.note("invoked", ids)
        calls = [app.publish(TOPIC, job, message_id=id, **options) for id, job in zip(ids, jobs, strict=True)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        outcome: dict[bool | None, list[UUID]] = {True: [], False: [], None: []}
        for id, answer in zip(ids, answers, strict=True):
            # A storage that was away may have stored it before it went: nobody knows.
            known = not isinstance(answer, StorageUnavailable)
            outcome[not isinstance(answer, BaseException) if known else None].append(id)
        self.stored_at += [time.monotonic()] * len(outcome[True])
        self.ledger.note("ok", outcome[True])
        self.ledger.note("failed", outcome[False])
        self.ledger.note("unknown", outcome[None])
        return ids

    def jobs(self, count: int, **fields: Any) -> list[Job]:
        """So many jobs, numbered on."""
        first, self._n = self._n, self._n + count
        return [Job(n, **fields) for n in range(first, self._n)]

    @asynccontextmanager
    async def load(
        self, app: Mainspring, rate: int, make: Callable[[int], list[Job]] | None = None
    ) -> AsyncIterator[None]:
        """Publish ``rate`` messages a second for as long as the block lasts."""
        going = True

        async def flow() -> None:
            began, sent = time.monotonic(), 0
            pending: set[asyncio.Task[Any]] = set()
            while going:
                due = int((time.monotonic() - began) * rate) - sent
                if due > 0:
                    jobs = make(due) if make else self.jobs(due, seconds=0.005)
                    pending.add(asyncio.create_task(self.publish(app, jobs)))
                    sent += due
                pending = {task for task in pending if not task.done()}
                await asyncio.sleep(_TICK)
            await asyncio.gather(*pending)

        task = asyncio.create_task(flow())
        try:
            yield
        finally:
            going = False
            await task

    async def any_ready(self) -> Member:
        """One of the fleet at random, when at least two of them work: somebody must be there to take over."""

        def ready() -> list[Member]:
            return self.fleet.working(self.fleet.members)

        await until("two workers to be ready", lambda: len(ready()) >= 2)
        return self.chance.choice(ready())

    def kill(self, member: Member) -> None:
        """Kill −9 one of the fleet and remember when."""
        self.deaths[member.pid] = member.kill()

    def executions(self) -> list[Execution]:
        return executions(self.plan.effects) if self.plan.effects.exists() else []

    async def begun(self, count: int) -> None:
        """Wait until so many executions have begun."""
        await until(f"{count} executions to begin", lambda: len(self.executions()) >= count)

    async def running(self, since: float = 0.0, message: UUID | None = None) -> Member:
        """Wait until somebody of the fleet is at work on something begun since then, or on this message."""
        found: list[Member] = []

        def at_work() -> bool:
            pids = {
                each.pid
                for each in self.executions()
                if each.outcome is None and each.began >= since and message in (None, each.id)
            }
            found[:] = [member for member in self.fleet.members if member.pid in pids]
            return bool(found)

        await until("somebody to be at work", at_work)
        return self.chance.choice(found)

    async def declared(self) -> None:
        """Make the tables and the groups, without a worker."""
        async with build(self.plan) as app:
            await app.declare()

    async def drained(self, seconds: float = PATIENCE) -> float:
        """Wait until nothing is left to do."""

        def empty() -> bool:
            with contextlib.suppress(Exception):
                return self.tables.live() == 0
            return False

        return await until("the queue to drain", empty, seconds, step=0.05)

    def open_gate(self) -> None:
        self.plan.gate.touch()

    def judge(self, kills: int = 0, concurrency: int | None = None) -> Judgement:
        """Judge what happened: each kill may cost what was in hand, twice the concurrency at the most."""
        in_hand = 2 * (concurrency or self.plan.concurrency)
        return judge(self.ledger, self.executions(), self.tables, kills * in_hand)


@contextmanager
def scene_on(folder: Path, seed: int, *, url: str, schema: str, direct: str | None = None) -> Iterator[Scene]:
    """A scene on a database; ``direct`` is its address for the judge where workers go through a proxy."""
    plan = Plan(url, schema, str(folder))
    tables = tables_of(direct or url, schema)
    with Fleet(folder, tables) as fleet:
        scene = Scene(plan, tables, fleet, seed)
        try:
            yield scene
        finally:
            scene.ledger.close()
            tables.close()
