"""``app.sync.inbox``: the inbox for blocking callers, in their transaction or on a loop in the background."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from mainspring.app.admitting import Said
from mainspring.app.inbox import Error, Inbox, Views
from mainspring.app.sync_desk import Running
from mainspring.model.inbox import Admission, InboxStatus, InboxView
from mainspring.timing.duration import Duration


class SyncInbox:
    """As ``app.inbox``, without await."""

    def __init__(self, inbox: Inbox, run: Running) -> None:
        self._inbox = inbox
        self._run = run

    def admit(
        self,
        message_id: str | UUID,
        source: str,
        hash: str | bytes | None = None,
        *,
        tx: Any = None,
        group: str | None = None,
        retry_after: Duration | None = None,
    ) -> Admission:
        """Let a message in: true for exactly one of any number of callers at once. See ``Inbox.admit``."""
        if tx is not None:
            return self._inbox.join(self._inbox.callers.asked(message_id, source, hash, group, retry_after), tx)
        return self._run(
            lambda: self._inbox.admit(message_id, source, hash, group=group, retry_after=retry_after),
            "inbox.admit(…)",
        )

    @contextmanager
    def once(
        self,
        message_id: str | UUID,
        source: str,
        hash: str | bytes | None = None,
        *,
        tx: Any = None,
        group: str | None = None,
        retry_after: Duration | None = None,
    ) -> Iterator[Admission]:
        """``admit`` around a block: at its end the message is done, or failed where something was raised."""
        inbox = self._inbox
        admission = self.admit(message_id, source, hash, tx=tx, group=group, retry_after=retry_after)
        if tx is not None or not admission:
            yield admission
            return
        done = inbox.begin(admission)
        try:
            yield admission
        except BaseException as error:
            failure = error  # the name of an except clause is gone at its end
            self._run(lambda: inbox.give_up(done, failure), "inbox.once(…)")
            raise
        self._run(lambda: inbox.finish(done), "inbox.once(…)")

    def done(
        self,
        which: Admission | str | UUID,
        source: str | None = None,
        *,
        attempt: int | None = None,
        group: str | None = None,
        tx: Any = None,
    ) -> bool:
        """Say that it is done. False: it is no longer this caller's."""
        return self._mark(self._inbox.callers.said(which, source, "done", None, attempt, group), tx, "done")

    def failed(
        self,
        which: Admission | str | UUID,
        source: str | None = None,
        error: Error = "",
        *,
        attempt: int | None = None,
        group: str | None = None,
        tx: Any = None,
    ) -> bool:
        """Say that it failed, so that it is let in when it comes again. False: it is no longer this caller's."""
        return self._mark(self._inbox.callers.said(which, source, "seen", error, attempt, group), tx, "failed")

    def dead(
        self,
        which: Admission | str | UUID,
        source: str | None = None,
        error: Error = "",
        *,
        attempt: int | None = None,
        group: str | None = None,
        tx: Any = None,
    ) -> bool:
        """Give it up: it is never let in again, unless it is released. False: it is no longer this caller's."""
        return self._mark(self._inbox.callers.said(which, source, "dead", error, attempt, group), tx, "dead")

    def get(self, message_id: str | UUID, source: str, *, group: str | None = None) -> InboxView | None:
        """One message; None when it has not come, or was forgotten."""
        return self._run(lambda: self._inbox.get(message_id, source, group=group), "inbox.get(…)")

    def list(
        self,
        status: InboxStatus | None = None,
        *,
        group: str | None = None,
        source: str | None = None,
        message_id: str | UUID | None = None,
        stuck: bool | Duration = False,
        before: datetime | None = None,
        limit: int = 50,
    ) -> Views:
        """The messages of this namespace, the latest change first."""
        return self._run(
            lambda: self._inbox.list(
                status, group=group, source=source, message_id=message_id, stuck=stuck, before=before, limit=limit
            ),
            "inbox.list()",
        )

    def release(self, message_id: str | UUID, source: str, *, group: str | None = None, by: str = "app") -> bool:
        """Have it let in when it comes again, though somebody is at it or it was given up."""
        return self._run(lambda: self._inbox.release(message_id, source, group=group, by=by), "inbox.release(…)")

    def _mark(self, said: Said, tx: Any, call: str) -> bool:
        if tx is not None:
            return self._inbox.join_mark(said, tx, call)
        return self._run(lambda: self._inbox.mark(said), f"inbox.{call}(…)")
