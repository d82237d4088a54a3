"""Leases on SQLite. Every write holds the write lock, so no other comes in between."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainspring.model.lease import Granted, LeaseView, Renewal, Renewed
from mainspring.storage.operation import operation
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import SqliteOperations
from mainspring.storage.sqlite.values import after as later
from mainspring.storage.sqlite.values import instant, storable


class SqliteLeases(SqliteOperations):
    """``Leases`` on SQLite."""

    @operation("write")
    def acquire(self, name: str, holder: str, ttl: timedelta) -> Script[Granted | None]:
        """A caller that is refused has only read, so that waiting costs the holder nothing."""
        sql = self._sql
        at = yield from sql.read_clock()
        held = yield sql("lease_held", name, at)
        if held and held[0][1] != holder:
            return None
        yield from sql.mark_clock(at)
        if held:  # the call was sent again, because its reply was lost
            ((epoch, _, acquired_at),) = held
        else:
            ((epoch,),) = yield sql("lease_count")
            acquired_at = at
        expires_at = later(at, ttl)
        yield sql("lease_take", name, epoch, holder, acquired_at, at, expires_at)
        return Granted(epoch, instant(acquired_at), instant(expires_at))

    @operation("write")
    def renew(self, renewals: Sequence[Renewal]) -> Script[Renewed]:
        """All of them are one transaction."""
        sql = self._sql
        at = yield from sql.turn_clock()
        lost = set()
        for hold, ttl in renewals:
            if not (yield sql("lease_renew", *hold, at, later(at, ttl))):
                lost.add(hold)
        return Renewed(lost=frozenset(lost))

    @operation("write")
    def release(self, name: str, epoch: int, holder: str) -> Script[bool]:
        at = yield from self._sql.turn_clock()
        return bool((yield self._sql("lease_release", name, epoch, holder, at)))

    @operation("write")
    def confirm(self, name: str, epoch: int, holder: str) -> Script[bool]:
        """The clock's statement takes the write lock, which the transaction keeps."""
        at = yield from self._sql.turn_clock()
        held = yield self._sql("lease_held", name, at)
        return bool(held) and held[0][:2] == (epoch, holder)

    @operation("read")
    def find(self, name: str) -> Script[LeaseView | None]:
        at = yield from self._sql.read_clock()
        rows = yield self._sql("lease_find", name, at)
        return _view(rows[0]) if rows else None

    @operation("read")
    def browse(self, after: str | None, limit: int) -> Script[list[LeaseView]]:
        at = yield from self._sql.read_clock()
        return [_view(row) for row in (yield self._sql("lease_browse", after, limit, at))]

    @operation("write")
    def revoke(self, name: str, by: str, reason: str) -> Script[bool]:
        sql = self._sql
        at = yield from sql.turn_clock()
        held = yield sql("lease_held", name, at)
        if not held:
            return False
        epoch, holder, _ = held[0]
        yield sql("lease_release", name, epoch, holder, at)
        detail = f"held by {holder}" + (f": {reason}" if reason else "")
        yield sql("audit_note", at, storable(by), "lease release", name, storable(detail))
        return True


def _view(row: Row) -> LeaseView:
    name, state, holder, epoch, *times = row
    return LeaseView(name, state, holder, epoch, *map(instant, times))
