"""A held lease, awaited and blocking, and the block that it guards."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Self

from mainspring.app.blocking import AsyncOnly, Background, Face, R, Work, blocking, enlisted, is_blocking
from mainspring.model.errors import LeaseLost, MainspringError, Misuse
from mainspring.runtime.lease_keeper import RELEASED, TAKEN, Holding

if TYPE_CHECKING:
    from mainspring.app.lease.leases import LeaseOperations, LeaseRequest

_logger = logging.getLogger("mainspring.leases")
_BRIEFLY = 0.001
_BUSY = 0.1
"""Seconds until the renewal of a lease whose row was locked is retried."""


class Lease:
    """A lease that is held, and renewed, until it is released or lost, or the app is closed.

    ``async with lease:`` releases it at the end of the block. When it is lost the block's task is cancelled, once, and
    the block raises LeaseLost.
    """

    def __init__(self, holding: Holding, operations: LeaseOperations) -> None:
        self.name: str = holding.hold.name
        self.epoch: int = holding.hold.epoch
        """The fence: greater than that of every earlier holder of this lease."""
        self._holding = holding
        self._operations = operations
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._cancelled = False
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        """Return whether it is held."""
        over = self._holding.over
        return f"<Lease {self.name!r}, epoch {self.epoch}, {'held' if over is None else over}>"

    @property
    def lost(self) -> bool:
        """Whether it is no longer held: it expired, or was released. Reads no database."""
        return self._holding.over is not None

    def raise_if_lost(self) -> None:
        """Raise LeaseLost unless it is held, as far as known here. Reads no database."""
        if (why := self._holding.over) is not None:
            raise LeaseLost(self.name, self.epoch, why)

    async def renew_now(self) -> None:
        """Renew it for its whole time from now. Raises LeaseLost if it is no longer held."""
        self.raise_if_lost()
        storage = await self._operations.connection.storage("lease.renew_now()")
        while True:
            sent = self._operations.clock.elapsed()
            answer = await storage.leases.renew([self._holding.renewal])
            if answer.lost:
                self._holding.lose(TAKEN)
            elif not answer.busy:
                self._holding.renewed(sent)
            self.raise_if_lost()
            if not answer.busy:
                return
            await asyncio.sleep(_BUSY)  # its row is locked: it is not renewed yet

    async def release(self) -> bool:
        """Release it. False: it was no longer held."""
        if not self._holding.end(RELEASED):
            return False
        keeping = self._operations.keeping
        keeping.drop(self._holding)
        try:
            storage = await self._operations.connection.storage("lease.release()")
            return await storage.leases.release(*self._holding.hold)
        except BaseException:
            # It need not stay held until it expires: the keeper retries.
            keeping.give_back(self._holding)
            raise

    async def confirm(self, *, tx: Any) -> None:
        """Raise LeaseLost unless it is held in the database; no other holder acquires it until ``tx`` ends.

        So nothing written in that transaction is committed after another holder has it.
        """
        self.raise_if_lost()
        transactions = self._operations.transactions
        transactions.refuse_other(tx, "lease.confirm(tx=…)", "app.leases" if is_blocking() else "app.sync.leases")
        if not await transactions.run(tx, transactions.operations.leases.confirm.script(*self._holding.hold)):
            self._holding.lose(TAKEN)
            raise LeaseLost(self.name, self.epoch, self._holding.over or TAKEN)

    async def __aenter__(self) -> Self:
        """Guard the block."""
        self.raise_if_lost()
        self._task = asyncio.current_task() if self._operations.connection.stand_in is None else None
        if self._task is not None:
            loop = asyncio.get_running_loop()
            self._cancelling = self._task.cancelling()
            self._holding.on_lost = lambda: _call(loop, self._cancel)
            self._watch(loop)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release it. Raises LeaseLost if it was lost, unless the block raises another error."""
        # No cancellation from here on: an interrupted release would leave it held.
        task, self._task = self._task, None
        self._holding.on_lost = None
        if self._timer is not None:
            self._timer.cancel()
        # As in asyncio.timeout: end the cancellation only if nothing else has requested one.
        cancelled_here = self._cancelled and task is not None and task.uncancel() <= self._cancelling
        why = await self._leave()
        if why is not None and (error is None or (cancelled_here and isinstance(error, asyncio.CancelledError))):
            raise LeaseLost(self.name, self.epoch, why) from error

    async def _leave(self) -> str | None:
        """Release it at the end of its block. Return why it was lost, None if it was not."""
        if (why := self._holding.over) not in (None, RELEASED):
            # The database may not know yet, or be down: do not wait for it here.
            self._operations.keeping.drop(self._holding)
            self._operations.keeping.give_back(self._holding)
            return why
        if why == RELEASED:
            return None
        try:
            return None if await self.release() else TAKEN
        except MainspringError as error:
            _logger.warning("the lease %r is released later, or expires: %s", self.name, error)
            return None

    def _left(self) -> float:
        """Return the seconds until it expires."""
        return self._holding.until - self._operations.clock.elapsed()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        # The keeper may be waiting for an unresponsive database: the lease expires nevertheless.
        if self._holding.over is None:
            self._timer = loop.call_later(max(self._left(), _BRIEFLY), self._watch, loop)
        else:
            loop.call_soon(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel()


def _call(loop: asyncio.AbstractEventLoop, what: Any) -> None:
    # A loop that is closing right now needs no call.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(what)


def held(lease: Lease) -> Holding:
    """Return its local state; users do not need it."""
    return lease._holding  # noqa: SLF001 - same module


class SyncLease(Face[Lease]):
    """A lease that is held until it is released or lost, or the app is closed. The keeper renews it until then.

    ``with lease:`` releases it at the end of the block. A thread cannot be cancelled: during long work check ``lost``
    or call ``raise_if_lost()`` regularly. Leaving the block of a lost lease raises LeaseLost.
    """

    def __init__(self, lease: Lease, background: Background) -> None:
        super().__init__(lease, background, "lease", "lease")
        self.name: str = lease.name
        self.epoch: int = lease.epoch
        """The fence: greater than that of every earlier holder of this lease."""

    def __repr__(self) -> str:
        """Return whether it is held."""
        return f"<Sync{repr(self._target)[1:]}"

    @property
    def lost(self) -> bool:
        """Whether it is no longer held: it expired, or was released. Reads no database."""
        return self._target.lost

    def raise_if_lost(self) -> None:
        """Raise LeaseLost unless it is held, as far as known here. Reads no database."""
        self._target.raise_if_lost()

    renew_now: Final = blocking(Lease.renew_now)
    release: Final = blocking(Lease.release)

    def confirm(self, *, tx: Any) -> None:
        """Raise LeaseLost unless it is held in the database; no other holder acquires it until ``tx`` ends."""
        enlisted(lambda: self._target.confirm(tx=tx))

    def __enter__(self) -> Self:
        """Guard the block."""
        self.raise_if_lost()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release it. Raises LeaseLost if it was lost, unless the block raises another error."""
        why = self._wait_for(self._target._leave, "release()")  # noqa: SLF001 - same module
        if why is not None and error is None:
            raise LeaseLost(self.name, self.epoch, why)

    def _wait_for(self, work: Work[R], call: str) -> R:
        return self._background.run(work, f"lease.{call}", f"`await lease.{call}` on a lease of app.leases")


class AnyGuard:
    """A guard of one block at a time; it could not distinguish the ends of two."""

    def __init__(self, operations: LeaseOperations, request: LeaseRequest) -> None:
        self._operations = operations
        self._request = request
        self._inside = threading.Lock()

    @contextlib.contextmanager
    def _entering(self) -> Iterator[None]:
        if not self._inside.acquire(blocking=False):
            raise Misuse(
                f"this hold({self._request.name!r}) already guards a block, or waits to: call hold(…) for each block"
            )
        try:
            yield
        except BaseException:
            self._inside.release()
            raise


class Guard(AnyGuard, AsyncOnly):
    """``async with app.leases.hold(…) as lease:``: acquires it first, and may wait for it."""

    _instead: ClassVar[str] = (
        "app.leases.hold(…) is a block: write `async with app.leases.hold(…) as lease:`, or in blocking code `with "
        "app.sync.leases.hold(…)`; `await app.leases.acquire(…)` needs no block"
    )

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            """Say what to write instead."""
            raise Misuse(self._instead)

    _lease: Lease | None = None

    async def __aenter__(self) -> Lease:
        """Acquire it; raises LeaseHeld if that takes too long."""
        with self._entering():
            self._lease = Lease(await self._operations.take(self._request, "app.leases.hold()"), self._operations)
            return await self._lease.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """See ``Lease.__aexit__``."""
        assert self._lease is not None, "a block is left after it was entered"
        lease, self._lease = self._lease, None
        self._inside.release()
        await lease.__aexit__(kind, error, traceback)


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
            self._lease = SyncLease(Lease(holding, self._operations), self._background)
            return self._lease.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """See ``SyncLease.__exit__``."""
        assert self._lease is not None, "a block is left after it was entered"
        lease, self._lease = self._lease, None
        self._inside.release()
        lease.__exit__(kind, error, traceback)
