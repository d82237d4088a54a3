"""Joins in SQLite: counted in their own rows, under the one write lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from mainspring.model.join import Join, Recount, as_members, continuation
from mainspring.model.message import Conflict, Draft, Published
from mainspring.storage import continuations
from mainspring.storage.script import Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.publishing import publish


class Fired(NamedTuple):
    """The joins that were complete: how many, what they have published, and what they could not."""

    joined: int = 0
    continuations: tuple[Draft, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


def open_join(sql: Dialect, join: Join, members: Sequence[Draft]) -> Script[Published]:
    """Store the members, and with them what is to follow."""
    at = yield from sql.turn_clock()
    published = yield from publish(sql, as_members(join, members))
    if published.stored:
        # Members that were there already belong to another call, perhaps an earlier copy of this one.
        following = continuations.written(join.then), continuations.written(join.failed)
        yield sql("joint_open", join.id.bytes, at, len(published.stored), *following)
    return published


class Ends:
    """The members that have ended in one script."""

    def __init__(self) -> None:
        self._done: Counter[bytes] = Counter()
        self._failed: Counter[bytes] = Counter()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._done or self._failed)

    def note(self, join_id: bytes | None, *, done: bool = False) -> None:
        """A delivery has ended, a member or not."""
        if join_id is not None:
            (self._done if done else self._failed)[join_id] += 1

    def count(self, sql: Dialect) -> Script[None]:
        """Write it into the rows of their joins."""
        for join_id in {**self._done, **self._failed}:
            yield sql("joint_count", join_id, self._done[join_id], self._failed[join_id])


def count_dropped(sql: Dialect, join_ids: Iterable[bytes | None]) -> Script[None]:
    """Deliveries of these joins, or of none, have ended without a verdict."""
    ends = Ends()
    for each in join_ids:
        ends.note(each)
    yield from ends.count(sql)
    if ends:
        # No worker has ended them, so none would look by itself before its next poll.
        yield sql("bell_ring")


def fire(sql: Dialect, limit: int, at: int) -> Script[Fired]:
    """Let up to ``limit`` complete joins go on, in the order of their ids."""
    yield from sql.mark_clock(at)
    rows = yield sql("joint_complete", limit)
    drafts: list[Draft] = []
    for raw, on_done, on_failed, done, failed in rows:
        # The row goes in the transaction that publishes: whoever looks next finds nothing to follow.
        yield sql("joint_delete", raw)
        draft = continuation(continuations.read(UUID(bytes=raw), on_done, on_failed), done, failed)
        if draft is not None:
            drafts.append(draft)
    published = yield from publish(sql, drafts)
    return Fired(len(rows), tuple(drafts), published.conflicting(drafts))


def recount(sql: Dialect, after: UUID | None, limit: int) -> Script[Recount]:
    """Count the members that have gone without being counted."""
    rows = yield sql("joint_recount", continuations.beyond(after).bytes, limit)
    gone = [row for row in rows if row[3] > 0]
    if gone:
        found = yield sql("joint_failures", min(opened for _, opened, _, _ in gone))
        failures = {UUID(text): size for text, size in found}
        for raw, _, counted, size in gone:
            failed = min(size, max(failures.get(UUID(bytes=raw), 0) - counted, 0))
            yield sql("joint_count", raw, size - failed, failed)
        yield sql("bell_ring")
    last = UUID(bytes=rows[-1][0]) if len(rows) == limit else None
    return Recount(sum(size for *_, size in gone), last)
