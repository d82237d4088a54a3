"""The gate before every publish to groups that have a limit: it lets through, waits or refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

from mainspring.app.backlog import Backlogs
from mainspring.app.door import Door
from mainspring.app.transactions import Transactions
from mainspring.model.errors import Backlogged, StorageUnavailable
from mainspring.model.message import Draft
from mainspring.timing.clock import Clock
from mainspring.timing.duration import spell

PATIENCE = timedelta(seconds=30)
"""How long a publish waits for room before its caller is told that there is none."""


class Gate:
    """Lets drafts through to groups that have room, all of a call or none.

    A count is asked for once a second at most and otherwise remembered, with what was let through since; sooner only
    where that alone makes a group full. So it lets through more than the limit by what other processes publish
    meanwhile, and by what is on its way.
    """

    def __init__(self, backlogs: Backlogs, door: Door, transactions: Transactions, clock: Clock) -> None:
        self._backlogs = backlogs
        self._door = door
        self._transactions = transactions
        self._clock = clock
        self._looking: asyncio.Future[None] | None = None

    async def admit(self, drafts: Sequence[Draft], tx: object, call: str) -> None:
        """Return when there is room for all of these; raises Backlogged. A transaction of the caller's never waits."""
        wanted = self._backlogs.wanted(drafts)
        if not wanted:
            return
        if self._door.stand_in is not None:
            limits = {group: self._backlogs.limits[group].most for group in wanted}
            self._refuse(wanted, self._backlogs.full(wanted, await self._pending(limits, tx, call)))
            return
        began = self._clock.monotonic()
        while await self._look(wanted, tx, call):
            full = self._backlogs.take(wanted)
            if not full:
                return
            if await self._look_again(full, tx, call):
                continue
            now = self._clock.monotonic()
            may_wait = tx is None and self._backlogs.may_wait(wanted, full)
            if not may_wait or now - began >= PATIENCE.total_seconds():
                self._refuse(wanted, full, PATIENCE if may_wait else None)
            await asyncio.sleep(self._backlogs.until_look(full, now))
            wanted = self._backlogs.wanted(drafts)  # a limit may be gone by now

    async def _look(self, groups: Mapping[str, int], tx: object, call: str) -> bool:
        """Know how many wait for each of these; False when the database is away, and nobody can know."""
        while True:
            now = self._clock.monotonic()
            asked = self._backlogs.due(groups, now)
            if not asked:
                asked = self._backlogs.unknown(groups, now)
                if not asked:
                    return True
                if await self._others_looked(tx):
                    continue
            if not await self._ask(asked, tx, call):
                return False

    async def _look_again(self, full: Mapping[str, int], tx: object, call: str) -> bool:
        """Whether more is known now of what was full by a guess only."""
        if not self._backlogs.guessed(full):
            return False
        if await self._others_looked(tx):
            return True
        doubtful = self._backlogs.doubtful(full, self._clock.monotonic())
        return bool(doubtful) and await self._ask(doubtful, tx, call)

    async def _others_looked(self, tx: object) -> bool:
        """Let somebody else's look end; False when nobody looks."""
        looking = self._looking
        # In a transaction nobody waits for others, since they may wait for a lock that it holds.
        if tx is not None or looking is None or looking.get_loop() is not asyncio.get_running_loop():
            return False
        await asyncio.wait([looking])
        return True

    async def _ask(self, asked: Mapping[str, int], tx: object, call: str) -> bool:
        # With tx= the call never waits for the look of another, so it needs no loop.
        mine = asyncio.get_running_loop().create_future() if tx is None else None
        if mine is not None:
            self._looking = mine
        before = self._backlogs.before(asked)
        try:
            waiting = await self._pending(asked, tx, call)
        except BaseException as error:
            self._backlogs.not_learned(asked)
            if tx is None and isinstance(error, StorageUnavailable):
                return False  # storing waits for the database, and tells the caller if it does not come back
            raise
        finally:
            if mine is not None:
                mine.set_result(None)
                if self._looking is mine:
                    self._looking = None
        self._backlogs.learn(waiting, before, self._clock.monotonic())
        return True

    async def _pending(self, limits: Mapping[str, int], tx: object, call: str) -> Mapping[str, int]:
        if tx is None:
            return await (await self._door.storage(call)).ledger.pending(limits)
        # On the caller's connection: it may be the only one there is, and sees what was published on it already.
        return await self._transactions.run(tx, self._transactions.rooms.mailbox.pending.script(limits))

    def _refuse(self, wanted: Mapping[str, int], full: Mapping[str, int], waited: timedelta | None = None) -> None:
        for group, waiting in full.items():
            limit = self._backlogs.limits[group].most
            said = None if waited is None else spell(waited)
            raise Backlogged(group, limit, min(waiting, limit), wanted[group], said)
