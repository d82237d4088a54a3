"""Joins: how a follow-up is written into the row of a join and read back, and how open joins are paged."""

from __future__ import annotations

from uuid import UUID

import msgspec

from mainspring.model.join import Join
from mainspring.model.message import Draft

LAST_ID = UUID(int=2**128 - 1)
"""No id is greater."""

_decode = msgspec.json.Decoder(Draft).decode


def written_draft(draft: Draft | None) -> str | None:
    """Write a draft as JSON. Fields that a later release adds are missing here, and get their defaults there."""
    return None if draft is None else msgspec.json.encode(draft).decode()


def read_join(id: UUID, then: str | None, failed: str | None) -> Join:
    """Read a stored join."""
    return Join(id, None if then is None else _decode(then), None if failed is None else _decode(failed))


def id_after(after: UUID | None) -> UUID:
    """Return the first id after this one; None: the first id there is."""
    return UUID(int=0 if after is None else min(after.int + 1, LAST_ID.int))
