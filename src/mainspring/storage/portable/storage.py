"""What every SQL storage is made of: the operations of its dialect."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Protocol

from mainspring.storage.contract import (
    Controls,
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


class OperationSet(Protocol):
    """Every operation of one dialect, over one gateway and one clock."""

    @property
    def mailbox(self) -> Mailbox: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def controls(self) -> Controls: ...
    @property
    def upkeep(self) -> Upkeep: ...
    @property
    def timetable(self) -> Timetable: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def leases(self) -> Leases: ...
    @property
    def fanouts(self) -> Fanouts: ...
    @property
    def measures(self) -> Measures: ...
    @property
    def schema(self) -> Schema: ...

    async def ping(self) -> object:
        """One empty round trip."""
        ...


class SqlStorage:
    """The part of ``Storage`` that is the same for every SQL database."""

    def __init__(self, operations: OperationSet) -> None:
        self.mailbox: Mailbox = operations.mailbox
        self.ledger: Ledger = operations.ledger
        self.controls: Controls = operations.controls
        self.upkeep: Upkeep = operations.upkeep
        self.timetable: Timetable = operations.timetable
        self.inbox: Inbox = operations.inbox
        self.leases: Leases = operations.leases
        self.fanouts: Fanouts = operations.fanouts
        self.measures: Measures = operations.measures
        self.schema: Schema = operations.schema
        self._ping = operations.ping

    async def ping(self) -> timedelta:
        """See ``Storage.ping``."""
        start = time.perf_counter()
        await self._ping()
        return timedelta(seconds=time.perf_counter() - start)
