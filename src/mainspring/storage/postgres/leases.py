"""Leases in SQL: one statement each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainspring.model.lease import Granted, Hold, LeaseView, Renewal, Renewed
from mainspring.storage.operation import operation
from mainspring.storage.postgres.columns import clean, columns
from mainspring.storage.postgres.dialect import PostgresOperations
from mainspring.storage.script import Script


class PostgresLeases(PostgresOperations):
    """``Leases`` on PostgreSQL."""

    @operation("write")
    def acquire(self, name: str, holder: str, ttl: timedelta) -> Script[Granted | None]:
        rows = yield self._sql("lease_acquire", name, holder, ttl, self.now)
        return Granted(*rows[0]) if rows else None

    @operation("write")
    def renew(self, renewals: Sequence[Renewal]) -> Script[Renewed]:
        batch = sorted((*each.hold, each.ttl) for each in renewals)
        rows = yield self._sql("lease_renew", *columns(batch, 4), self.now)
        lost, busy = (frozenset(Hold(*hold) for *hold, what in rows if what == word) for word in ("lost", "busy"))
        return Renewed(lost, busy)

    @operation("write")
    def release(self, name: str, epoch: int, holder: str) -> Script[bool]:
        return bool((yield self._sql("lease_release", name, epoch, holder, self.now)))

    @operation("write")
    def confirm(self, name: str, epoch: int, holder: str) -> Script[bool]:
        return bool((yield self._sql("lease_confirm", name, epoch, holder, self.now)))

    @operation("read")
    def find(self, name: str) -> Script[LeaseView | None]:
        rows = yield self._sql("lease_find", name, self.now)
        return LeaseView(*rows[0]) if rows else None

    @operation("read")
    def browse(self, after: str | None, limit: int) -> Script[list[LeaseView]]:
        return [LeaseView(*row) for row in (yield self._sql("lease_browse", after, limit, self.now))]

    @operation("write")
    def revoke(self, name: str, by: str, reason: str) -> Script[bool]:
        return bool((yield self._sql("lease_revoke", name, clean(by), clean(reason), self.now)))
