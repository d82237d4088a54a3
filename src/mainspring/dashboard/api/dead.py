"""Dead letters by cause."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from mainspring.dashboard.answers import shown
from mainspring.dashboard.api.messages import NO_CAUSE
from mainspring.dashboard.reading import Name
from mainspring.dashboard.route import Visit, viewing
from mainspring.model.browsing import CauseView

_MOST = 100


class CauseQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The group; all groups if none is given."""

    group: Name | None = None


class Cause(Struct, frozen=True):
    """Dead letters of one group with the same cause."""

    group: str
    fingerprint: str
    """``-`` for dead letters buried by versions without causes."""
    kind: str
    error: str
    count: int
    more: bool
    """Whether the count is a lower bound."""
    first_at: datetime
    last_at: datetime


class CauseList(Struct, frozen=True):
    """Causes of dead letters."""

    rows: list[Cause]
    more: bool
    """Whether there are others, less frequent or not scanned."""


async def causes(visit: Visit, asked: CauseQuery) -> CauseList:
    """Return dead letters by cause."""
    found = await visit.app.dead.causes(group=asked.group, limit=_MOST)
    return CauseList([cause(each, visit) for each in found.rows], found.more)


def cause(found: CauseView, visit: Visit) -> Cause:
    """Convert a cause for JSON."""
    error = visit.redaction.text(found.error)
    return shown(Cause, found, error=error, fingerprint=found.fingerprint or NO_CAUSE)


ROUTES = (viewing("/api/dead/causes", causes, "Dead letters by cause", CauseList, CauseQuery),)
