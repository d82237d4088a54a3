"""``app.leases``: named exclusive holds, renewed while they last, with an epoch to fence what they guard."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from mainspring.app.background import Background
from mainspring.app.blocking import Face, blocking, enlisted, is_blocking
from mainspring.app.door import Door
from mainspring.app.lease import AnyGuard, AnyLease, Guard, Lease, held
from mainspring.app.lease_keeping import Keeping
from mainspring.app.names import check_group
from mainspring.app.options import length, whole
from mainspring.app.transactions import Transactions
from mainspring.model.errors import BadOption, LeaseHeld, LeaseLost, MainspringError, NotOpen, StorageUnavailable
from mainspring.model.lease import Hold, LeaseView
from mainspring.runtime.holding import RELEASED, TAKEN, Holding
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration, spell

T = TypeVar("T")
Wait = Duration | Literal[True] | None
"""How long to wait for a lease that somebody holds; True: for ever."""
# Named here, since inside the classes ``list`` is their own verb.
Views = list[LeaseView]

_logger = logging.getLogger("mainspring.leases")
_LEAST = timedelta(seconds=1)
"""Below that, an ordinary pause of the database would cost leases that nobody has left."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0
"""Seconds between two tries of who waits: they double, with jitter. A try that is refused only reads."""
_PAGE_MOST = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody wants, as read."""

    name: str
    ttl: timedelta
    wait: timedelta | None = None
    for_ever: bool = False
    holder: str = ""


class Leases:
    """The leases of the database, whoever holds them."""

    def __init__(self, door: Door, transactions: Transactions, clock: Clock) -> None:
        self._door = door
        self._transactions = transactions
        self._clock = clock
        self._keeping = Keeping(door, clock)

    # --- holding -------------------------------------------------------------------------------------------

    def hold(self, name: str, ttl: Duration = "30s", *, wait: Wait = None) -> Guard:
        """Hold the lease for the length of a block: ``async with app.leases.hold("reports") as lease:``.

        Raises LeaseHeld when somebody else holds it, at once, or after ``wait``; True waits for ever. It is good for
        ``ttl`` after every renewal, and renewed in time. When it is lost the block is cancelled and raises LeaseLost.
        """
        return Guard(self, name, ttl, wait)

    async def acquire(self, name: str, ttl: Duration = "30s") -> Lease | None:
        """Acquire the lease, to be released by hand; None when it is held already."""
        asked = self.asked(name, ttl, None)
        holding = await self.attempt(asked, "app.leases.acquire()")
        return None if holding is None else Lease(asked.name, holding, self)

    # --- operating -----------------------------------------------------------------------------------------

    async def list(self, *, after: str | None = None, limit: int = 50) -> Views:
        """Every lease of this namespace that is held, or was lately, by name.

        ``after`` is the name of the last one of the page before.
        """
        whole(limit, "limit", least=1, most=_PAGE_MOST)
        storage = await self._door.storage("app.leases.list()")
        return await storage.leases.browse(after or None, limit)

    async def get(self, name: str) -> LeaseView | None:
        """One lease; None when nobody has held it lately."""
        storage = await self._door.storage("app.leases.get()")
        return await storage.leases.find(check_lease(name))

    async def release(self, name: str, *, by: str = "app", reason: str = "") -> bool:
        """Release a lease on its holder's behalf, audited with ``by``. False: nobody holds it.

        Its holder learns of it at its next renewal; what it does until then only its epoch can fence.
        """
        storage = await self._door.storage("app.leases.release()")
        return await storage.leases.revoke(check_lease(name), by, reason)

    # --- what a lease asks for -----------------------------------------------------------------------------

    def asked(self, name: str, ttl: Duration, wait: Wait) -> Asked:
        """What is wanted, as read; raises BadOption for what cannot be meant."""
        checked = check_lease(name)
        span = length(ttl, "ttl", least=_LEAST)
        patience = None if wait is None or isinstance(wait, bool) else length(wait, "wait")
        return Asked(checked, span, patience, wait is True, _holder())

    async def take(self, asked: Asked, call: str) -> tuple[str, Holding]:
        """Acquire it, waiting as long as was said. Raises LeaseHeld."""
        asked = replace(asked, holder=_holder())  # a guard may guard one block after another
        until = self._clock.elapsed() + (asked.wait or timedelta()).total_seconds()
        pause, unknown = _FIRST_PAUSE, False
        while True:
            left = until - self._clock.elapsed()
            # In a test time stands still while it waits, and so does who could give it back.
            last = (left <= 0 and not asked.for_ever) or self._door.stand_in is not None
            try:
                holding, unknown = await self.attempt(asked, call, last=last), False
            except StorageUnavailable:
                if last:
                    raise
                holding, unknown = None, True
            if holding is not None:
                return asked.name, holding
            if last:
                raise await self._held(asked)
            jittered = pause * random.uniform(0.5, 1.0)
            await self._pause(asked, jittered if asked.for_ever else min(jittered, left), unknown=unknown)
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def renew(self, lease: AnyLease) -> None:
        """See ``Lease.renew_now``."""
        lease.raise_if_lost()
        storage = await self._door.storage("lease.renew_now()")
        while True:
            sent = self._clock.elapsed()
            answer = await storage.leases.renew([held(lease).renewal])
            if answer.lost:
                held(lease).lose(TAKEN)
            elif not answer.busy:
                held(lease).renewed(sent)
            lease.raise_if_lost()
            if not answer.busy:
                return
            await asyncio.sleep(_FIRST_PAUSE)  # somebody has locked it: it is not renewed yet

    async def give_back(self, lease: AnyLease) -> bool:
        """See ``Lease.release``."""
        holding = held(lease)
        if not holding.end(RELEASED):
            return False
        self._keeping.drop(holding)
        released = False
        try:
            storage = await self._door.storage("lease.release()")
            released = await storage.leases.release(*holding.hold)
        except BaseException:
            # It need not stay held until it runs out: the keeper tries again.
            self._keeping.give_back(holding)
            raise
        return released

    async def leave(self, lease: AnyLease) -> str | None:
        """Release it at the end of its block. Answers why it was lost, None when it was not."""
        if (why := held(lease).over) not in (None, RELEASED):
            # The database may not know yet, or be away: nobody waits for that here.
            self._keeping.drop(held(lease))
            self._keeping.give_back(held(lease))
            return why
        if why == RELEASED:
            return None
        try:
            return None if await self.give_back(lease) else TAKEN
        except MainspringError as error:
            _logger.warning("the lease %r is released later, or runs out: %s", lease.name, error)
            return None

    async def confirm(self, lease: AnyLease, tx: object) -> None:
        """See ``Lease.confirm``."""
        lease.raise_if_lost()
        self._transactions.refuse_other(tx, "lease.confirm(tx=…)", "app.leases" if is_blocking() else "app.sync.leases")
        script = self._transactions.rooms.leases.confirm.script(*held(lease).hold)
        self._confirmed(lease, still=await self._transactions.run(tx, script))

    @property
    def held(self) -> int:
        """How many leases are held through this door."""
        return self._keeping.held

    @property
    def is_kept(self) -> bool:
        """Whether somebody renews what is held; in a test nobody does."""
        return self._door.stand_in is None

    def left(self, lease: AnyLease) -> float:
        """Seconds until it runs out unless it is renewed."""
        return held(lease).until - self._clock.elapsed()

    def _confirmed(self, lease: AnyLease, *, still: bool) -> None:
        if not still:
            held(lease).lose(TAKEN)
            raise LeaseLost(lease.name, lease.epoch, held(lease).over or TAKEN)

    async def attempt(self, asked: Asked, call: str, *, last: bool = True) -> Holding | None:
        """Acquire it, if it can be had now. If that cannot be known, and this was the last try, it is given back."""
        storage = await self._door.storage(call)
        sent = self._clock.elapsed()
        try:
            granted = await storage.leases.acquire(asked.name, asked.holder, asked.ttl)
        except (asyncio.CancelledError, StorageUnavailable) as error:
            if last or isinstance(error, asyncio.CancelledError):
                self._forget(asked, storage)
            raise
        if granted is None:
            return None
        holding = Holding(Hold(asked.name, granted.epoch, asked.holder), asked.ttl, sent, self._clock)
        self._keeping.keep(holding, storage)
        return holding

    async def _pause(self, asked: Asked, seconds: float, *, unknown: bool) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if unknown:
                with contextlib.suppress(NotOpen):  # who closed the app has ended the keeper, too
                    self._forget(asked, await self._door.storage("app.leases.hold()"))
            raise

    def _forget(self, asked: Asked, storage: Storage) -> None:
        self._keeping.forget(asked.name, asked.holder, self._clock.elapsed() + asked.ttl.total_seconds(), storage)

    async def _held(self, asked: Asked) -> LeaseHeld:
        found = None
        try:
            found = await (await self._door.storage("app.leases.hold()")).leases.find(asked.name)
        except StorageUnavailable as error:
            _logger.debug("who holds the lease %r is not known: %s", asked.name, error)
        holder = found.holder if found is not None and found.state == "held" else None
        return LeaseHeld(asked.name, holder, None if asked.wait is None else spell(asked.wait))


def _holder() -> str:
    """Another one for every acquisition, wherever it is made: only what is sent again finds its own."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"


