"""The controls in SQL: what an operator may do, each with its line in the audit."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mainspring.model.message import REPLAYED, Cancelled, Draft, Lapse, ReleasedClaims
from mainspring.model.schedule import Note
from mainspring.model.search import UNFINISHED, By, DeadSelection, Picked, spelled
from mainspring.storage.operation import operation
from mainspring.storage.postgres import columns
from mainspring.storage.postgres.columns import clean
from mainspring.storage.postgres.dialect import PostgresOperations
from mainspring.storage.script import Script


class PostgresControls(PostgresOperations):
    """``Controls`` on PostgreSQL."""

    @operation("write")
    def pause(self, group: str, by: str, reason: str) -> Script[bool]:
        rows = yield self._sql("pause", group, clean(by), clean(reason), self.now)
        return bool(rows)

    @operation("write")
    def resume(self, group: str, by: str) -> Script[bool]:
        rows = yield self._sql("resume", group, clean(by), self._channel, self.now)
        return bool(rows)

    @operation("write")
    def release(
        self, group: str, by: str, limit: int, after: Lapse | None
    ) -> Script[tuple[ReleasedClaims, Lapse | None] | None]:
        rows = yield self._sql("release", group, clean(by), limit, *(after or (None, None)), self._channel, self.now)
        if not rows:
            return None
        *counts, lapsed_at, seq = rows[0]
        return ReleasedClaims(*counts), (lapsed_at, seq) if sum(counts) == limit else None

    @operation("write")
    def revive(self, which: DeadSelection, by: By, limit: int) -> Script[int]:
        return self._unbury(which, by, limit, alive=True)

    @operation("write")
    def replace(self, message_id: UUID, group: str, by: str, draft: Draft) -> Script[bool]:
        detail = f"replaced in {group} by {draft.id}"
        rows = yield self._sql.opening("replace", message_id, group, clean(by), detail, self.now)
        if rows:
            yield self._sql("publish", *columns.of_drafts([draft]), self._channel, self.now)
            yield self._sql("replayed", draft.id, REPLAYED)
        return bool(rows)

    @operation("write")
    def discard(self, which: DeadSelection, by: By, limit: int) -> Script[int]:
        return self._unbury(which, by, limit, alive=False)

    @operation("write")
    def run_now(self, picked: Picked, by: By) -> Script[int]:
        noted = (_actor(by), spelled(picked))
        args = (*columns.columns(picked, 2), *noted, self._channel, self.now)
        (due,) = yield from self._audited(by, "run_now", args)
        return due

    @operation("write")
    def cancel(self, picked: Picked, by: By, reason: str) -> Script[Cancelled]:
        noted = (_actor(by), spelled(picked), clean(reason))
        args = (*columns.columns(picked, 2), *noted, self._channel, self.now)
        return Cancelled(*(yield from self._audited(by, "cancel_picked", args)))

    @operation("write")
    def retire(self, group: str, by: str, limit: int) -> Script[int | None]:
        while True:
            rows = yield self._sql("retire", group, clean(by), limit, self._channel, self.now)
            if not rows:
                return None
            dropped: int = rows[0][0]
            seen: int = rows[0][1]
            # Seen and not dropped: settled by their holders in between. Zero is returned only when the group is gone.
            if dropped or not seen:
                return dropped

    @operation("write")
    def drain(self, worker: str, by: str, reason: str) -> Script[bool]:
        args = (worker, clean(by), "drain", clean(reason), True, self.now)
        return bool((yield self._sql("drain", *args)))

    @operation("write")
    def resume_worker(self, worker: str, by: str) -> Script[bool]:
        args = (worker, clean(by), "worker resume", "", False, self.now)
        return bool((yield self._sql("drain", *args)))

    @operation("write")
    def note(self, action: str, subject: str, by: str, detail: str) -> Script[int]:
        rows = yield self._note(self.now, Note(by, action, detail), subject)
        line: int = rows[0][0]
        return line

    @operation("write")
    def amend(self, line: int, standing: str) -> Script[None]:
        yield self._sql("audit_amend", line, None, UNFINISHED, clean(standing))

    def _unbury(self, which: DeadSelection, by: By, limit: int, *, alive: bool) -> Script[int]:
        noted = (_actor(by), clean(which.described))
        args = (*_chosen(which), limit, *noted, self.now, self._channel, alive)
        (unburied,) = yield from self._audited(by, "unbury", args)
        return unburied

    def _audited(self, by: By, name: str, args: tuple[Any, ...]) -> Script[tuple[int, ...]]:
        """The counts that a statement answers. It writes a line of its own, or one that is there is amended with it."""
        if isinstance(by, str):
            rows = yield self._sql(name, *args)
        else:
            rows = yield self._sql.opening(name, *args)
            detail = by.after(sum(rows[0])).detail
            yield self._sql("audit_amend", by.id, detail, UNFINISHED, UNFINISHED)
        return tuple(rows[0])


def _chosen(which: DeadSelection) -> tuple[Any, ...]:
    named = (which.message_id, which.group, which.topic, None if which.error is None else clean(which.error))
    picked = (None, None) if which.picked is None else columns.columns(which.picked, 2)
    return *named, which.fingerprint, *picked


def _actor(by: By) -> str | None:
    return clean(by) if isinstance(by, str) else None
