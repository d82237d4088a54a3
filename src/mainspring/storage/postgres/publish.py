"""Publishing on PostgreSQL: ids that are known already, and joins."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from uuid import UUID

from mainspring.model.join import Join, as_members
from mainspring.model.message import Draft, Published, repeated
from mainspring.storage.operation import Now
from mainspring.storage.portable.timetable import written_draft
from mainspring.storage.postgres import columns
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.script import Script

_BATCH = 1000


def conflicts(names: Names, drafts: Sequence[Draft], stored: Collection[UUID]) -> Script[dict[int, str]]:
    """See ``Published.conflicts``. Asks nothing where all were stored."""
    known = repeated(drafts, stored)
    found: dict[int, str] = {}
    for start in range(0, len(known), _BATCH):
        rows = [(place, each.id, each.topic, _digest(each)) for place, each in known[start : start + _BATCH]]
        differing = yield names("publish_known", *columns.columns(rows, 4))
        found |= {place: topic for place, topic in differing}  # noqa: C416 - a row is no pair to a type checker
    return found


def _digest(draft: Draft) -> bytes:
    return hashlib.sha256(draft.payload).digest()


def open_join(names: Names, join: Join, members: Sequence[Draft], now: Now) -> Script[Published]:
    """Store the members, and with them what is to follow."""
    drafts = as_members(join, members)
    stored: set[UUID] = set()
    for start in range(0, len(drafts), _BATCH):
        batch = columns.of_drafts(drafts[start : start + _BATCH])
        stored.update(columns.plain_id(row[0]) for row in (yield names.opening("publish", *batch, names.bell, now)))
    if stored:
        # Members that were there already belong to another call, perhaps an earlier copy of this one.
        following = written_draft(join.then), written_draft(join.failed)
        yield names("joint_open", join.id, len(stored), *following, now)
    return Published(frozenset(stored), (yield from conflicts(names, drafts, stored)))
