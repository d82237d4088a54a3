"""The inbox of any SQL database: each message is let in once."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.model.inbox import Admission, Entering, Fate, InboxFilter, InboxKey, InboxView
from mainspring.storage.sql.operations import Clocked
from mainspring.storage.sql.scripts import Gateway, InboxScripts


class SqlInbox:
    """``Inbox`` over a dialect and a gateway."""

    def __init__(self, scripts: InboxScripts, gateway: Gateway, owner: Clocked) -> None:
        self._scripts = scripts
        self._run = gateway.run
        self._owner = owner

    async def admit(
        self, key: InboxKey, hash: bytes | None, status: Entering, retry_after: timedelta | None
    ) -> Admission:
        """See ``Inbox.admit``."""
        return await self._run(self._scripts.admit(key, hash, status, retry_after, self._owner.now), "write")

    async def mark(
        self, key: InboxKey, attempt: int, fate: Fate, error: str | None, admitted_at: datetime | None = None
    ) -> bool:
        """See ``Inbox.mark``."""
        return await self._run(self._scripts.mark(key, attempt, fate, error, admitted_at, self._owner.now), "write")

    async def release(self, key: InboxKey, by: str) -> bool:
        """See ``Inbox.release``."""
        return await self._run(self._scripts.release(key, by, self._owner.now), "write")

    async def browse(self, filter: InboxFilter) -> list[InboxView]:
        """See ``Inbox.browse``."""
        return await self._run(self._scripts.browse(filter, self._owner.now), "read")
