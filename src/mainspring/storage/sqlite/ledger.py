"""The ledger on SQLite: reading, which changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast
from uuid import UUID

from mainspring.model.views import Counts, RunView, Tally
from mainspring.storage.operation import operation
from mainspring.storage.portable.ledger import SqlLedger, by_schedule
from mainspring.storage.script import Script
from mainspring.storage.sqlite.dialect import SqliteOperations
from mainspring.storage.sqlite.publish import pending
from mainspring.storage.sqlite.values import instant


class SqliteLedger(SqlLedger, SqliteOperations):
    """``Ledger`` on SQLite."""

    @operation("read")
    def tally(self, cap: int = 100_000) -> Script[Tally]:
        sql = self._sql
        at = yield from sql.read_clock()
        groups_named = yield sql("tally_names")
        done = {group: (handled, failed) for group, handled, failed in (yield sql("tally_done"))}
        groups: list[Counts] = []
        for (name,) in groups_named:
            (counts,) = yield sql("tally_group", name, at, cap)
            groups.append(self._view(Counts, (name, *counts, *done.get(name, (0, 0)))))
        ((parked, expired),) = yield sql("tally_parked", cap)
        return Tally(instant(at), tuple(groups), parked, expired)

    @operation("settle")
    def earlier(self) -> Script[frozenset[UUID]]:
        """What ``own`` has to know: which messages are there. It takes the write lock, so that no others come."""
        yield self._sql("settle_lock", -1, -1)
        return frozenset(UUID(bytes=row[0]) for row in (yield self._sql("earlier")))

    @operation("read")
    def own(self, ids: Sequence[UUID], earlier: object) -> Script[frozenset[UUID]]:
        """Which of these messages this transaction has published."""
        yield from ()
        return frozenset(ids).difference(cast("frozenset[UUID]", earlier))

    @operation("read")
    def recent(self, schedules: Collection[str], limit: int) -> Script[dict[str, tuple[RunView, ...]]]:
        found: list[RunView] = []
        for name in sorted(set(schedules)):
            found += [self._view(RunView, row) for row in (yield self._sql("runs_schedule", name, None, None, limit))]
        return by_schedule(found)

    @operation("read")
    def pending(self, limits: Mapping[str, int]) -> Script[dict[str, int]]:
        return pending(self._sql, limits)
