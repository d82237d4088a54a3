"""Reading: what every storage must be able to tell."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol
from uuid import UUID

from mainspring.model.browsing import CAUSES_SCAN, Causes, Chain, Filter, Page
from mainspring.model.join import JoinView
from mainspring.model.views import AuditView, DeliveryView, MessageView, Roster, RunView, Tally


class Ledger(Protocol):
    """Reading. Never locks, never changes anything."""

    async def tally(self, cap: int = 100_000) -> Tally:
        """Count every group's deliveries by state, and what is parked, each up to ``cap``."""
        ...

    async def browse(self, filter: Filter) -> Page:
        """List deliveries, newest first, without looking at more rows than the filter allows.

        From page to page, by ``before``, everything that matches is listed once, however many pages are short.
        """
        ...

    async def causes(self, group: str | None, cap: int, limit: int, scan: int = CAUSES_SCAN) -> Causes:
        """What dead letters died of, up to ``limit`` causes: of one group, or of all.

        The most frequent first, each counted up to ``cap``, and less far where there are so many causes that it would
        take more than ``scan`` rows in all.
        """
        ...

    async def chain(self, message_id: UUID, limit: int) -> Chain:
        """Up to ``limit`` messages that a message came of, and as many that came of it.

        Empty where it is unknown. What has been pruned ends the chain on that side.
        """
        ...

    async def find(self, message_id: UUID) -> MessageView | None:
        """One message with all that is known of it."""
        ...

    async def runs(
        self, group: str | None, before: int | None, limit: int, schedule: str | None = None
    ) -> list[RunView]:
        """The kept runs, newest first; ``before`` is the id of the last row of the page before."""
        ...

    async def failures(self, limit: int) -> list[RunView]:
        """The latest kept runs that failed, for good or not, the last to end first."""
        ...

    async def recent(self, schedules: Collection[str], limit: int) -> dict[str, tuple[RunView, ...]]:
        """The latest kept runs of each of these schedules, by its name, newest first; one without any is left out."""
        ...

    async def joins(self, after: UUID | None, limit: int) -> list[JoinView]:
        """The open joins by id, which is oldest first; ``after`` is the id of the last row of the page before."""
        ...

    async def find_join(self, id: UUID) -> JoinView | None:
        """One open join; None when there is none, or none any more."""
        ...

    async def members(self, join_id: UUID, after: int | None, limit: int) -> list[DeliveryView]:
        """The members of a join that have not ended, by ``seq``; ``after`` is the last one of the page before."""
        ...

    async def pending(self, limits: Mapping[str, int]) -> dict[str, int]:
        """How many deliveries of each group wait, due or not, and nobody holds; each counted up to its limit."""
        ...

    async def roster(self) -> Roster:
        """The declared groups and the workers that reported themselves."""
        ...

    async def audit(self, before: int | None, limit: int) -> list[AuditView]:
        """What operators did, newest first."""
        ...
