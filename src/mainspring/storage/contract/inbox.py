"""Messages of others, each let in once: what every storage must do with them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from mainspring.model.inbox import Admission, Entering, Fate, InboxFilter, InboxKey, InboxView


class Inbox(Protocol):
    """Remembers which messages have come, so that each is processed once however often it is sent."""

    async def admit(
        self, key: InboxKey, hash: bytes | None, status: Entering, retry_after: timedelta | None
    ) -> Admission:
        """Let a message in, unless it was: true for exactly one of any number of callers at once.

        Its status is *done* at once where it ends with the transaction that this is part of, else *processing*:
        somebody is at it from now on. Let in again is what failed, and what somebody has been at for ``retry_after`` or
        longer; ``attempts`` grows by one each time. Never let in is what comes with another hash than the first time.
        """
        ...

    async def mark(
        self, key: InboxKey, attempt: int, fate: Fate, error: str | None, admitted_at: datetime | None = None
    ) -> bool:
        """Say what became of a message that was let in, under the number of that attempt, and its time if known.

        False: it was let in again since, or an operator has released it, so that this is no longer the caller's to say.
        The same said again is true again.
        """
        ...

    async def release(self, key: InboxKey, by: str) -> bool:
        """Let a message in again when it next comes, though somebody is at it or it was given up. Audited.

        False: there is no such message, or it is neither of the two.
        """
        ...

    async def browse(self, filter: InboxFilter) -> list[InboxView]:
        """List messages, the latest change first; reads only."""
        ...
