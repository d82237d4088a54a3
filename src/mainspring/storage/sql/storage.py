"""What every SQL storage is made of: the rooms of its dialect."""

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


class Rooms(Protocol):
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

    def __init__(self, rooms: Rooms) -> None:
        self.mailbox: Mailbox = rooms.mailbox
        self.ledger: Ledger = rooms.ledger
        self.controls: Controls = rooms.controls
        self.upkeep: Upkeep = rooms.upkeep
        self.timetable: Timetable = rooms.timetable
        self.inbox: Inbox = rooms.inbox
        self.leases: Leases = rooms.leases
        self.fanouts: Fanouts = rooms.fanouts
        self.measures: Measures = rooms.measures
        self.schema: Schema = rooms.schema
        self._ping = rooms.ping

    async def ping(self) -> timedelta:
        """See ``Storage.ping``."""
        start = time.perf_counter()
        await self._ping()
        return timedelta(seconds=time.perf_counter() - start)
