"""The inbox in memory: each message is let in once, under the one lock."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from mainspring.model.inbox import (
    Admission,
    Entering,
    Fate,
    InboxFilter,
    InboxKey,
    InboxView,
    differs,
    entered,
    may_enter,
    refused,
)
from mainspring.storage.memory.state import State


class MemoryInbox:
    """``Inbox`` over shared rows."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def admit(
        self, key: InboxKey, hash: bytes | None, status: Entering, retry_after: timedelta | None
    ) -> Admission:
        """See ``Inbox.admit``."""
        rows = self._state.inbox
        with self._state.lock:
            now = self._state.now()
            known = rows.get(key)
            if known is None:
                rows[key] = InboxView(*key, status, 1, now, now, hash)
                return entered(key, status, 1, now, now)
            if differs(known, hash):
                rows[key] = replace(known, mismatched_at=known.mismatched_at or now)
                return refused(known, mismatch=True)
            if not may_enter(known, now, retry_after):
                return refused(known)
            kept = hash if known.hash is None else known.hash
            rows[key] = replace(known, status=status, attempts=known.attempts + 1, changed_at=now, hash=kept)
            return entered(key, status, known.attempts + 1, known.first_seen_at, now)

    async def mark(
        self, key: InboxKey, attempt: int, fate: Fate, error: str | None, admitted_at: datetime | None = None
    ) -> bool:
        """See ``Inbox.mark``."""
        rows = self._state.inbox
        with self._state.lock:
            known = rows.get(key)
            # Attempts only grow, and are the fence: who was let in later is not overruled.
            if known is None or known.attempts != attempt or known.status not in ("processing", fate):
                return False
            if known.status != fate and admitted_at not in (None, known.changed_at):
                return False
            changed_at = known.changed_at if known.status == fate else self._state.now()
            rows[key] = replace(known, status=fate, error=error, changed_at=changed_at)
            return True

    async def release(self, key: InboxKey, by: str) -> bool:
        """See ``Inbox.release``."""
        rows = self._state.inbox
        with self._state.lock:
            known = rows.get(key)
            if known is None or known.status not in ("processing", "dead"):
                return False
            now = self._state.now()
            rows[key] = replace(known, status="seen", changed_at=now)
            self._state.note(by, "inbox release", key.message_id, f"{key.source} in {key.group}", now)
            return True

    async def browse(self, filter: InboxFilter) -> list[InboxView]:
        """See ``Inbox.browse``."""
        with self._state.lock:
            now = self._state.now()
            latest = None if filter.stuck is None else now - filter.stuck
            found = [
                row
                for row in self._state.inbox.values()
                if filter.group in (None, row.group)
                and filter.source in (None, row.source)
                and filter.message_id in (None, row.message_id)
                and filter.status in (None, row.status)
                and (latest is None or (row.status == "processing" and row.changed_at < latest))
                and (filter.before is None or row.changed_at < filter.before)
            ]
        found.sort(key=lambda row: (row.message_id.encode(), row.source.encode(), row.group.encode()))
        found.sort(key=lambda row: row.changed_at, reverse=True)
        return found[: filter.limit]
