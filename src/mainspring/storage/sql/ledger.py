"""``Ledger`` over a dialect and a gateway."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from uuid import UUID

from mainspring.model.browsing import CAUSES_SCAN, Causes, Chain, Filter, Page
from mainspring.model.join import JoinView
from mainspring.model.views import AuditView, DeliveryView, MessageView, Roster, RunView, Tally
from mainspring.storage.sql.operations import Clocked
from mainspring.storage.sql.scripts import Gateway, LedgerScripts


class SqlLedger:
    """``Ledger`` over a dialect and a gateway."""

    def __init__(self, scripts: LedgerScripts, gateway: Gateway, owner: Clocked) -> None:
        self._scripts = scripts
        self._run = gateway.run
        self._owner = owner

    async def tally(self, cap: int = 100_000, prefix: str | None = None) -> Tally:
        """See ``Ledger.tally``."""
        return await self._run(self._scripts.tally(cap, prefix, self._owner.now), "read")

    async def browse(self, filter: Filter) -> Page:
        """See ``Ledger.browse``."""
        if filter.is_impossible:
            return Page()
        return await self._run(self._scripts.browse(filter, self._owner.now), "read")

    async def causes(
        self, prefix: str | None, group: str | None, cap: int, limit: int, scan: int = CAUSES_SCAN
    ) -> Causes:
        """See ``Ledger.causes``."""
        return await self._run(self._scripts.causes(prefix, group, cap, limit, scan), "read")

    async def chain(self, message_id: UUID, limit: int) -> Chain:
        """See ``Ledger.chain``."""
        return await self._run(self._scripts.chain(message_id, limit, self._owner.now), "read")

    async def find(self, message_id: UUID) -> MessageView | None:
        """See ``Ledger.find``."""
        return await self._run(self._scripts.find(message_id, self._owner.now), "read")

    async def runs(
        self, group: str | None, before: int | None, limit: int, schedule: str | None = None
    ) -> list[RunView]:
        """See ``Ledger.runs``."""
        return await self._run(self._scripts.runs(group, before, limit, schedule), "read")

    async def failures(self, prefix: str | None, limit: int) -> list[RunView]:
        """See ``Ledger.failures``."""
        return await self._run(self._scripts.failures(prefix, limit), "read")

    async def recent(self, schedules: Collection[str], limit: int) -> dict[str, tuple[RunView, ...]]:
        """See ``Ledger.recent``."""
        return await self._run(self._scripts.recent(schedules, limit), "read")

    async def joins(self, after: UUID | None, limit: int) -> list[JoinView]:
        """See ``Ledger.joins``."""
        return await self._run(self._scripts.joins(after, limit, self._owner.now), "read")

    async def find_join(self, id: UUID) -> JoinView | None:
        """See ``Ledger.find_join``."""
        return await self._run(self._scripts.find_join(id, self._owner.now), "read")

    async def members(self, join_id: UUID, after: int | None, limit: int) -> list[DeliveryView]:
        """See ``Ledger.members``."""
        return await self._run(self._scripts.members(join_id, after, limit, self._owner.now), "read")

    async def pending(self, limits: Mapping[str, int]) -> dict[str, int]:
        """See ``Ledger.pending``."""
        return await self._run(self._scripts.pending(limits), "read")

    async def roster(self) -> Roster:
        """See ``Ledger.roster``."""
        return await self._run(self._scripts.roster(self._owner.now), "read")

    async def audit(self, before: int | None, limit: int) -> list[AuditView]:
        """See ``Ledger.audit``."""
        return await self._run(self._scripts.audit(before, limit), "read")
