"""Leases: what every storage must do with them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from mainspring.model.lease import Granted, LeaseView, Renewal, Renewed


class Leases(Protocol):
    """Named exclusive holds: one holder at a time, by the storage's clock (invariant 16).

    The epoch of a lease grows with every acquisition and never goes back, also where its row was removed in between: it
    is the fence, together with its holder. A lease that ran out is lost, even if no other has taken it since.
    """

    async def acquire(self, name: str, holder: str, ttl: timedelta) -> Granted | None:
        """Take the lease for ``ttl``. None: somebody holds it, or takes it at this very moment.

        ``holder`` is another one for every acquisition, so it is not re-entrant; and so a call that was sent again
        after its reply was lost finds its own hold, which it renews under the same epoch.
        """
        ...

    async def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        """Let each hold be good for its own time from now, all in one trip."""
        ...

    async def release(self, name: str, epoch: int, holder: str) -> bool:
        """Give it back. False: it is not held by this holder under this epoch any more."""
        ...

    async def confirm(self, name: str, epoch: int, holder: str) -> bool:
        """Whether it is held by this holder under this epoch now.

        As a script in a caller's transaction it also keeps everybody else from acquiring it until that has ended.
        """
        ...

    async def find(self, name: str) -> LeaseView | None:
        """One lease; None when there is no row of it."""
        ...

    async def browse(self, after: str | None, limit: int) -> list[LeaseView]:
        """List leases by name; ``after`` is the name of the last row of the page before."""
        ...

    async def revoke(self, name: str, by: str, reason: str) -> bool:
        """Release it on its holder's behalf, audited. False: nobody holds it."""
        ...
