"""Leases in SQL: one statement each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from mainspring.model.lease import Granted, Hold, LeaseView, Renewal, Renewed
from mainspring.storage.postgres.columns import clean, columns
from mainspring.storage.postgres.names import Names
from mainspring.storage.script import Script, Statement
from mainspring.storage.sql import Now


class PostgresLeases:
    """``LeasesScripts`` for PostgreSQL."""

    def __init__(self, names: Names) -> None:
        self._sql = names.sql

    def acquire(self, name: str, holder: str, ttl: timedelta, now: Now) -> Script[Granted | None]:
        """See ``Leases.acquire``."""
        rows = yield Statement(self._sql("lease_acquire"), (name, holder, ttl, now))
        return Granted(*rows[0]) if rows else None

    def renew(self, renewals: Sequence[Renewal], now: Now) -> Script[Renewed]:
        """See ``Leases.renew``."""
        batch = sorted((*each.hold, each.ttl) for each in renewals)
        rows = yield Statement(self._sql("lease_renew"), (*columns(batch, 4), now))
        lost, busy = (frozenset(Hold(*hold) for *hold, what in rows if what == word) for word in ("lost", "busy"))
        return Renewed(lost, busy)

    def release(self, name: str, epoch: int, holder: str, now: Now) -> Script[bool]:
        """See ``Leases.release``."""
        return bool((yield Statement(self._sql("lease_release"), (name, epoch, holder, now))))

    def confirm(self, name: str, epoch: int, holder: str, now: Now) -> Script[bool]:
        """See ``Leases.confirm``."""
        return bool((yield Statement(self._sql("lease_confirm"), (name, epoch, holder, now))))

    def find(self, name: str, now: Now) -> Script[LeaseView | None]:
        """See ``Leases.find``."""
        rows = yield Statement(self._sql("lease_browse"), (name, None, 1, now))
        return LeaseView(*rows[0]) if rows else None

    def browse(self, after: str | None, limit: int, now: Now) -> Script[list[LeaseView]]:
        """See ``Leases.browse``."""
        return [LeaseView(*row) for row in (yield Statement(self._sql("lease_browse"), (None, after, limit, now)))]

    def revoke(self, name: str, by: str, reason: str, now: Now) -> Script[bool]:
        """See ``Leases.revoke``."""
        return bool((yield Statement(self._sql("lease_revoke"), (name, clean(by), clean(reason), now))))
