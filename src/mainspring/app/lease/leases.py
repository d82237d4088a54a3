"""``app.leases``: named exclusive holds, renewed while they last, each with an epoch as its fence."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import socket
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Final, Literal, TypeVar

from mainspring.app.blocking import Face, blocking
from mainspring.app.connection import Connection
from mainspring.app.lease.lease import Guard, Lease, SyncGuard, SyncLease
from mainspring.app.names import check_group, check_name
from mainspring.app.options import length, named_options
from mainspring.app.page import Name, Page, Paging, listing
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import BadOption, LeaseHeld, NotOpen, StorageUnavailable
from mainspring.model.lease import Hold, LeaseTrouble, LeaseView
from mainspring.runtime.lease_keeper import RENEWED_AFTER, Holding, LeaseKeeper, Return
from mainspring.runtime.reports import RateLimitedLog
from mainspring.storage.contract import Storage
from mainspring.telemetry.measures import Meters
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
_EARLIEST, _LATEST = 0.1, 0.9
"""The shares of its ttl after which a lease may be renewed."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0
"""Seconds between two attempts to acquire: they double, with jitter. A rejected one only reads."""


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """The arguments of a hold."""

    name: str
    ttl: timedelta
    holder: str
    renew_after: float = RENEWED_AFTER
    wait: timedelta | None = None
    for_ever: bool = False

    def unique(self) -> LeaseRequest:
        """Return it for one acquisition, under a holder of its own: only a repeated request finds its own row."""
        return replace(self, holder=f"{self.holder}:{secrets.token_hex(8)}")


class Leases:
    """The leases of the database, of all holders."""

    def __init__(self, connection: Connection, transactions: Transactions, clock: Clock, meters: Meters) -> None:
        self._connection = connection
        self._operations = LeaseOperations(connection, transactions, clock, meters)

    # --- holding -------------------------------------------------------------------------------------------

    @named_options
    def hold(
        self,
        name: str,
        ttl: Duration = "30s",
        *,
        wait: Wait = None,
        holder: str | None = None,
        renew_after: float = RENEWED_AFTER,
    ) -> AbstractAsyncContextManager[Lease, None]:
        """Hold the lease for the length of a block: ``async with app.leases.hold("reports") as lease:``.

        Raises LeaseHeld if another holder has it, at once, or after ``wait``; True waits for ever. It lasts for ``ttl``
        after every renewal, and is renewed in time, after the share ``renew_after`` of it. When it is lost the block is
        cancelled and raises LeaseLost. ``holder`` is the name shown to others [host and process].
        """
        return Guard(self._operations, self._operations.request(name, ttl, wait, holder, renew_after))

    @named_options
    async def acquire(
        self, name: str, ttl: Duration = "30s", *, holder: str | None = None, renew_after: float = RENEWED_AFTER
    ) -> Lease | None:
        """Acquire the lease, for a manual release; None if it is held."""
        request = self._operations.request(name, ttl, None, holder, renew_after)
        holding = await self._operations.acquire(request, "app.leases.acquire()")
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
    """Acquires leases for this process, and holds what a held lease needs."""

    def __init__(self, connection: Connection, transactions: Transactions, clock: Clock, meters: Meters) -> None:
        self._meters = meters
        self.connection: Connection = connection
        self.transactions: Transactions = transactions
        self.clock: Clock = clock
        self.keeping: LeaseRenewal = LeaseRenewal(connection, clock, meters)

    def request(self, name: str, ttl: Duration, wait: Wait, holder: str | None, renew_after: float) -> LeaseRequest:
        """Return the checked arguments; raises BadOption."""
        checked = check_lease(name)
        span = length(ttl, "ttl", least=_LEAST)
        patience = None if wait is None or isinstance(wait, bool) else length(wait, "wait")
        if not isinstance(renew_after, float) or not _EARLIEST <= renew_after <= _LATEST:
            raise BadOption(
                f"renew_after={renew_after!r} is the share of the ttl after which it is renewed: write a number from "
                f"{_EARLIEST} to {_LATEST}"
            )
        named = f"{socket.gethostname()[:60]}:{os.getpid()}" if holder is None else check_name(holder, "holder")
        return LeaseRequest(checked, span, named, renew_after, patience, wait is True)

    async def take(self, request: LeaseRequest, call: str) -> Holding:
        """Acquire it, waiting as requested. Raises LeaseHeld."""
        request = request.unique()
        until = self.clock.elapsed() + (request.wait or timedelta()).total_seconds()
        pause, unknown = _FIRST_PAUSE, False
        while True:
            left = until - self.clock.elapsed()
            # In a test time stands still during the wait, and so does the holder.
            last = (left <= 0 and not request.for_ever) or self.connection.stand_in is not None
            try:
                holding, unknown = await self.attempt(request, call, last=last), False
            except StorageUnavailable:
                if last:
                    raise
                holding, unknown = None, True
            if holding is not None:
                return holding
            if last:
                self._meters.leases("refused")
                raise await self._held(request)
            jittered = pause * random.uniform(0.5, 1.0)
            try:
                await asyncio.sleep(jittered if request.for_ever else min(jittered, left))
            except asyncio.CancelledError:
                if unknown:
                    with contextlib.suppress(NotOpen):  # closing the app has stopped the keeper
                        self.keeping.forget(request, await self.connection.storage("app.leases.hold()"))
                raise
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def acquire(self, request: LeaseRequest, call: str) -> Holding | None:
        """Try to acquire it once; None: it is held."""
        holding = await self.attempt(request.unique(), call)
        if holding is None:
            self._meters.leases("refused")
        return holding

    async def attempt(self, request: LeaseRequest, call: str, *, last: bool = True) -> Holding | None:
        """Try to acquire it now. If the result is unknown, and this was the last attempt, release it."""
        storage = await self.connection.storage(call)
        sent = self.clock.elapsed()
        try:
            granted = await storage.leases.acquire(request.name, request.holder, request.ttl)
        except (asyncio.CancelledError, StorageUnavailable) as error:
            if last or isinstance(error, asyncio.CancelledError):
                self.keeping.forget(request, storage)
            raise
        if granted is None:
            return None
        hold = Hold(request.name, granted.epoch, request.holder)
        holding = Holding(hold, request.ttl, sent, self.clock, request.renew_after)
        self._meters.leases("acquired")
        self.keeping.keep(holding, storage)
        return holding

    async def _held(self, request: LeaseRequest) -> LeaseHeld:
        found = None
        try:
            found = await (await self.connection.storage("app.leases.hold()")).leases.find(request.name)
        except StorageUnavailable as error:
            _logger.debug("the holder of lease %r is unknown: %s", request.name, error)
        holder = found.holder if found is not None and found.state == "held" else None
        return LeaseHeld(request.name, holder, None if request.wait is None else spell(request.wait))


