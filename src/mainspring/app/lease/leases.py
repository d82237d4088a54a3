"""``app.leases``: named exclusive holds, renewed while they last, each with an epoch as its fence."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import socket
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeVar

from mainspring.app.blocking import Background, Face, blocking, enlisted, is_blocking
from mainspring.app.connection import Connection
from mainspring.app.lease.lease import AnyGuard, AnyLease, Guard, Lease, held
from mainspring.app.names import check_group
from mainspring.app.options import length
from mainspring.app.page import Name, Page, Paging, listing
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import BadOption, LeaseHeld, LeaseLost, MainspringError, NotOpen, StorageUnavailable
from mainspring.model.lease import Hold, LeaseView
from mainspring.runtime.lease_keeper import RELEASED, TAKEN, Holding, LeaseKeeper, Return
from mainspring.runtime.reports import RateLimitedLog
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration, spell

T = TypeVar("T")
Wait = Duration | Literal[True] | None
"""How long to wait for a lease that is held; True: for ever."""
# Defined here: inside the classes ``list`` is a method.
Views = Page[LeaseView]

PAGES: Paging[LeaseView, str] = Paging("app.leases.list()", lambda lease: lease.name, Name)

_logger = logging.getLogger("mainspring.leases")
_LEAST = timedelta(seconds=1)
"""Below that, an ordinary pause of the database would lose leases that are in use."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0
"""Seconds between two attempts to acquire: they double, with jitter. A rejected one only reads."""


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """The arguments of a hold."""

    name: str
    ttl: timedelta
    wait: timedelta | None = None
    for_ever: bool = False


class Leases:
    """The leases of the database, of all holders."""

    def __init__(self, connection: Connection, transactions: Transactions, clock: Clock) -> None:
        self._connection = connection
        self._operations = LeaseOperations(connection, transactions, clock)

    # --- holding -------------------------------------------------------------------------------------------

    def hold(self, name: str, ttl: Duration = "30s", *, wait: Wait = None) -> AbstractAsyncContextManager[Lease, None]:
        """Hold the lease for the length of a block: ``async with app.leases.hold("reports") as lease:``.

        Raises LeaseHeld if another holder has it, at once, or after ``wait``; True waits for ever. It lasts for ``ttl``
        after every renewal, and is renewed in time. When it is lost the block is cancelled and raises LeaseLost.
        """
        return Guard(self._operations, self._operations.request(name, ttl, wait))

    async def acquire(self, name: str, ttl: Duration = "30s") -> Lease | None:
        """Acquire the lease, for a manual release; None if it is held."""
        request = self._operations.request(name, ttl, None)
        holding = await self._operations.attempt(request, _holder(), "app.leases.acquire()")
        return None if holding is None else Lease(holding, self._operations)

    # --- operating -----------------------------------------------------------------------------------------

    @listing
    async def list(self, *, cursor: str | None = None, limit: int = 50) -> Views:
        """Return the leases that are held, or were recently, by name."""
        after = PAGES.start(cursor, limit)
        storage = await self._connection.storage("app.leases.list()")
        return PAGES.page(await storage.leases.browse(after, limit + 1), limit)

    async def get(self, name: str) -> LeaseView | None:
        """Return one lease; None if not held recently."""
        storage = await self._connection.storage("app.leases.get()")
        return await storage.leases.find(check_lease(name))

    async def release(self, name: str, *, by: str = "app", reason: str = "") -> bool:
        """Release a lease on its holder's behalf, audited with ``by``. False: it is not held.

        Its holder notices at its next renewal; until then, only its epoch fences it.
        """
        storage = await self._connection.storage("app.leases.release()")
        return await storage.leases.revoke(check_lease(name), by, reason)


