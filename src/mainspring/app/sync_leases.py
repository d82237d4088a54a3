"""``app.sync.leases``: leases for blocking callers, renewed by a thread in the background."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from mainspring.app.background import in_loop
from mainspring.app.lease import AnyGuard, AnyLease
from mainspring.app.leases import Asked, Leases, Views, Wait
from mainspring.app.sync_desk import Running
from mainspring.model.errors import LeaseLost, Misuse
from mainspring.model.lease import LeaseView
from mainspring.runtime.holding import Holding
from mainspring.timing.duration import Duration


class SyncLease(AnyLease):
    """A lease that is held until it is released or lost, or the app is closed; it is renewed meanwhile.

    ``with lease:`` releases it at the end of the block. A thread cannot be cancelled: one that works for long asks
    ``lost`` or calls ``raise_if_lost()`` now and then. Leaving the block of a lost lease raises LeaseLost.
    """

    def __init__(self, name: str, holding: Holding, office: Leases, run: Running) -> None:
        super().__init__(name, holding, office)
        self._run = run

    def renew_now(self) -> None:
        """Have it for its whole time from now on. Raises LeaseLost when it is not ours any more."""
        _refuse_loop("lease.renew_now()", "`await lease.renew_now()` on a lease of app.leases")
        self._run(lambda: self._office.renew(self), "leases")

    def release(self) -> bool:
        """Give it back. False: it was not ours any more."""
        _refuse_loop("lease.release()", "`await lease.release()` on a lease of app.leases")
        return self._run(lambda: self._office.give_back(self), "leases")

    def confirm(self, *, tx: Any) -> None:
        """Raise LeaseLost unless it is held in the database; nobody else acquires it until ``tx`` has ended."""
        self._office.confirm_blocking(self, tx)

    def __enter__(self) -> Self:
        """Guard the block."""
        self.raise_if_lost()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Release it. Raises LeaseLost when it was lost, unless the block raises something of its own."""
        why = self._run(lambda: self._office.leave(self), "leases.hold(…)")
        if why is not None and error is None:
            raise LeaseLost(self.name, self.epoch, why)


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


class SyncLeases:
    """As ``app.leases``, without await."""

    def __init__(self, leases: Leases, run: Running) -> None:
        self._leases = leases
        self._run = run

    @property
    def held(self) -> int:
        """How many leases are held through this door."""
        return self._leases.held

    def hold(self, name: str, ttl: Duration = "30s", *, wait: Wait = None) -> SyncGuard:
        """Hold the lease for the length of a block: ``with app.sync.leases.hold("reports") as lease:``."""
        return SyncGuard(self, self._leases.asked(name, ttl, wait))

    def acquire(self, name: str, ttl: Duration = "30s") -> SyncLease | None:
        """Acquire the lease, to be released by hand; None when somebody holds it."""
        asked = self._leases.asked(name, ttl, None)
        holding = self._run(lambda: self._leases.attempt(asked, "app.sync.leases.acquire()"), "leases.acquire(…)")
        return None if holding is None else SyncLease(asked.name, holding, self._leases, self._run)

    def take(self, asked: Asked) -> SyncLease:
        """Acquire it, waiting as long as was said."""
        _refuse_loop("app.sync.leases.hold(…)", "`async with app.leases.hold(…)`")
        name, holding = self._run(lambda: self._leases.take(asked, "app.sync.leases.hold()"), "leases.hold(…)")
        return SyncLease(name, holding, self._leases, self._run)

    def list(self, *, after: str | None = None, limit: int = 50) -> Views:
        """Every lease of this namespace that is held, or was lately, by name."""
        return self._run(lambda: self._leases.list(after=after, limit=limit), "leases.list()")

    def get(self, name: str) -> LeaseView | None:
        """One lease; None when nobody has held it lately."""
        return self._run(lambda: self._leases.get(name), "leases.get(…)")

    def release(self, name: str, *, by: str = "app", reason: str = "") -> bool:
        """Release a lease on its holder's behalf, audited with ``by``. False: nobody holds it."""
        return self._run(lambda: self._leases.release(name, by=by, reason=reason), "leases.release(…)")


def _refuse_loop(call: str, instead: str) -> None:
    if in_loop():
        raise Misuse(f"{call} would block the event loop it is called on: write {instead}")
