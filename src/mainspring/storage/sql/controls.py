"""``Controls`` over a dialect and a gateway."""

from __future__ import annotations

from uuid import UUID

from mainspring.model.browsing import By, DeadSelection, Picked
from mainspring.model.message import Cancelled, Draft
from mainspring.storage.sql.operations import Clocked
from mainspring.storage.sql.scripts import ControlsScripts, Gateway


class SqlControls:
    """``Controls`` over a dialect and a gateway."""

    def __init__(self, scripts: ControlsScripts, gateway: Gateway, owner: Clocked) -> None:
        self._scripts = scripts
        self._run = gateway.run
        self._owner = owner

    async def pause(self, group: str, by: str, reason: str) -> bool:
        """See ``Controls.pause``."""
        return await self._run(self._scripts.pause(group, by, reason, self._owner.now), "write")

    async def resume(self, group: str, by: str) -> bool:
        """See ``Controls.resume``."""
        return await self._run(self._scripts.resume(group, by, self._owner.now), "write")

    async def revive(self, which: DeadSelection, by: By, limit: int) -> int:
        """See ``Controls.revive``."""
        return await self._run(self._scripts.revive(which, by, limit, self._owner.now), "write")

    async def replace(self, message_id: UUID, group: str, by: str, draft: Draft) -> bool:
        """See ``Controls.replace``."""
        return await self._run(self._scripts.replace(message_id, group, by, draft, self._owner.now), "write")

    async def discard(self, which: DeadSelection, by: By, limit: int) -> int:
        """See ``Controls.discard``."""
        return await self._run(self._scripts.discard(which, by, limit, self._owner.now), "write")

    async def hasten(self, picked: Picked, by: By) -> int:
        """See ``Controls.hasten``."""
        return await self._run(self._scripts.hasten(picked, by, self._owner.now), "write")

    async def withdraw(self, picked: Picked, by: By, reason: str) -> Cancelled:
        """See ``Controls.withdraw``."""
        return await self._run(self._scripts.withdraw(picked, by, reason, self._owner.now), "write")

    async def retire(self, group: str, by: str, limit: int) -> int | None:
        """See ``Controls.retire``."""
        return await self._run(self._scripts.retire(group, by, limit, self._owner.now), "write")

    async def drain(self, worker: str, by: str, reason: str) -> bool:
        """See ``Controls.drain``."""
        return await self._run(self._scripts.drain(worker, by, reason, self._owner.now), "write")

    async def undrain(self, worker: str, by: str) -> bool:
        """See ``Controls.undrain``."""
        return await self._run(self._scripts.undrain(worker, by, self._owner.now), "write")

    async def noted(self, action: str, subject: str, by: str, detail: str) -> int:
        """See ``Controls.noted``."""
        return await self._run(self._scripts.noted(action, subject, by, detail, self._owner.now), "write")

    async def amend(self, line: int, standing: str) -> None:
        """See ``Controls.amend``."""
        await self._run(self._scripts.amend(line, standing), "write")
