"""A held lease: how long it is certain, and the block that it guards."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from mainspring.model.errors import LeaseLost, Misuse

if TYPE_CHECKING:
    from mainspring.app.lease.leases import LeaseOperations, LeaseRequest
    from mainspring.runtime.lease_keeper import Holding

_BRIEFLY = 0.001


class AnyLease:
    """The common part of an asyncio lease and a blocking one: nothing in it waits."""

    def __init__(self, holding: Holding, operations: LeaseOperations) -> None:
        self.name: str = holding.hold.name
        self.epoch: int = holding.hold.epoch
        """The fence: greater than that of every earlier holder of this lease."""
        self._holding = holding
        self._operations = operations

    def __repr__(self) -> str:
        """Return whether it is held."""
        over = self._holding.over
        return f"<{type(self).__name__} {self.name!r}, epoch {self.epoch}, {'held' if over is None else over}>"

    @property
    def lost(self) -> bool:
        """Whether it is no longer held: it expired, or was released. Reads no database."""
        return self._holding.over is not None

    def raise_if_lost(self) -> None:
        """Raise LeaseLost unless it is held, as far as known here. Reads no database."""
        if (why := self._holding.over) is not None:
            raise LeaseLost(self.name, self.epoch, why)


def held(lease: AnyLease) -> Holding:
    """Return its local state, for renewal and release; users do not need it."""
    return lease._holding  # noqa: SLF001 - same module


class Lease(AnyLease):
    """A lease that is held, and renewed, until it is released or lost, or the app is closed.

    ``async with lease:`` releases it at the end of the block. When it is lost the block's task is cancelled, once, and
    the block raises LeaseLost.
    """

    def __init__(self, holding: Holding, operations: LeaseOperations) -> None:
        super().__init__(holding, operations)
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._cancelled = False
        self._timer: asyncio.TimerHandle | None = None

    async def renew_now(self) -> None:
        """Renew it for its whole time from now. Raises LeaseLost if it is no longer held."""
        await self._operations.renew(self)

    async def release(self) -> bool:
        """Release it. False: it was no longer held."""
        return await self._operations.give_back(self)

    async def confirm(self, *, tx: Any) -> None:
        """Raise LeaseLost unless it is held in the database; no other holder acquires it until ``tx`` ends.

        So nothing written in that transaction is committed after another holder has it.
        """
        await self._operations.confirm(self, tx)

    async def __aenter__(self) -> Self:
        """Guard the block."""
        self.raise_if_lost()
        self._task = asyncio.current_task() if self._operations.is_kept else None
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
        why = await self._operations.leave(self)
        if why is not None and (error is None or (cancelled_here and isinstance(error, asyncio.CancelledError))):
            raise LeaseLost(self.name, self.epoch, why) from error

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        # The keeper may be waiting for an unresponsive database: the lease expires nevertheless.
        if self._holding.over is None:
            self._timer = loop.call_later(max(self._operations.left(self), _BRIEFLY), self._watch, loop)
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


class Guard(AnyGuard):
    """``async with app.leases.hold(…) as lease:``: acquires it first, and may wait for it."""

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
