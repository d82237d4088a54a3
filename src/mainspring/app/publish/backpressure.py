"""Back-pressure on every publish to groups that have a limit: admit, wait or reject."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

from mainspring.app.connection import Connection
from mainspring.app.consume.limits import Backlogs
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import Backlogged, StorageUnavailable
from mainspring.model.message import Draft
from mainspring.timing.clock import Clock
from mainspring.timing.duration import spell

PATIENCE = timedelta(seconds=30)
"""How long a publish waits for room before it raises."""


class Backpressure:
    """Admission of drafts to groups that have room, all of a call or none.

    A count is queried at most once a second and otherwise cached, plus what was admitted since; sooner only if that
    alone makes a group full. So the limit is exceeded by what other processes publish in between, and by publishes
    in flight.
    """

    def __init__(self, backlogs: Backlogs, connection: Connection, transactions: Transactions, clock: Clock) -> None:
        self._backlogs = backlogs
        self._connection = connection
        self._transactions = transactions
        self._clock = clock
        self._counting: asyncio.Future[None] | None = None

    async def admit(self, drafts: Sequence[Draft], tx: object, call: str) -> None:
        """Return when there is room for all of these, or raise Backlogged. A caller's transaction never waits."""
        wanted = self._backlogs.wanted(drafts)
        if not wanted:
            return
        if self._connection.stand_in is not None:
            limits = {group: self._backlogs.limits[group].most for group in wanted}
            self._refuse(wanted, self._backlogs.full(wanted, await self._pending(limits, tx, call)))
            return
        began = self._clock.monotonic()
        while await self._count(wanted, tx, call):
            full = self._backlogs.take(wanted)
            if not full:
                return
            if await self._recount(full, tx, call):
                continue
            now = self._clock.monotonic()
            may_wait = tx is None and self._backlogs.may_wait(wanted, full)
            if not may_wait or now - began >= PATIENCE.total_seconds():
                self._refuse(wanted, full, PATIENCE if may_wait else None)
            await asyncio.sleep(self._backlogs.until_count(full, now))
            wanted = self._backlogs.wanted(drafts)  # a limit may be gone by now

    async def _count(self, groups: Mapping[str, int], tx: object, call: str) -> bool:
        """Count what waits for each of these; False if the database is unavailable."""
        while True:
            now = self._clock.monotonic()
            limits = self._backlogs.due(groups, now)
            if not limits:
                limits = self._backlogs.unknown(groups, now)
                if not limits:
                    return True
                if await self._others_counted(tx):
                    continue
            if not await self._query(limits, tx, call):
                return False

    async def _recount(self, full: Mapping[str, int], tx: object, call: str) -> bool:
        """Recount what is full by estimate; return whether it did."""
        if not self._backlogs.guessed(full):
            return False
        if await self._others_counted(tx):
            return True
        doubtful = self._backlogs.doubtful(full, self._clock.monotonic())
        return bool(doubtful) and await self._query(doubtful, tx, call)

    async def _others_counted(self, tx: object) -> bool:
        """Await another caller's count; False if there is none."""
        counting = self._counting
        # A transaction never waits for others, since they may wait for a lock that it holds.
        if tx is not None or counting is None or counting.get_loop() is not asyncio.get_running_loop():
            return False
        await asyncio.wait([counting])
        return True

    async def _query(self, limits: Mapping[str, int], tx: object, call: str) -> bool:
        # With tx= the call never waits for another count, so it needs no loop.
        mine = asyncio.get_running_loop().create_future() if tx is None else None
        if mine is not None:
            self._counting = mine
        before = self._backlogs.before(limits)
        try:
            waiting = await self._pending(limits, tx, call)
        except BaseException as error:
            self._backlogs.not_learned(limits)
            if tx is None and isinstance(error, StorageUnavailable):
                return False  # storing retries, and raises if the database does not come back
            raise
        finally:
            if mine is not None:
                mine.set_result(None)
                if self._counting is mine:
                    self._counting = None
        self._backlogs.learn(waiting, before, self._clock.monotonic())
        return True

    async def _pending(self, limits: Mapping[str, int], tx: object, call: str) -> Mapping[str, int]:
        if tx is None:
            return await (await self._connection.storage(call)).ledger.pending(limits)
        # On the caller's connection: it may be the only one, and sees what was published on it already.
        return await self._transactions.run(tx, self._transactions.operations.mailbox.pending.script(limits))

    def _refuse(self, wanted: Mapping[str, int], full: Mapping[str, int], waited: timedelta | None = None) -> None:
        for group, waiting in full.items():
            limit = self._backlogs.limits[group].most
            time = None if waited is None else spell(waited)
            raise Backlogged(group, limit, min(waiting, limit), wanted[group], time)
