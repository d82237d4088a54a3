"""The controls in SQL: what an operator may do, each with its line in the audit."""

from __future__ import annotations

from uuid import UUID

from mainspring.model.message import Draft
from mainspring.model.views import DeadSelection
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

    def revive(self, which: DeadSelection, by: str, limit: int, now: Now) -> Script[int]:
        """See ``Controls.revive``."""
        said = (clean(by), clean(_described(which)))
        rows = yield Statement(self._sql("revive"), (*_chosen(which), limit, *said, self._channel, now))
        revived: int = rows[0][0]
        return revived

    def replace(self, message_id: UUID, group: str, by: str, draft: Draft, now: Now) -> Script[bool]:
        """See ``Controls.replace``."""
        detail = f"replaced in {group} by {draft.id}"
        rows = yield Opening(self._sql("replace"), (message_id, group, clean(by), detail, now))
        if rows:
            yield Statement(self._sql("publish"), (*columns.of_drafts([draft]), self._channel, now))
        return bool(rows)

    def discard(self, which: DeadSelection, by: str, limit: int, now: Now) -> Script[int]:
        """See ``Controls.discard``."""
        said = (clean(by), clean(_described(which)))
        rows = yield Statement(self._sql("discard"), (*_chosen(which), limit, *said, now))
        discarded: int = rows[0][0]
        return discarded

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

    def purged(self, subject: str, by: str, detail: str, now: Now) -> Script[None]:
        """See ``Controls.purged``."""
        yield Statement(self._sql("timetable_note"), ([subject], clean(by), "purge", detail, now))


def _chosen(which: DeadSelection) -> tuple[UUID | None, str | None, str | None, str | None]:
    return which.message_id, which.group, which.topic, None if which.error is None else clean(which.error)


def _described(which: DeadSelection) -> str:
    named = (
        ("message", which.message_id),
        ("group", which.group),
        ("topic", which.topic),
        ("error", which.error),
    )
    return ", ".join(f"{name} {value}" for name, value in named if value is not None) or "all dead letters"
