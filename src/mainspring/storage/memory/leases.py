"""Leases in memory: rows by name, and one count for all their epochs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from mainspring.model.lease import Granted, Hold, LeaseView, Renewal, Renewed
from mainspring.storage.memory.lease_rows import LeaseRow
from mainspring.storage.memory.state import State


class MemoryLeases:
    """``Leases`` over shared rows."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def acquire(self, name: str, holder: str, ttl: timedelta) -> Granted | None:
        """See ``Leases.acquire``."""
        state = self._state
        with state.lock:
            now = state.now()
            row = state.leases.rows.get(name)
            if row is None or row.state(now) != "held":
                row = state.leases.rows[name] = LeaseRow(next(state.leases.epochs), holder, now, now, now + ttl)
            elif row.holder == holder:
                row.renewed_at, row.expires_at = now, now + ttl
            else:
                return None
            return Granted(row.epoch, row.acquired_at, row.expires_at)

    async def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        """See ``Leases.renew``."""
        state = self._state
        lost = set()
        with state.lock:
            now = state.now()
            for hold, ttl in renewals:
                row = self._held(hold, now)
                if row is None:
                    lost.add(hold)
                else:
                    row.renewed_at, row.expires_at = now, now + ttl
        return Renewed(lost=frozenset(lost))

    async def release(self, name: str, epoch: int, holder: str) -> bool:
        """See ``Leases.release``."""
        with self._state.lock:
            now = self._state.now()
            row = self._held(Hold(name, epoch, holder), now)
            if row is not None:
                row.release(now)
            return row is not None

    async def confirm(self, name: str, epoch: int, holder: str) -> bool:
        """See ``Leases.confirm``."""
        with self._state.lock:
            return self._held(Hold(name, epoch, holder), self._state.now()) is not None

    async def find(self, name: str) -> LeaseView | None:
        """See ``Leases.find``."""
        with self._state.lock:
            row = self._state.leases.rows.get(name)
            return None if row is None else _view(name, row, self._state.now())

    async def browse(self, after: str | None, limit: int) -> list[LeaseView]:
        """See ``Leases.browse``."""
        state = self._state
        with state.lock:
            now = state.now()
            # By their bytes, as databases compare them.
            names = sorted((each for each in state.leases.rows if after is None or _key(each) > _key(after)), key=_key)
            return [_view(name, state.leases.rows[name], now) for name in names[:limit]]

    async def revoke(self, name: str, by: str, reason: str) -> bool:
        """See ``Leases.revoke``."""
        state = self._state
        with state.lock:
            now = state.now()
            row = state.leases.rows.get(name)
            if row is None or row.state(now) != "held":
                return False
            state.note(by, "lease release", name, f"held by {row.holder}" + (f": {reason}" if reason else ""), now)
            row.release(now)
            return True

    def _held(self, hold: Hold, now: datetime) -> LeaseRow | None:
        row = self._state.leases.rows.get(hold.name)
        return row if row is not None and row.is_under(hold, now) else None


def prune_leases(state: State, kept_for: timedelta | None, limit: int) -> int:
    """Forget the leases that nobody has held for so long; the lock is held."""
    if kept_for is None:
        return 0
    now, rows = state.now(), state.leases.rows
    unheld = ((row.expires_at, name) for name, row in rows.items() if row.expires_at < now - kept_for)
    over = sorted(unheld, key=lambda each: (each[0], _key(each[1])))[:limit]
    for _, name in over:
        del rows[name]
    return len(over)


def _view(name: str, row: LeaseRow, now: datetime) -> LeaseView:
    return LeaseView(name, row.state(now), row.holder, row.epoch, row.acquired_at, row.renewed_at, row.expires_at)


def _key(name: str) -> bytes:
    return name.encode()
