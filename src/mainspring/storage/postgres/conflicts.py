"""Known ids in SQL: whether each is the same message again, or another one."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from uuid import UUID

from mainspring.model.message import Draft, repeated
from mainspring.storage.postgres import columns
from mainspring.storage.postgres.names import Names
from mainspring.storage.script import Script, Statement

_BATCH = 1000


def conflicts(names: Names, drafts: Sequence[Draft], stored: Collection[UUID]) -> Script[dict[int, str]]:
    """See ``Published.conflicts``. Asks nothing where all were stored."""
    known = repeated(drafts, stored)
    found: dict[int, str] = {}
    for start in range(0, len(known), _BATCH):
        rows = [(place, each.id, each.topic, _digest(each)) for place, each in known[start : start + _BATCH]]
        differing = yield Statement(names.sql("publish_known"), columns.columns(rows, 4))
        found |= {place: topic for place, topic in differing}  # noqa: C416 - a row is no pair to a type checker
    return found


def _digest(draft: Draft) -> bytes:
    return hashlib.sha256(draft.payload).digest()
