"""A lease in hand: until when it is ours, and the block that it guards."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from mainspring.model.errors import LeaseLost, Misuse

if TYPE_CHECKING:
    from mainspring.app.leases import Asked, Leases
    from mainspring.runtime.holding import Holding

_BRIEFLY = 0.001


class AnyLease:
    """What an asyncio lease and a blocking one have in common: nothing of it waits."""

    def __init__(self, name: str, holding: Holding, office: Leases) -> None:
        self.name: str = name
        self.epoch: int = holding.hold.epoch
        """The fence: greater than that of everybody who has held this lease before."""
        self._holding = holding
        self._office = office

    def __repr__(self) -> str:
        """For people: whether it is ours."""
        over = self._holding.over
        return f"<{type(self).__name__} {self.name!r}, epoch {self.epoch}, {'held' if over is None else over}>"

    @property
    def lost(self) -> bool:
        """Whether it is not ours any more: it ran out, or was released. Asks no database."""
        return self._holding.over is not None

    def raise_if_lost(self) -> None:
        """Raise LeaseLost unless it is ours, as far as that is known here. Asks no database."""
        if (why := self._holding.over) is not None:
            raise LeaseLost(self.name, self.epoch, why)


def held(lease: AnyLease) -> Holding:
    """What is known of it here: for who renews and releases it, and not for its users."""
    return lease._holding  # noqa: SLF001 - of the same module


class Lease(AnyLease):
    """A lease that is held until it is released or lost, or the app is closed; it is renewed meanwhile.

    ``async with lease:`` releases it at the end of the block. When it is lost the task in the block is cancelled, once,
    and the block raises LeaseLost.
    """

    def __init__(self, name: str, holding: Holding, office: Leases) -> None:
        super().__init__(name, holding, office)
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._told = False
        self._timer: asyncio.TimerHandle | None = None

    async def renew_now(self) -> None:
        """Have it for its whole time from now on. Raises LeaseLost when it is not ours any more."""
        await self._office.renew(self)

    async def release(self) -> bool:
        """Give it back. False: it was not ours any more."""
        return await self._office.give_back(self)

    async def confirm(self, *, tx: Any) -> None:
        """Raise LeaseLost unless it is held in the database; nobody else acquires it until ``tx`` has ended.

        So what is written in that transaction can never be committed after somebody else has it.
        """
        await self._office.confirm(self, tx)

    async def __aenter__(self) -> Self:
        """Guard the block."""
        self.raise_if_lost()
        self._task = asyncio.current_task() if self._office.is_kept else None
        if self._task is not None:
            loop = asyncio.get_running_loop()
            self._cancelling = self._task.cancelling()
            self._holding.on_lost = lambda: _tell(loop, self._cancel)
            self._watch(loop)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release it. Raises LeaseLost when it was lost, unless the block raises something of its own."""
        # From here on nobody is cancelled: a release that was cut off would leave it held.
        task, self._task = self._task, None
        self._holding.on_lost = None
        if self._timer is not None:
            self._timer.cancel()
        # As in asyncio.timeout: only when nobody else has asked for it, too, is the cancellation ours to end.
        cancelled_here = self._told and task is not None and task.uncancel() <= self._cancelling
        why = await self._office.leave(self)
        if why is not None and (error is None or (cancelled_here and isinstance(error, asyncio.CancelledError))):
            raise LeaseLost(self.name, self.epoch, why) from error

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        # The keeper may be waiting for a database that does not answer: the time runs out all the same.
        if self._holding.over is None:
            self._timer = loop.call_later(max(self._office.left(self), _BRIEFLY), self._watch, loop)
        else:
            loop.call_soon(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None and not self._told:
            self._told = True
            self._task.cancel()


def _tell(loop: asyncio.AbstractEventLoop, what: Any) -> None:
    # A loop that closes at this very moment has nobody left to be told.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(what)


class AnyGuard:
    """Guards one block at a time; two at once could not be told apart at their ends."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._inside = threading.Lock()

    @contextlib.contextmanager
    def _entering(self) -> Iterator[None]:
        if not self._inside.acquire(blocking=False):
            raise Misuse(
                f"this hold({self._asked.name!r}) guards a block already, or waits to: call hold(…) anew for each block"
            )
        try:
            yield
        except BaseException:
            self._inside.release()
            raise


class Guard(AnyGuard):
    """``async with app.leases.hold(…) as lease:``: acquires it first, and may wait for it."""

    def __init__(self, office: Leases, name: str, ttl: Any, wait: Any) -> None:
        super().__init__(office.asked(name, ttl, wait))
        self._office = office
        self._lease: Lease | None = None

    async def __aenter__(self) -> Lease:
        """Acquire it; raises LeaseHeld when it cannot be had in time."""
        with self._entering():
            self._lease = Lease(*await self._office.take(self._asked, "app.leases.hold()"), self._office)
            return await self._lease.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """See ``Lease.__aexit__``."""
        assert self._lease is not None, "a block is left after it was entered"
        lease, self._lease = self._lease, None
        self._inside.release()
        await lease.__aexit__(kind, error, traceback)
