"""``Leases`` over a dialect and a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainspring.model.lease import Granted, LeaseView, Renewal, Renewed
from mainspring.storage.sql.operations import Clocked
from mainspring.storage.sql.scripts import Gateway, LeasesScripts


class SqlLeases:
    """``Leases`` over a dialect and a gateway."""

    def __init__(self, scripts: LeasesScripts, gateway: Gateway, owner: Clocked) -> None:
        self._scripts = scripts
        self._run = gateway.run
        self._owner = owner

    async def acquire(self, name: str, holder: str, ttl: timedelta) -> Granted | None:
        """See ``Leases.acquire``."""
        return await self._run(self._scripts.acquire(name, holder, ttl, self._owner.now), "write")

    async def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        """See ``Leases.renew``."""
        return await self._run(self._scripts.renew(renewals, self._owner.now), "write")

    async def release(self, name: str, epoch: int, holder: str) -> bool:
        """See ``Leases.release``."""
        return await self._run(self._scripts.release(name, epoch, holder, self._owner.now), "write")

    async def confirm(self, name: str, epoch: int, holder: str) -> bool:
        """See ``Leases.confirm``."""
        return await self._run(self._scripts.confirm(name, epoch, holder, self._owner.now), "write")

    async def find(self, name: str) -> LeaseView | None:
        """See ``Leases.find``."""
        return await self._run(self._scripts.find(name, self._owner.now), "read")

    async def browse(self, after: str | None, limit: int) -> list[LeaseView]:
        """See ``Leases.browse``."""
        return await self._run(self._scripts.browse(after, limit, self._owner.now), "read")

    async def revoke(self, name: str, by: str, reason: str) -> bool:
        """See ``Leases.revoke``."""
        return await self._run(self._scripts.revoke(name, by, reason, self._owner.now), "write")
