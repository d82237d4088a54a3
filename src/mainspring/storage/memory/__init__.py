"""The storage in memory: the executable specification of the contract, and what applications test on."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from mainspring.storage.contract import (
    Controls,
    Doorbell,
    Fanouts,
    Inbox,
    Leases,
    Ledger,
    Mailbox,
    Measures,
    Schema,
    Timetable,
    Upkeep,
)
from mainspring.storage.memory.controls import MemoryControls
from mainspring.storage.memory.doorbell import MemoryDoorbell
from mainspring.storage.memory.fanouts import MemoryFanouts
from mainspring.storage.memory.inbox import MemoryInbox
from mainspring.storage.memory.leases import MemoryLeases
from mainspring.storage.memory.ledger import MemoryLedger
from mainspring.storage.memory.lending import MemoryLender
from mainspring.storage.memory.mailbox import MemoryMailbox
from mainspring.storage.memory.measures import MemoryMeasures
from mainspring.storage.memory.schema import MemorySchema
from mainspring.storage.memory.state import State
from mainspring.storage.memory.timetable import MemoryTimetable
from mainspring.storage.memory.upkeep import MemoryUpkeep
from mainspring.timing.clock import Clock, SystemClock

__all__ = ["MemoryStorage"]


class MemoryStorage:
    """``Storage`` in this process, gone with it; what ``close`` lets go of, ``open`` finds again.

    Safe with any number of threads and loops: each takes a ``sibling``, and one lock is over all their rows.
    ``now`` is one for all siblings, since the clock belongs to the storage; without it ``clock`` decides.
    """

    def __init__(self, clock: Clock | None = None, *, _shared: State | None = None) -> None:
        state = State(SystemClock() if clock is None else clock) if _shared is None else _shared
        self._state = state
        self.migrates_itself = True
        self.mailbox: Mailbox = MemoryMailbox(state)
        self.ledger: Ledger = MemoryLedger(state)
        self.controls: Controls = MemoryControls(state)
        self.upkeep: Upkeep = MemoryUpkeep(state)
        self.timetable: Timetable = MemoryTimetable(state)
        self.inbox: Inbox = MemoryInbox(state)
        self.leases: Leases = MemoryLeases(state)
        self.fanouts: Fanouts = MemoryFanouts(state)
        self.measures: Measures = MemoryMeasures(state)
        self._bell = MemoryDoorbell(state)
        self.doorbell: Doorbell = self._bell
        self.schema: Schema = MemorySchema(state)

    @property
    def now(self) -> datetime | None:
        """The hand-set clock, or None."""
        return self._state.hand_set

    @now.setter
    def now(self, instant: datetime | None) -> None:
        self._state.hand_set = instant

    async def open(self) -> None:
        """See ``Storage.open``. Nothing to do."""

    async def close(self) -> None:
        """See ``Storage.close``. The rows stay for the siblings, and for who opens again."""
        self._bell.hang_up()

    async def ping(self) -> timedelta:
        """See ``Storage.ping``."""
        start = time.perf_counter()
        with self._state.lock:
            return timedelta(seconds=time.perf_counter() - start)

    def lender(self, size: int) -> MemoryLender:
        """See ``Storage.lender``. It refuses."""
        return MemoryLender(size)

    def sibling(self) -> MemoryStorage:
        """See ``Storage.sibling``."""
        return MemoryStorage(_shared=self._state)
