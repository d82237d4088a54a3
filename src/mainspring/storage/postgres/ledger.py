"""The ledger on PostgreSQL: reading, which changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from mainspring.model.views import Counts, GroupView, Roster, RunView, Tally
from mainspring.storage.operation import operation
from mainspring.storage.portable.dialect import read_mapping
from mainspring.storage.portable.ledger import SqlLedger, by_schedule
from mainspring.storage.postgres.dialect import PostgresOperations
from mainspring.storage.script import Row, Script


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

    @operation("read")
    def roster(self) -> Script[Roster]:
        groups = yield self._sql("roster_groups", self.now)
        workers = yield self._sql("roster_workers")
        return Roster(
            groups[0][0],
            tuple(_group(row) for row in groups if row[1] is not None),
            tuple(self._worker(row) for row in workers),
        )


def _group(row: Row) -> GroupView:
    _now, name, app, patterns, handler, options, *rest = row
    return GroupView(name, app, tuple(patterns), handler, read_mapping(options), *rest)
