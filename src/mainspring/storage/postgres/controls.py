"""The controls in SQL: what an operator may do, each with its line in the audit."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mainspring.model.browsing import GOES_ON, By, DeadSelection, Picked, spelled
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
        self._channel = names.bell
        self._sql = names.sql

    def pause(self, group: str, by: str, reason: str, now: Now) -> Script[bool]:
        """See ``Controls.pause``."""
        rows = yield Statement(self._sql("pause"), (group, clean(by), clean(reason), now))
        return bool(rows)

    def resume(self, group: str, by: str, now: Now) -> Script[bool]:
        """See ``Controls.resume``."""
        rows = yield Statement(self._sql("resume"), (group, clean(by), self._channel, now))
        return bool(rows)

    def revive(self, which: DeadSelection, by: By, limit: int, now: Now) -> Script[int]:
        """See ``Controls.revive``."""
        return self._unbury(which, by, limit, now, alive=True)

    def replace(self, message_id: UUID, group: str, by: str, draft: Draft, now: Now) -> Script[bool]:
        """See ``Controls.replace``."""
        detail = f"replaced in {group} by {draft.id}"
        rows = yield Opening(self._sql("replace"), (message_id, group, clean(by), detail, now))
        if rows:
            yield Statement(self._sql("publish"), (*columns.of_drafts([draft]), self._channel, now))
        return bool(rows)

    def discard(self, which: DeadSelection, by: By, limit: int, now: Now) -> Script[int]:
        """See ``Controls.discard``."""
        return self._unbury(which, by, limit, now, alive=False)

    def hasten(self, picked: Picked, by: By, now: Now) -> Script[int]:
        """See ``Controls.hasten``."""
        said = (_said(by), spelled(picked))
        args = (*columns.columns(picked, 2), *said, self._channel, now)
        (hastened,) = yield from self._audited(by, "hasten", args)
        return hastened

    def withdraw(self, picked: Picked, by: By, reason: str, now: Now) -> Script[Cancelled]:
        """See ``Controls.withdraw``."""
        said = (_said(by), spelled(picked), clean(reason))
        args = (*columns.columns(picked, 2), *said, self._channel, now)
        return Cancelled(*(yield from self._audited(by, "withdraw", args)))

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

    def noted(self, action: str, subject: str, by: str, detail: str, now: Now) -> Script[int]:
        """See ``Controls.noted``."""
        told = (clean(by), action, clean(detail))
        rows = yield Statement(self._sql("timetable_note"), ([clean(subject)], *told, now))
        line: int = rows[0][0]
        return line

    def amend(self, line: int, standing: str) -> Script[None]:
        """See ``Controls.amend``."""
        yield Statement(self._sql("audit_amend"), (line, None, GOES_ON, clean(standing)))

    def _unbury(self, which: DeadSelection, by: By, limit: int, now: Now, *, alive: bool) -> Script[int]:
        said = (_said(by), clean(which.described))
        args = (*_chosen(which), limit, *said, now, self._channel, alive)
        (unburied,) = yield from self._audited(by, "unbury", args)
        return unburied

    def _audited(self, by: By, name: str, args: tuple[Any, ...]) -> Script[tuple[int, ...]]:
        """The counts that a statement answers. It writes a line of its own, or one that is there is amended with it."""
        if isinstance(by, str):
            rows = yield Statement(self._sql(name), args)
        else:
            rows = yield Opening(self._sql(name), args)
            told = by.after(sum(rows[0])).told
            yield Statement(self._sql("audit_amend"), (by.id, told, GOES_ON, GOES_ON))
        return tuple(rows[0])


def _chosen(which: DeadSelection) -> tuple[Any, ...]:
    named = (which.message_id, which.group, which.topic, None if which.error is None else clean(which.error))
    picked = (None, None) if which.picked is None else columns.columns(which.picked, 2)
    return *named, which.fingerprint, *picked


def _said(by: By) -> str | None:
    return clean(by) if isinstance(by, str) else None
