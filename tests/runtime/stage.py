"""A worker on memory storage, and the few things a test does with it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from mainspring.app.blocking import at_once
from mainspring.model.message import Claim, Delivery, Draft, Priority
from mainspring.model.search import Filter
from mainspring.model.views import Declaration, DeliveryView, RunView
from mainspring.runtime.handler import Handler, Run
from mainspring.runtime.settings import WorkerSettings
from mainspring.runtime.worker import Worker
from mainspring.storage.memory import MemoryStorage
from mainspring.storage.script import Row, Script, Statement
from mainspring.timing.backoff import NO_RETRY, RetryPolicy

Call = Callable[[Delivery, Run], Awaitable[object]] | Callable[[Delivery, Run], object]
MILLISECOND = timedelta(milliseconds=1)
CLAIM_TIME = timedelta(seconds=1.5)
"""Short enough to wait for an extension, long enough that none comes too late on a busy machine."""


class Stage:
    """One group named ``work`` on the topic ``work``; ``calls`` records the attempts its handler saw."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.storage = storage
        self.calls: list[Delivery] = []
        self._changed = asyncio.Event()

    def handler(self, call: Call, *, group: str = "work", retry: RetryPolicy = NO_RETRY, **options: Any) -> Handler:
        """Wrap ``call`` so that every call is recorded."""

        async def recorded(delivery: Delivery, run: Run) -> object:
            self.record(delivery)
            result = call(delivery, run)
            return await result if isinstance(result, Awaitable) else result

        def recorded_plainly(delivery: Delivery, run: Run) -> object:
            self.record(delivery)
            return call(delivery, run)

        chosen = recorded_plainly if options.get("threaded") else recorded
        return Handler(group, chosen, retry, **options)

    def record(self, delivery: Delivery) -> None:
        self.calls.append(delivery)

    async def publish(
        self,
        count: int = 1,
        *,
        topic: str = "work",
        delay: timedelta = timedelta(),
        expires_in: timedelta | None = None,
        priority: Priority = Priority.NORMAL,
    ) -> list[uuid.UUID]:
        drafts = [
            Draft(uuid.uuid4(), topic, b"{}", delay=delay, expires_in=expires_in, priority=priority)
            for _ in range(count)
        ]
        await self.storage.mailbox.publish(drafts)
        return [draft.id for draft in drafts]

    async def runs(self) -> list[RunView]:
        """Every kept run, oldest first."""
        return list(reversed(await self.storage.ledger.runs(None, None, 1_000)))

    async def browse(self, state: Any) -> list[DeliveryView]:
        return list((await self.storage.ledger.browse(Filter(state=state, limit=10_000))).rows)

    async def until(self, condition: Callable[[], bool | Awaitable[bool]], patience: float = 60.0) -> None:
        """Wait for ``condition``, looking often; fail when it does not come true."""
        async with asyncio.timeout(patience):
            while True:
                answer = condition()
                if answer if isinstance(answer, bool) else await answer:
                    return
                await asyncio.sleep(0.002)

    async def empty(self) -> bool:
        """Whether nothing is left to deliver."""
        return not await self.browse("live")

    @asynccontextmanager
    async def worker(self, *handlers: Handler, **settings: Any) -> AsyncIterator[Worker]:
        """Run a worker around the block and stop it in good order."""
        worker = self.make(*handlers, **settings)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    def make(self, *handlers: Handler, storage: Any = None, **settings: Any) -> Worker:
        declarations = [Declaration(each.group, "app", (each.group,), "a test") for each in handlers]
        return Worker(storage or self.storage, handlers, declarations, WorkerSettings(**settings))

    async def declare(self, *groups: str) -> None:
        await self.storage.upkeep.declare([Declaration(group, "app", (group,), "a test") for group in groups])


def held_by(storage: MemoryStorage, claim: Claim) -> str:
    """What the delivery is held by, with the token of its holder's start."""
    ((holder,),) = rows(storage, "SELECT held_by FROM mainspring_delivery WHERE seq = ?", claim.id)
    return holder or ""


def rows(storage: MemoryStorage, sql: str, *values: object) -> Sequence[Row]:
    """What is in the tables."""

    def read() -> Script[Sequence[Row]]:
        return (yield Statement(sql, values))

    return at_once(lambda: storage.gateway.run(read(), "read"))


async def taken_over(stage: Stage, claim: Claim) -> Delivery:
    """Make a claim lapse, and have another process take the delivery over, as after a long freeze of this one."""
    while True:
        await stage.storage.mailbox.extend([claim], held_by(stage.storage, claim), timedelta())
        # The keeper has a thread of its own: it may extend the claim just between the two.
        if (suspect := await stage.storage.mailbox.reap(["work"], "another", timedelta(minutes=1))) is not None:
            return suspect
