"""``app.sync.joins``: the open joins for blocking callers."""

from __future__ import annotations

from uuid import UUID

from mainspring.app.joins import Joins, JoinViews, Which
from mainspring.app.paging import Deliveries
from mainspring.app.post import REASON
from mainspring.app.sync_desk import Running
from mainspring.model.join import JoinView
from mainspring.model.message import Cancelled


class SyncJoins:
    """As ``app.joins``, without await."""

    def __init__(self, joins: Joins, run: Running) -> None:
        self._joins = joins
        self._run = run

    def list(self, *, after: UUID | str | None = None, limit: int = 50) -> JoinViews:
        """The open joins, oldest first; ``after`` is the id of the last row of the page before."""
        return self._run(lambda: self._joins.list(after=after, limit=limit), "joins.list()")

    def get(self, join: Which) -> JoinView | None:
        """One open join; None when there is no such join, or no more."""
        return self._run(lambda: self._joins.get(join), "joins.get(…)")

    def members(self, join: Which, *, after: int | None = None, limit: int = 50) -> Deliveries:
        """Its members that have not ended; ``after`` is the ``seq`` of the last row of the page before."""
        return self._run(lambda: self._joins.members(join, after=after, limit=limit), "joins.members(…)")

    def cancel(self, join: Which, *, reason: str = REASON) -> Cancelled:
        """Cancel its members that have not ended, each by itself; when all have, ``failed`` follows as always."""
        return self._run(lambda: self._joins.cancel(join, reason=reason), "joins.cancel(…)")