def check_lease(name: object) -> str:
    """Return ``name`` if it is valid."""
    try:
        return check_group(name)
    except BadOption as error:
        raise BadOption(str(error).replace("group", "lease", 1)) from None


class SyncLeases(Face[Leases]):
    """``app.sync.leases``: as ``app.leases``, without await; a background thread renews held leases."""

    list: Final = blocking(Leases.list)
    get: Final = blocking(Leases.get)
    release: Final = blocking(Leases.release)

    def hold(
        self,
        name: str,
        ttl: Duration = "30s",
        *,
        wait: Wait = None,
        holder: str | None = None,
        renew_after: float = RENEWED_AFTER,
    ) -> AbstractContextManager[SyncLease, None]:
        """Hold the lease for the length of a block: ``with app.sync.leases.hold("reports") as lease:``."""
        request = self._operations.request(name, ttl, wait, holder, renew_after)
        return SyncGuard(self._operations, request, self._background)

    def acquire(
        self, name: str, ttl: Duration = "30s", *, holder: str | None = None, renew_after: float = RENEWED_AFTER
    ) -> SyncLease | None:
        """Acquire the lease, for a manual release; None if it is held."""
        operations, call = self._operations, "app.sync.leases.acquire()"
        request = operations.request(name, ttl, None, holder, renew_after)
        holding = self._wait_for(lambda: operations.acquire(request, call), "acquire(…)")
        return None if holding is None else SyncLease(Lease(holding, operations), self._background)

    @property
    def _operations(self) -> LeaseOperations:
        return self._target._operations  # noqa: SLF001 - of the same module


class LeaseRenewal:
    """The keeper's lifecycle: started with the first lease, stopped before the database closes.

    It holds only the connection, which outlives the app. In a test nothing is renewed: there time passes only when the
    test advances it.
    """

    def __init__(self, connection: Connection, clock: Clock, meters: Meters) -> None:
        self._connection = connection
        self._clock = clock
        self._meters = meters
        self._keeper: LeaseKeeper | None = None
        self._storage: Storage | None = None
        self._pid = 0
        connection.before_close.append(self._close)

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

    def forget(self, request: LeaseRequest, storage: Storage) -> None:
        """Release it in the background, if it was acquired at all."""
        if self._connection.stand_in is None:
            until = self._clock.elapsed() + request.ttl.total_seconds()
            self._of(storage).give_back(Return(request.name, request.holder, until))

    @property
    def held(self) -> int:
        """The number renewed."""
        return 0 if self._here is None else self._here.held

    def troubles(self) -> Sequence[LeaseTrouble]:
        """Return the leases that were lost lately, and those whose renewal is late."""
        return () if self._here is None else self._here.troubles()

    @property
    def _here(self) -> LeaseKeeper | None:
        # A forked child has the object, but not its thread.
        return self._keeper if self._pid == os.getpid() else None

    def _of(self, storage: Storage) -> LeaseKeeper:
        if self._here is None or self._storage is not storage:
            log, lost = RateLimitedLog(self._clock, "mainspring.leases"), partial(self._meters.leases, "lost")
            self._keeper = LeaseKeeper(storage, self._clock, log, lost)
            self._storage, self._pid = storage, os.getpid()
        assert self._keeper is not None
        return self._keeper

    async def _close(self, _storage: Storage) -> None:
        keeper, self._keeper, self._storage = self._here, None, None
        if keeper is not None:
            await keeper.stop()
