"""The dead letters for blocking callers: the same calls, answered when they return."""

from __future__ import annotations

from uuid import UUID

from mainspring.app.bulk import Progress
from mainspring.app.dead_letters import DeadLetters
from mainspring.app.envelope import MISSING
from mainspring.app.paging import Deliveries
from mainspring.app.sync_desk import Running
from mainspring.model.browsing import Causes
from mainspring.model.views import MessageView


class SyncDeadLetters:
    """``app.sync.dead``: as ``app.dead``, without await."""

    def __init__(self, dead: DeadLetters, run: Running) -> None:
        self._dead = dead
        self._run = run

    def list(
        self,
        *,
        group: str | None = None,
        topic: str | None = None,
        error: str | None = None,
        fingerprint: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> Deliveries:
        """Dead letters, newest first; ``error`` is text that the error must contain, ``fingerprint`` the cause."""
        return self._run(
            lambda: self._dead.list(
                group=group, topic=topic, error=error, fingerprint=fingerprint, before=before, limit=limit
            ),
            "dead.list()",
        )

    def causes(self, *, group: str | None = None, cap: int = 10_000, limit: int = 100) -> Causes:
        """What dead letters died of, in each group, the most frequent first. See ``DeadLetters.causes``."""
        return self._run(lambda: self._dead.causes(group=group, cap=cap, limit=limit), "dead.causes()")

    def show(self, message_id: UUID | str) -> MessageView | None:
        """The message with every error that was recorded; None when it has no dead letter."""
        return self._run(lambda: self._dead.show(message_id), "dead.show(…)")

    def revive(
        self,
        message_id: UUID | str | None = None,
        *,
        group: str | None = None,
        topic: str | None = None,
        error: str | None = None,
        fingerprint: str | None = None,
        everything: bool = False,
        payload: object = MISSING,
        by: str = "app",
        progress: Progress | None = None,
    ) -> int:
        """Give the dead letters meant a fresh life, and return how many. ``payload`` replaces that of one of them."""
        return self._run(
            lambda: self._dead.revive(
                message_id,
                group=group,
                topic=topic,
                error=error,
                fingerprint=fingerprint,
                everything=everything,
                payload=payload,
                by=by,
                progress=progress,
            ),
            "dead.revive(…)",
        )

    def discard(
        self,
        message_id: UUID | str | None = None,
        *,
        group: str | None = None,
        topic: str | None = None,
        error: str | None = None,
        fingerprint: str | None = None,
        everything: bool = False,
        by: str = "app",
        progress: Progress | None = None,
    ) -> int:
        """Remove the dead letters meant for good, and return how many."""
        return self._run(
            lambda: self._dead.discard(
                message_id,
                group=group,
                topic=topic,
                error=error,
                fingerprint=fingerprint,
                everything=everything,
                by=by,
                progress=progress,
            ),
            "dead.discard(…)",
        )
