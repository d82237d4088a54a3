"""The controls in SQL: what an operator may do, each with its line in the audit."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mainspring.model.browsing import DeadSelection, Picked, spelled
from mainspring.model.message import Cancelled, Draft
from mainspring.storage.postgres import columns
from mainspring.storage.postgres.columns import clean
from mainspring.storage.postgres.names import Names
from mainspring.storage.postgres.opening import Opening
from mainspring.storage.script import Script, Statement
from mainspring.storage.sql import Now


class PostgresControls:
    """``ControlsScripts`` for PostgreSQL."""

    def __init__(self, names: Names) -> None:
        self._channel = names.channel
        self._sql = names.sql

    def pause(self, group: str, by: str, reason: str, now: Now) -> Script[bool]:
        """See ``Controls.pause``."""
        rows = yield Statement(self._sql("pause"), (group, clean(by), clean(reason), now))
        return bool(rows)

    def resume(self, group: str, by: str, now: Now) -> Script[bool]:
        """See ``Controls.resume``."""
        rows = yield Statement(self._sql("resume"), (group, clean(by), self._channel, now))
        return bool(rows)

    def revive(self, which: DeadSelection, by: str | None, limit: int, now: Now) -> Script[int]:
        """See ``Controls.revive``."""
        said = (_said(by), clean(which.described))
        rows = yield Statement(self._sql("revive"), (*_chosen(which), limit, *said, now, self._channel))
        revived: int = rows[0][0]
        return revived

    def replace(self, message_id: UUID, group: str, by: str, draft: Draft, now: Now) -> Script[bool]:
        """See ``Controls.replace``."""
        detail = f"replaced in {group} by {draft.id}"
        rows = yield Opening(self._sql("replace"), (message_id, group, clean(by), detail, now))
        if rows:
            yield Statement(self._sql("publish"), (*columns.of_drafts([draft]), self._channel, now))
        return bool(rows)

    def discard(self, which: DeadSelection, by: str | None, limit: int, now: Now) -> Script[int]:
        """See ``Controls.discard``."""
        said = (_said(by), clean(which.described))
        rows = yield Statement(self._sql("discard"), (*_chosen(which), limit, *said, now))
        discarded: int = rows[0][0]
        return discarded

    def hasten(self, picked: Picked, by: str | None, now: Now) -> Script[int]:
        """See ``Controls.hasten``."""
        said = (_said(by), spelled(picked))
        rows = yield Statement(self._sql("hasten"), (*columns.columns(picked, 2), *said, self._channel, now))
        hastened: int = rows[0][0]
        return hastened

    def withdraw(self, picked: Picked, by: str | None, reason: str, now: Now) -> Script[Cancelled]:
        """See ``Controls.withdraw``."""
        said = (_said(by), spelled(picked), clean(reason))
        rows = yield Statement(self._sql("withdraw"), (*columns.columns(picked, 2), *said, self._channel, now))
        return Cancelled(*rows[0])

    def retire(self, group: str, by: str, limit: int, now: Now) -> Script[int | None]:
        """See ``Controls.retire``."""
        while True:
            rows = yield Statement(self._sql("retire"), (group, clean(by), limit, self._channel, now))
            if not rows:
                return None
            dropped: int = rows[0][0]
            seen: int = rows[0][1]
            # Seen and not dropped: settled by their holders meanwhile. Zero is said only when the group has gone.
            if dropped or not seen:
                return dropped

    def drain(self, worker: str, by: str, reason: str, now: Now) -> Script[bool]:
        """See ``Controls.drain``."""
        rows = yield Statement(self._sql("drain"), (worker, clean(by), "drain", clean(reason), True, now))
        return bool(rows)

    def undrain(self, worker: str, by: str, now: Now) -> Script[bool]:
        """See ``Controls.undrain``."""
        rows = yield Statement(self._sql("drain"), (worker, clean(by), "undrain", "", False, now))
        return bool(rows)

    def noted(self, action: str, subject: str, by: str, detail: str, now: Now) -> Script[None]:
        """See ``Controls.noted``."""
        told = (clean(by), action, clean(detail))
        yield Statement(self._sql("timetable_note"), ([clean(subject)], *told, now))


def _chosen(which: DeadSelection) -> tuple[Any, ...]:
    named = (which.message_id, which.group, which.topic, None if which.error is None else clean(which.error))
    picked = (None, None) if which.picked is None else columns.columns(which.picked, 2)
    return *named, which.fingerprint, *picked


def _said(by: str | None) -> str | None:
    return None if by is None else clean(by)
