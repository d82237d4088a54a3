"""Leases held by this process: until when each is certain, and the thread that renews them."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from mainspring.model.errors import MainspringError
from mainspring.model.lease import Hold, LeaseTrouble, Renewal
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.service import FOREVER, ThreadService
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

RENEWED_AFTER = 0.6
"""The share of its ttl after which a lease is renewed at the latest, so that time is left to retry."""
_JITTER = 0.1
_LATE = 0.1
"""The fraction of its ttl by which a renewal may be late unreported."""
_REPORTED_FOR = 300.0
"""Seconds for which a lost lease is reported."""

RAN_OUT = "it expired before it was renewed"
TAKEN = "according to the database it expired, or was released by an operator"
RELEASED = "it was released"
CLOSED = "the app was closed"
_FORKED = "it belongs to the process that this one was forked from"


class Holding:
    """One lease, for as long as no other process can have acquired it.

    That time is counted from before the acquiring or renewing request was sent, by a clock that advances while the
    process is frozen or the machine sleeps: it ends here no later than in the database. A lost lease stays lost, even
    if a late reply renews it. Safe from any thread; a forked child holds nothing.
    """

    def __init__(
        self, hold: Hold, ttl: timedelta, sent: float, clock: Clock, renew_after: float = RENEWED_AFTER
    ) -> None:
        self.hold: Hold = hold
        self.renewal: Renewal = Renewal(hold, ttl)
        self.on_lost: Callable[[], None] | None = None
        """Called once when it is lost, in the thread that detects it; not when it is released."""
        self.note_lost: Callable[[Holding, str], None] | None = None
        """Called before that, with the reason."""
        self._seconds = ttl.total_seconds()
        self._renew_after = renew_after
        self._clock = clock
        self._lock = threading.Lock()
        self._over: str | None = None
        self._pid = os.getpid()
        self.until: float = sent + self._seconds
        """Until when it is certain, by the clock."""
        self.renew_at: float = self._next(sent)
        """When to renew it, by the clock."""

    @property
    def over(self) -> str | None:
        """Why it is no longer held; None while it is."""
        if self._pid != os.getpid():  # the lock, too, may be held by a thread of the parent
            return _FORKED
        with self._lock:
            if self._over is None and self._clock.elapsed() >= self.until:
                self._over = RAN_OUT
                ran_out = True
            else:
                ran_out = False
        if ran_out:
            self._notify()
        return self._over

    def renewed(self, sent: float) -> None:
        """Record a renewal by a request that was sent at this time."""
        with self._lock:
            if self._over is None:
                self.until = max(self.until, sent + self._seconds)
                self.renew_at = self._next(sent)

    def lose(self, why: str) -> bool:
        """Mark it as lost. Returns False if it was not held any more."""
        ours = self.end(why)
        if ours:
            self._notify()
        return ours

    def end(self, why: str) -> bool:
        """Mark it as released. Returns False if it was not held any more."""
        if self.over is not None:
            return False
        with self._lock:
            ours, self._over = self._over is None, self._over or why
        return ours

    @property
    def late(self) -> float:
        """The seconds for which its renewal is overdue; an ordinary delay counts as none."""
        late = self._clock.elapsed() - self.renew_at
        return late if late > self._seconds * _LATE else 0.0

    def _notify(self) -> None:
        if self.note_lost is not None and self._over is not None:
            self.note_lost(self, self._over)
        if self.on_lost is not None:
            self.on_lost()

    def _next(self, sent: float) -> float:
        return sent + self._seconds * self._renew_after * random.uniform(1 - _JITTER, 1)


_BATCH = 1_000
_TICK = 1.0
"""Seconds between two checks of the clock: timers do not notice that the machine has slept."""
_BRIEF = 0.001
_AGAIN = 0.1
"""Seconds until the next attempt on a lease whose row was locked."""


@dataclass(slots=True, eq=False)
class Return:
    """A lease to be released in the background, at the latest until it expires."""

    name: str
    holder: str
    until: float
    epoch: int | None = None
    """None if the reply to an acquire was lost: the holder is then looked up."""
    check_at: float = 0.0
    """When to check again, by the clock. A database may grant a request after its caller has gone."""
    pause: float = _AGAIN


class LeaseKeeper(ThreadService):
    """Renews all held leases, in one trip, even while their holders' loops are blocked.

    It notifies the holder of a lease that is lost: the database has reported so, or has not replied in time.
    """

    longest_pause: float = 1.0

    def __init__(
        self, storage: Storage, clock: Clock, log: RateLimitedLog, lost: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__("leases", storage, log, clock)
        self._count_lost = lost
        self._held: dict[Hold, Holding] = {}
        self._returns: list[Return] = []
        self._lost: dict[str, tuple[float, str]] = {}

    @property
    def held(self) -> int:
        """How many leases it renews."""
        return len(self._held)

    def troubles(self) -> list[LeaseTrouble]:
        """Return the leases that were lost lately, and those whose renewal is late. Safe from any thread."""
        now = self._clock.elapsed()
        self._lost = {name: lost for name, lost in list(self._lost.items()) if now - lost[0] <= _REPORTED_FOR}
        lost = [LeaseTrouble(name, _span(now - at), why, lost=True) for name, (at, why) in list(self._lost.items())]
        why = self._error or "the database has not replied"
        late = ((each.hold.name, each.late) for each in list(self._held.values()))
        return [*lost, *(LeaseTrouble(name, _span(by), why) for name, by in late if by)]

    def keep(self, holding: Holding) -> None:
        """Renew this lease from now on. Safe from any thread."""
        holding.note_lost = self._note_lost
        self._held[holding.hold] = holding
        self.start()
        self.wake()

    def drop(self, holding: Holding) -> None:
        """Stop renewing this lease. Safe from any thread."""
        self._held.pop(holding.hold, None)

    def give_back(self, what: Return) -> None:
        """Release this lease, retrying until it has expired. Safe from any thread."""
        self._returns.append(what)
        self.start()
        self.wake()

    async def stop(self) -> None:
        """Release all held leases, and end."""
        for holding in list(self._held.values()):
            # Lost, not released: a block that still runs must be notified before another process can acquire it.
            if holding.lose(CLOSED):
                self._returns.append(Return(holding.hold.name, holding.hold.holder, holding.until, holding.hold.epoch))
        self._held.clear()
        await super().stop()

    async def turn(self) -> float:
        """Renew the leases that need it. Returns the seconds until the next one does."""
        now = self._clock.elapsed()
        held = [each for each in list(self._held.values()) if not self._is_over(each)]
        due = sorted((each for each in held if each.renew_at <= now), key=lambda each: each.until)
        returns = [each for each in list(self._returns) if each.check_at <= now]
        for start in range(0, len(due), _BATCH):
            await self._renew(due[start : start + _BATCH])
        for each in returns:
            if await self._returned(each):
                self._returns.remove(each)
        # Read again: callbacks about lost leases may have dropped some, and others were added.
        next_at = min((min(each.renew_at, each.until) for each in list(self._held.values())), default=FOREVER)
        next_at = min(next_at, min((each.check_at for each in list(self._returns)), default=FOREVER))
        return FOREVER if next_at == FOREVER else min(max(next_at - self._clock.elapsed(), _BRIEF), _TICK)

    async def finish(self) -> None:
        """Release what is left, once, and close the storage."""
        with contextlib.suppress(MainspringError):
            for each in self._returns:
                await self._returned(each)
        await super().finish()

    def _note_lost(self, holding: Holding, why: str) -> None:
        if why != CLOSED:
            self._lost[holding.hold.name] = self._clock.elapsed(), why
            self._count_lost()

    async def _renew(self, due: Sequence[Holding]) -> None:
        leases = (await self.opened()).leases
        sent = self._clock.elapsed()
        answer = await leases.renew([each.renewal for each in due])
        for each in due:
            if each.hold in answer.lost:
                each.lose(TAKEN)
                self.drop(each)
            elif each.hold in answer.busy:
                each.renew_at = sent + _AGAIN
            else:
                each.renewed(sent)

    async def _returned(self, what: Return) -> bool:
        """Return whether nothing is left to release."""
        leases = (await self.opened()).leases
        now = self._clock.elapsed()
        if now >= what.until:
            return True
        epoch = what.epoch
        if epoch is None:
            found = await leases.find(what.name)
            if found is None or found.holder != what.holder or found.state != "held":
                # Maybe not yet: the request may still be on its way, or in an open transaction.
                what.check_at = now + what.pause
                what.pause *= 2
                return False
            epoch = found.epoch
        await leases.release(what.name, epoch, what.holder)
        return True

    def _is_over(self, holding: Holding) -> bool:
        over = holding.over is not None  # which notifies its holder, once
        if over:
            self.drop(holding)
        return over


def _span(seconds: float) -> timedelta:
    return timedelta(seconds=round(seconds))
