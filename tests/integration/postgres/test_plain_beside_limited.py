"""A consumer without limits pays nothing for its neighbours': it runs the statements it ran before there were any."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

from mainspring.model.limits import Limits, Rate
from mainspring.model.message import Delivery, Draft
from mainspring.model.views import Declaration
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.settings import WorkerSettings
from mainspring.runtime.worker import Worker
from mainspring.storage.operation import HandSet, Lane
from mainspring.storage.portable.statements import statements
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import PACKAGE, Names
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.script import Row, Script, Statement
from mainspring.timing.backoff import NO_RETRY

T = TypeVar("T")
HOUR = timedelta(hours=1)
LIMITED = {
    "in order": Limits(ordered=True),
    "few at once": Limits(key_concurrency=2, global_concurrency=3),
    "now and then": Limits(rate=Rate(100, HOUR), key_rate=Rate(50, HOUR)),
}


class Told:
    """A gateway for the mailbox of a worker, which notes what it asks the database by the names of the statements."""

    def __init__(self, storage: PostgresStorage, schema: str) -> None:
        self._names = {Names(schema).sql(each): each for each in statements(PACKAGE)}
        self.asked: list[tuple[str, Any]] = []
        self._gateway = storage._gateway
        storage.mailbox = PostgresMailbox(Names(schema, own=True), self, HandSet())

    async def run(self, script: Script[T], lane: Lane) -> T:
        return await self._gateway.run(self._noted(script), lane)

    def _noted(self, script: Script[T]) -> Script[T]:
        rows: Sequence[Row] | None = None
        while True:
            try:
                statement: Statement = next(script) if rows is None else script.send(rows)
            except StopIteration as stop:
                answer: T = stop.value
                return answer
            self.asked.append((self._names[statement.sql], statement.args[0]))
            rows = yield statement


async def worked(storage: PostgresStorage, schema: str, limited: dict[str, Limits]) -> list[tuple[str, Any]]:
    """What is asked by a door of its own while a worker handles ten messages of each group, until it sleeps."""
    storage = storage.sibling()
    await storage.open()
    left = Counter(dict.fromkeys(("plain", *limited), 10))
    done = asyncio.Event()

    async def handle(delivery: Delivery, _: Run) -> None:
        left[delivery.group] -= 1
        if not +left:
            done.set()

    told = Told(storage, schema)
    handlers = [Handler(group, handle, NO_RETRY, limits=limited.get(group)) for group in left]
    worker = Worker(storage, handlers, [Declaration(each, "shop", (), "") for each in left], WorkerSettings())
    await worker.start()
    await storage.mailbox.publish(
        [Draft(uuid4(), "work", b"{}", key=f"k{n % 3}", group=group) for group in left for n in range(10)]
    )
    async with asyncio.timeout(60):
        await done.wait()
        while "upcoming" not in {name for name, _ in told.asked}:
            await asyncio.sleep(0.01)
    await worker.stop()
    await storage.close()
    return [each for each in told.asked if each[0] not in ("publish", "settle_done")]


async def test_it_asks_what_it_asked_and_nothing_is_asked_for_it_under_limits(
    storage: PostgresStorage, postgres_schema: str
) -> None:
    alone = await worked(storage, postgres_schema, {})
    beside = await worked(storage, postgres_schema, LIMITED)

    of_others = [each for each in beside if each[0].startswith("limited_")]
    shared = [each for each in beside if each[0] in ("reap", "upcoming") and each[1] != ["plain"]]
    for_it = [each for each in beside if each not in (*of_others, *shared)]
    assert {name for name, _ in alone} == {"claim", "reap", "upcoming"}
    # Claims, reaps and what comes next: each of its group alone, as before.
    assert {(name, *groups) for name, groups in for_it} == {(name, "plain") for name in ("claim", "reap", "upcoming")}
    assert {group for _, group in of_others if isinstance(group, str)} == set(LIMITED)
    assert all(len(groups) == 1 and groups[0] in LIMITED for _, groups in shared)