class LeaseOperations:
    """Acquires, renews and releases leases for this process."""

    def __init__(self, connection: Connection, transactions: Transactions, clock: Clock) -> None:
        self._connection = connection
        self._transactions = transactions
        self._clock = clock
        self._keeping: LeaseRenewal = LeaseRenewal(connection, clock)

    def request(self, name: str, ttl: Duration, wait: Wait) -> LeaseRequest:
        """Return the checked arguments; raises BadOption."""
        checked = check_lease(name)
        span = length(ttl, "ttl", least=_LEAST)
        patience = None if wait is None or isinstance(wait, bool) else length(wait, "wait")
        return LeaseRequest(checked, span, patience, wait is True)

    async def take(self, request: LeaseRequest, call: str) -> Holding:
        """Acquire it, waiting as requested. Raises LeaseHeld."""
        holder = _holder()
        until = self._clock.elapsed() + (request.wait or timedelta()).total_seconds()
        pause, unknown = _FIRST_PAUSE, False
        while True:
            left = until - self._clock.elapsed()
            # In a test time stands still during the wait, and so does the holder.
            last = (left <= 0 and not request.for_ever) or self._connection.stand_in is not None
            try:
                holding, unknown = await self.attempt(request, holder, call, last=last), False
            except StorageUnavailable:
                if last:
                    raise
                holding, unknown = None, True
            if holding is not None:
                return holding
            if last:
                raise await self._held(request)
            jittered = pause * random.uniform(0.5, 1.0)
            try:
                await asyncio.sleep(jittered if request.for_ever else min(jittered, left))
            except asyncio.CancelledError:
                if unknown:
                    with contextlib.suppress(NotOpen):  # closing the app has stopped the keeper
                        self._keeping.forget(request, holder, await self._connection.storage("app.leases.hold()"))
                raise
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def renew(self, lease: AnyLease) -> None:
        """See ``Lease.renew_now``."""
        lease.raise_if_lost()
        storage = await self._connection.storage("lease.renew_now()")
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
            await asyncio.sleep(_FIRST_PAUSE)  # its row is locked: it is not renewed yet

    async def give_back(self, lease: AnyLease) -> bool:
        """See ``Lease.release``."""
        holding = held(lease)
        if not holding.end(RELEASED):
            return False
        self._keeping.drop(holding)
        released = False
        try:
            storage = await self._connection.storage("lease.release()")
            released = await storage.leases.release(*holding.hold)
        except BaseException:
            # It need not stay held until it expires: the keeper retries.
            self._keeping.give_back(holding)
            raise
        return released

    async def leave(self, lease: AnyLease) -> str | None:
        """Release it at the end of its block. Return why it was lost, None if it was not."""
        if (why := held(lease).over) not in (None, RELEASED):
            # The database may not know yet, or be down: do not wait for it here.
            self._keeping.drop(held(lease))
            self._keeping.give_back(held(lease))
            return why
        if why == RELEASED:
            return None
        try:
            return None if await self.give_back(lease) else TAKEN
        except MainspringError as error:
            _logger.warning("the lease %r is released later, or expires: %s", lease.name, error)
            return None

    async def confirm(self, lease: AnyLease, tx: object) -> None:
        """See ``Lease.confirm``."""
        lease.raise_if_lost()
        self._transactions.refuse_other(tx, "lease.confirm(tx=…)", "app.leases" if is_blocking() else "app.sync.leases")
        script = self._transactions.operations.leases.confirm.script(*held(lease).hold)
        if not await self._transactions.run(tx, script):
            held(lease).lose(TAKEN)
            raise LeaseLost(lease.name, lease.epoch, held(lease).over or TAKEN)

    @property
    def held(self) -> int:
        """How many leases this connection holds."""
        return self._keeping.held

    @property
    def is_kept(self) -> bool:
        """Whether held leases are renewed; in a test they are not."""
        return self._connection.stand_in is None

    def left(self, lease: AnyLease) -> float:
        """Return the seconds until it expires."""
        return held(lease).until - self._clock.elapsed()

    async def attempt(self, request: LeaseRequest, holder: str, call: str, *, last: bool = True) -> Holding | None:
        """Try to acquire it now. If the result is unknown, and this was the last attempt, release it."""
        storage = await self._connection.storage(call)
        sent = self._clock.elapsed()
        try:
            granted = await storage.leases.acquire(request.name, holder, request.ttl)
        except (asyncio.CancelledError, StorageUnavailable) as error:
            if last or isinstance(error, asyncio.CancelledError):
                self._keeping.forget(request, holder, storage)
            raise
        if granted is None:
            return None
        holding = Holding(Hold(request.name, granted.epoch, holder), request.ttl, sent, self._clock)
        self._keeping.keep(holding, storage)
        return holding

    async def _held(self, request: LeaseRequest) -> LeaseHeld:
        found = None
        try:
            found = await (await self._connection.storage("app.leases.hold()")).leases.find(request.name)
        except StorageUnavailable as error:
            _logger.debug("the holder of lease %r is unknown: %s", request.name, error)
        holder = found.holder if found is not None and found.state == "held" else None
        return LeaseHeld(request.name, holder, None if request.wait is None else spell(request.wait))