def check_lease(name: object) -> str:
    """``name`` if a lease may be called that."""
    try:
        return check_group(name)
    except BadOption as error:
        raise BadOption(str(error).replace("group", "lease", 1)) from None


class SyncLease(AnyLease):
    """A lease that is held until it is released or lost, or the app is closed. The keeper renews it until then.

    ``with lease:`` releases it at the end of the block. A thread cannot be cancelled: one that works for long asks
    ``lost`` or calls ``raise_if_lost()`` now and then. Leaving the block of a lost lease raises LeaseLost.
    """

    def __init__(self, name: str, holding: Holding, office: Leases, background: Background) -> None:
        super().__init__(name, holding, office)
        self._background = background

    def renew_now(self) -> None:
        """Have it for its whole time from now on. Raises LeaseLost when it is not ours any more."""
        self._wait_for(lambda: self._office.renew(self), "renew_now()")

    def release(self) -> bool:
        """Give it back. False: it was not ours any more."""
        return self._wait_for(lambda: self._office.give_back(self), "release()")

    def confirm(self, *, tx: Any) -> None:
        """Raise LeaseLost unless it is held in the database; no other holder acquires it until ``tx`` has ended."""
        enlisted(lambda: self._office.confirm(self, tx))

    def __enter__(self) -> Self:
        """Guard the block."""
        self.raise_if_lost()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release it. Raises LeaseLost when it was lost, unless the block raises something of its own."""
        why = self._wait_for(lambda: self._office.leave(self), "release()")
        if why is not None and error is None:
            raise LeaseLost(self.name, self.epoch, why)

    def _wait_for(self, work: Callable[[], Awaitable[T]], call: str) -> T:
        return self._background.run(work, f"lease.{call}", f"`await lease.{call}` on a lease of app.leases")


class SyncGuard(AnyGuard):
    """``with app.sync.leases.hold(…) as lease:``: acquires it first, and may wait for it."""

    def __init__(self, leases: SyncLeases, asked: Asked) -> None:
        super().__init__(asked)
        self._leases = leases
        self._lease: SyncLease | None = None

    def __enter__(self) -> SyncLease:
        """Acquire it; raises LeaseHeld when it cannot be had in time."""
        with self._entering():
            self._lease = self._leases.take(self._asked)
            return self._lease.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """See ``SyncLease.__exit__``."""
        assert self._lease is not None, "a block is left after it was entered"
        lease, self._lease = self._lease, None
        self._inside.release()
        lease.__exit__(kind, error, traceback)


class SyncLeases(Face[Leases]):
    """``app.sync.leases``: as ``app.leases``, without await; a thread in the background renews what is held."""

    list: Final = blocking(Leases.list)
    get: Final = blocking(Leases.get)
    release: Final = blocking(Leases.release)

    @property
    def held(self) -> int:
        """How many leases are held through this door."""
        return self._target.held

    def hold(self, name: str, ttl: Duration = "30s", *, wait: Wait = None) -> SyncGuard:
        """Hold the lease for the length of a block: ``with app.sync.leases.hold("reports") as lease:``."""
        return SyncGuard(self, self._target.asked(name, ttl, wait))

    def acquire(self, name: str, ttl: Duration = "30s") -> SyncLease | None:
        """Acquire the lease, to be released by hand; None when it is held already."""
        asked = self._target.asked(name, ttl, None)
        holding = self._wait_for(lambda: self._target.attempt(asked, "app.sync.leases.acquire()"), "acquire(…)")
        return None if holding is None else SyncLease(asked.name, holding, self._target, self._background)

    def take(self, asked: Asked) -> SyncLease:
        """Acquire it, waiting as long as was said."""
        name, holding = self._background.run(
            lambda: self._target.take(asked, "app.sync.leases.hold()"),
            "app.sync.leases.hold(…)",
            "`async with app.leases.hold(…)`",
        )
        return SyncLease(name, holding, self._target, self._background)
