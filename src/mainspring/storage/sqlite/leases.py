"""Leases of SQLite, as scripts: whoever writes has the write lock, so nobody comes in between."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from mainspring.model.lease import Granted, LeaseView, Renewal, Renewed
from mainspring.storage.script import Row, Script
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.values import after as later
from mainspring.storage.sqlite.values import instant, storable


class SqliteLeases:
    """``LeasesScripts`` for SQLite."""

    def __init__(self, sql: Dialect) -> None:
        self._sql = sql

    def acquire(self, name: str, holder: str, ttl: timedelta, now: datetime | None) -> Script[Granted | None]:
        """See ``Leases.acquire``. Who is refused has only read, so that waiting costs the holder nothing."""
        sql = self._sql
        at = yield from sql.read_clock(now)
        held = yield sql("lease_held", name, at)
        if held and held[0][1] != holder:
            return None
        yield from sql.mark_clock(at, now)
        if held:  # the call was sent again, because its reply was lost
            ((epoch, _, acquired_at),) = held
        else:
            ((epoch,),) = yield sql("lease_count")
            acquired_at = at
        expires_at = later(at, ttl)
        yield sql("lease_take", name, epoch, holder, acquired_at, at, expires_at)
        return Granted(epoch, instant(acquired_at), instant(expires_at))

    def renew(self, renewals: Sequence[Renewal], now: datetime | None) -> Script[Renewed]:
        """See ``Leases.renew``. All of them are one transaction."""
        sql = self._sql
        at = yield from sql.turn_clock(now)
        lost = set()
        for hold, ttl in renewals:
            if not (yield sql("lease_renew", *hold, at, later(at, ttl))):
                lost.add(hold)
        return Renewed(lost=frozenset(lost))

    def release(self, name: str, epoch: int, holder: str, now: datetime | None) -> Script[bool]:
        """See ``Leases.release``."""
        at = yield from self._sql.turn_clock(now)
        return bool((yield self._sql("lease_release", name, epoch, holder, at)))

    def confirm(self, name: str, epoch: int, holder: str, now: datetime | None) -> Script[bool]:
        """See ``Leases.confirm``. The clock's statement takes the write lock, which the transaction keeps."""
        at = yield from self._sql.turn_clock(now)
        held = yield self._sql("lease_held", name, at)
        return bool(held) and held[0][:2] == (epoch, holder)

    def find(self, name: str, now: datetime | None) -> Script[LeaseView | None]:
        """See ``Leases.find``."""
        at = yield from self._sql.read_clock(now)
        rows = yield self._sql("lease_browse", name, None, 1, at)
        return _view(rows[0]) if rows else None

    def browse(self, after: str | None, limit: int, now: datetime | None) -> Script[list[LeaseView]]:
        """See ``Leases.browse``."""
        at = yield from self._sql.read_clock(now)
        return [_view(row) for row in (yield self._sql("lease_browse", None, after, limit, at))]

    def revoke(self, name: str, by: str, reason: str, now: datetime | None) -> Script[bool]:
        """See ``Leases.revoke``."""
        sql = self._sql
        at = yield from sql.turn_clock(now)
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
