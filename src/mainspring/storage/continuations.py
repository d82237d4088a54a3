"""How what follows a join is written into its row, and read back."""

from __future__ import annotations

from uuid import UUID

import msgspec

from mainspring.model.join import Join
from mainspring.model.message import Draft

_decode = msgspec.json.Decoder(Draft).decode


def written(draft: Draft | None) -> str | None:
    """A draft as JSON. Fields that a later release adds are left out by this one, and have their defaults there."""
    return None if draft is None else msgspec.json.encode(draft).decode()


def read(id: UUID, then: str | None, failed: str | None) -> Join:
    """A stored join."""
    return Join(id, None if then is None else _decode(then), None if failed is None else _decode(failed))
