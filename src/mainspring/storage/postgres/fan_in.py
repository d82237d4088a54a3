"""Joins in SQL: members are published with what follows them, and their ends are counted by whoever looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from mainspring.model.join import Join, as_members, continuation
from mainspring.model.message import Conflict, Draft, Published
from mainspring.storage import continuations
from mainspring.storage.operation import Now
from mainspring.storage.postgres import columns
from mainspring.storage.postgres.conflicts import conflicts
from mainspring.storage.postgres.names import Names
from mainspring.storage.postgres.opening import Opening
from mainspring.storage.script import Script, Statement

_BATCH = 1000


class Fired(NamedTuple):
    """The joins that were complete: how many, what they have published, and what they could not."""

    joined: int = 0
    continuations: tuple[Draft, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


def open_join(names: Names, join: Join, members: Sequence[Draft], now: Now) -> Script[Published]:
    """Store the members, and with them what is to follow."""
    drafts = as_members(join, members)
    stored: set[UUID] = set()
    for start in range(0, len(drafts), _BATCH):
        batch = columns.of_drafts(drafts[start : start + _BATCH])
        stored.update(
            columns.plain_id(row[0]) for row in (yield Opening(names.sql("publish"), (*batch, names.bell, now)))
        )
    if stored:
        # Members that were there already belong to another call, perhaps an earlier copy of this one.
        following = continuations.written(join.then), continuations.written(join.failed)
        yield Statement(names.sql("joint_open"), (join.id, len(stored), *following, now))
    return Published(frozenset(stored), (yield from conflicts(names, drafts, stored)))


def fire(names: Names, publish: Callable[[Sequence[Draft]], Script[Published]], limit: int) -> Script[Fired]:
    """Count what has ended, and let joins that are complete by that go on: one transaction, so exactly once."""
    rows = yield Opening(names.sql("joint_count"), (limit,))
    following = [
        continuation(continuations.read(id, on_done, on_failed), done, failed)
        for id, on_done, on_failed, done, failed in rows
    ]
    drafts = tuple(draft for draft in following if draft is not None)
    published = yield from publish(drafts)
    return Fired(len(rows), drafts, published.conflicting(drafts))
