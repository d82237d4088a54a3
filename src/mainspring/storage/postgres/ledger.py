"""The ledger on PostgreSQL: reading, which changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from mainspring.model.views import Counts, RunView, Tally
from mainspring.storage.operation import operation
from mainspring.storage.portable.ledger import SqlLedger, by_schedule
from mainspring.storage.postgres.dialect import PostgresOperations
from mainspring.storage.script import Script


class PostgresLedger(SqlLedger, PostgresOperations):
    """``Ledger`` on PostgreSQL. Rows become views by position."""

    @operation("read")
    def tally(self, cap: int = 100_000) -> Script[Tally]:
        rows = yield self._sql("tally", cap, self.now)
        moment, parked, expired_parked = rows[0][:3]
        groups = tuple(Counts(*row[3:]) for row in rows if row[3] is not None)
        return Tally(moment, groups, parked, expired_parked)

    @operation("settle")
    def earlier(self) -> Script[None]:
        """What ``own`` needs: nothing, since a row knows the transaction that inserted it."""
        yield from ()

    @operation("read")
    def own(self, ids: Sequence[UUID], earlier: object) -> Script[frozenset[UUID]]:  # noqa: ARG002 - one for every dialect
        """Which of these messages this transaction has published."""
        return frozenset(row[0] for row in (yield self._sql("own", list(ids))))

    @operation("read")
    def recent(self, schedules: Collection[str], limit: int) -> Script[dict[str, tuple[RunView, ...]]]:
        rows = yield self._sql("runs_recent", sorted(set(schedules)), limit)
        return by_schedule(RunView(*row) for row in rows)

    @operation("read")
    def pending(self, limits: Mapping[str, int]) -> Script[dict[str, int]]:
        rows = yield self._sql("pending", list(limits), list(limits.values()))
        return {group: count for group, count in rows}  # noqa: C416 - a row is no pair to a type checker
