"""Renews leases from a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from mainspring.model.errors import MainspringError
from mainspring.model.lease import Hold
from mainspring.runtime.holding import CLOSED, TAKEN, Holding
from mainspring.runtime.rate_limited_log import RateLimitedLog
from mainspring.runtime.service import FOREVER
from mainspring.runtime.thread_service import ThreadService
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

_BATCH = 1_000
_TICK = 1.0
"""Seconds between two looks at the clock: a machine that has slept does not know it by its timers."""
_BRIEF = 0.001
_AGAIN = 0.1
"""Seconds until a lease that was locked is asked for again."""


@dataclass(slots=True, eq=False)
class Return:
    """A lease that is to be given back by whoever has time for it, at the latest when it runs out by itself."""

    name: str
    holder: str
    until: float
    epoch: int | None = None
    """None where the reply to an acquire was lost: whether it was granted is found out by looking for its holder."""
    look_at: float = 0.0
    """When to look again, by the clock. A database may grant what was asked for after who asked has gone."""
    pause: float = _AGAIN


class LeaseKeeper(ThreadService):
    """Renews what is held, in one trip however many there are, whatever is done to the loops of their holders.

    It has its own thread, loop and connections, because driver objects never cross loops (invariant 8). It says to
    whoever holds a lease when that is lost: the database has said so, or has not answered in time.
    """

    longest_pause: float = 1.0

    def __init__(self, storage: Storage, clock: Clock, log: RateLimitedLog) -> None:
        super().__init__("leases", log, clock)
        self._shared = storage
        self._storage = storage.sibling()
        self._open: asyncio.AbstractEventLoop | None = None
        """The loop on which it is."""
        self._held: dict[Hold, Holding] = {}
        self._returns: list[Return] = []

    @property
    def held(self) -> int:
        """How many it renews."""
        return len(self._held)

    def keep(self, holding: Holding) -> None:
        """Renew it from now on. Safe from any thread."""
        self._held[holding.hold] = holding
        self.start()
        self.wake()

    def drop(self, holding: Holding) -> None:
        """Renew it no more. Safe from any thread."""
        self._held.pop(holding.hold, None)

    def give_back(self, what: Return) -> None:
        """Have it released; tried again until it has run out. Safe from any thread."""
        self._returns.append(what)
        self.start()
        self.wake()

    async def stop(self) -> None:
        """Give back what is held, and end."""
        for holding in list(self._held.values()):
            # Lost, not given back: a block that goes on must hear of it, before anybody else has it.
            if holding.lose(CLOSED):
                self._returns.append(Return(holding.hold.name, holding.hold.holder, holding.until, holding.hold.epoch))
        self._held.clear()
        await super().stop()

    async def turn(self) -> float:
        """Renew what needs it. Returns how long nothing will."""
        now = self._clock.elapsed()
        held = [each for each in list(self._held.values()) if not self._is_over(each)]
        due = sorted((each for each in held if each.renew_at <= now), key=lambda each: each.until)
        returns = [each for each in list(self._returns) if each.look_at <= now]
        if due or returns:
            await self._opened()
        for start in range(0, len(due), _BATCH):
            await self._renew(due[start : start + _BATCH])
        for each in returns:
            if await self._returned(each):
                self._returns.remove(each)
        # Asked once more: who was told meanwhile that something is lost may have let go of it, and others have come.
        next_at = min((min(each.renew_at, each.until) for each in list(self._held.values())), default=FOREVER)
        next_at = min(next_at, min((each.look_at for each in list(self._returns)), default=FOREVER))
        return FOREVER if next_at == FOREVER else min(max(next_at - self._clock.elapsed(), _BRIEF), _TICK)

    async def finish(self) -> None:
        """Give back what is left, once."""
        with contextlib.suppress(MainspringError):
            if self._returns:
                await self._opened()
            for each in self._returns:
                await self._returned(each)
        if self._open:
            await self._storage.close()

    async def _opened(self) -> None:
        if self._open is not (loop := asyncio.get_running_loop()):
            if self._open is not None:
                self._storage = self._shared.sibling()  # its loop has ended, and its connections with it
            await self._storage.open()
            self._open = loop

    async def _renew(self, due: Sequence[Holding]) -> None:
        sent = self._clock.elapsed()
        answer = await self._storage.leases.renew([each.renewal for each in due])
        for each in due:
            if each.hold in answer.lost:
                each.lose(TAKEN)
                self.drop(each)
            elif each.hold in answer.busy:
                each.later(sent + _AGAIN)
            else:
                each.renewed(sent)

    async def _returned(self, what: Return) -> bool:
        """Whether there is nothing left to give back."""
        now = self._clock.elapsed()
        if now >= what.until:
            return True
        epoch = what.epoch
        if epoch is None:
            found = await self._storage.leases.find(what.name)
            if found is None or found.holder != what.holder or found.state != "held":
                # Not yet, perhaps: its request may still be on its way, or in a transaction that nobody sees.
                what.look_at = now + what.pause
                what.pause *= 2
                return False
            epoch = found.epoch
        await self._storage.leases.release(what.name, epoch, what.holder)
        return True

    def _is_over(self, holding: Holding) -> bool:
        over = holding.over is not None  # which tells its holder, once
        if over:
            self.drop(holding)
        return over
