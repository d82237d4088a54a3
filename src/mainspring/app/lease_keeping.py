"""Who renews the leases that were acquired through one door."""

from __future__ import annotations

import os

from mainspring.app.door import Door
from mainspring.runtime.holding import Holding
from mainspring.runtime.lease_keeper import LeaseKeeper, Return
from mainspring.runtime.rate_limited_log import RateLimitedLog
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock


class Keeping:
    """Starts a keeper with the first lease, and ends it before the database is closed.

    It knows the door and nothing else of the app, which the door outlives. In a test nobody renews: there time passes
    only when the test says so.
    """

    def __init__(self, door: Door, clock: Clock) -> None:
        self._door = door
        self._clock = clock
        self._keeper: LeaseKeeper | None = None
        self._storage: Storage | None = None
        self._pid = 0
        door.farewells.append(self._close)

    def keep(self, holding: Holding, storage: Storage) -> None:
        """Renew it from now on; it was acquired through this storage."""
        if self._door.stand_in is None:
            self._of(storage).keep(holding)

    def drop(self, holding: Holding) -> None:
        """Renew it no more."""
        if self._here is not None:
            self._here.drop(holding)

    def give_back(self, holding: Holding) -> None:
        """Have it released by and by. It may be held for longer there than it was certain here."""
        if self._here is not None:
            until = self._clock.elapsed() + holding.renewal.ttl.total_seconds()
            self._here.give_back(Return(holding.hold.name, holding.hold.holder, until, holding.hold.epoch))

    def forget(self, name: str, holder: str, until: float, storage: Storage) -> None:
        """Have it released by and by, if it was acquired: nobody knows."""
        if self._door.stand_in is None:
            self._of(storage).give_back(Return(name, holder, until))

    @property
    def held(self) -> int:
        """How many are renewed."""
        return 0 if self._here is None else self._here.held

    @property
    def _here(self) -> LeaseKeeper | None:
        # A forked child has the object, but not its thread.
        return self._keeper if self._pid == os.getpid() else None

    def _of(self, storage: Storage) -> LeaseKeeper:
        if self._here is None or self._storage is not storage:
            self._keeper = LeaseKeeper(storage, self._clock, RateLimitedLog(self._clock, "mainspring.leases"))
            self._storage, self._pid = storage, os.getpid()
        assert self._keeper is not None
        return self._keeper

    async def _close(self, _storage: Storage) -> None:
        keeper, self._keeper, self._storage = self._here, None, None
        if keeper is not None:
            await keeper.stop()