def _holder() -> str:
    """Return a name unique to the acquisition: only a repeated request finds its own row."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"


def check_lease(name: object) -> str:
    """Return ``name`` if it is valid."""
    try:
        return check_group(name)
    except BadOption as error:
        raise BadOption(str(error).replace("group", "lease", 1)) from None


class SyncLease(AnyLease):
    """A lease that is held until it is released or lost, or the app is closed. The keeper renews it until then.

    ``with lease:`` releases it at the end of the block. A thread cannot be cancelled: during long work check ``lost``
    or call ``raise_if_lost()`` regularly. Leaving the block of a lost lease raises LeaseLost.
    """

    def __init__(self, holding: Holding, operations: LeaseOperations, background: Background) -> None:
        super().__init__(holding, operations)
        self._background = background

    def renew_now(self) -> None:
        """Renew it for its whole time from now. Raises LeaseLost if it is no longer held."""
        self._wait_for(lambda: self._operations.renew(self), "renew_now()")

    def release(self) -> bool:
        """Release it. False: it was no longer held."""
        return self._wait_for(lambda: self._operations.give_back(self), "release()")

    def confirm(self, *, tx: Any) -> None:
        """Raise LeaseLost unless it is held in the database; no other holder acquires it until ``tx`` ends."""
        enlisted(lambda: self._operations.confirm(self, tx))

    def __enter__(self) -> Self:
        """Guard the block."""
        self.raise_if_lost()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release it. Raises LeaseLost if it was lost, unless the block raises another error."""
        why = self._wait_for(lambda: self._operations.leave(self), "release()")
        if why is not None and error is None:
            raise LeaseLost(self.name, self.epoch, why)

    def _wait_for(self, work: Callable[[], Awaitable[T]], call: str) -> T:
        return self._background.run(work, f"lease.{call}", f"`await lease.{call}` on a lease of app.leases")


class SyncGuard(AnyGuard):
    """``with app.sync.leases.hold(…) as lease:``: acquires it first, and may wait for it."""

    _lease: SyncLease | None = None

    def __init__(self, operations: LeaseOperations, request: LeaseRequest, background: Background) -> None:
        super().__init__(operations, request)
        self._background = background

    def __enter__(self) -> SyncLease:
        """Acquire it; raises LeaseHeld if that takes too long."""
        with self._entering():
            holding = self._background.run(
                lambda: self._operations.take(self._request, "app.sync.leases.hold()"),
                "app.sync.leases.hold(…)",
                "`async with app.leases.hold(…)`",
            )
            self._lease = SyncLease(holding, self._operations, self._background)
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
    """``app.sync.leases``: as ``app.leases``, without await; a background thread renews held leases."""

    list: Final = blocking(Leases.list)
    get: Final = blocking(Leases.get)
    release: Final = blocking(Leases.release)

    def hold(self, name: str, ttl: Duration = "30s", *, wait: Wait = None) -> AbstractContextManager[SyncLease, None]:
        """Hold the lease for the length of a block: ``with app.sync.leases.hold("reports") as lease:``."""
        return SyncGuard(self._operations, self._operations.request(name, ttl, wait), self._background)

    def acquire(self, name: str, ttl: Duration = "30s") -> SyncLease | None:
        """Acquire the lease, for a manual release; None if it is held."""
        operations = self._operations
        request, call = operations.request(name, ttl, None), "app.sync.leases.acquire()"
        holding = self._wait_for(lambda: operations.attempt(request, _holder(), call), "acquire(…)")
        return None if holding is None else SyncLease(holding, operations, self._background)

    @property
    def _operations(self) -> LeaseOperations:
        return self._target._operations  # noqa: SLF001 - of the same module


class LeaseRenewal:
    """The keeper's lifecycle: started with the first lease, stopped before the database closes.

    It holds only the connection, which outlives the app. In a test nothing is renewed: there time passes only when the
    test advances it.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._keeper: LeaseKeeper | None = None
        self._storage: Storage | None = None
        self._pid = 0
        connection.farewells.append(self._close)

    def keep(self, holding: Holding, storage: Storage) -> None:
        """Renew it from now on; it was acquired through this storage."""
        if self._connection.stand_in is None:
            self._of(storage).keep(holding)

    def drop(self, holding: Holding) -> None:
        """Stop renewing it."""
        if self._here is not None:
            self._here.drop(holding)

    def give_back(self, holding: Holding) -> None:
        """Release it in the background. It may be held there for longer than was certain here."""
        if self._here is not None:
            until = self._clock.elapsed() + holding.renewal.ttl.total_seconds()
            self._here.give_back(Return(holding.hold.name, holding.hold.holder, until, holding.hold.epoch))

    def forget(self, request: LeaseRequest, holder: str, storage: Storage) -> None:
        """Release it in the background, if it was acquired at all."""
        if self._connection.stand_in is None:
            until = self._clock.elapsed() + request.ttl.total_seconds()
            self._of(storage).give_back(Return(request.name, holder, until))

    @property
    def held(self) -> int:
        """The number renewed."""
        return 0 if self._here is None else self._here.held

    @property
    def _here(self) -> LeaseKeeper | None:
        # A forked child has the object, but not its thread.
        return self._keeper if self._pid == os.getpid() else None

    def _of(self, storage: Storage) -> LeaseKeeper:
        if self._here is None or self._storage is not storage:
            self._keeper = LeaseKeeper(storage, self._clock, RateLimitedLog(self._clock, "mainspring.leases"))
            self._storage, self._pid = storage, os.getpid()
        assert self._keeper is not None
        return self._keeper

    async def _close(self, _storage: Storage) -> None:
        keeper, self._keeper, self._storage = self._here, None, None
        if keeper is not None:
            await keeper.stop()
