"""How a process with queues is seen by others: as a worker that serves their groups."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from mainspring.app.queues.item import Item, held
from mainspring.model.errors import StorageError
from mainspring.model.holder import TOKEN_BYTES, holder
from mainspring.model.roster import seat
from mainspring.model.verdict import Settlement
from mainspring.model.views import Beat
from mainspring.storage.contract import Storage
from mainspring.telemetry.measures import Meter

_logger = logging.getLogger("mainspring.queues")


class Presence:
    """Reports the queues behind one door on the roster, with what they have done.

    By it their groups count as served, and their runs are counted. Nothing else depends on it: a report that fails
    is made again with the next one.
    """

    def __init__(self, app: str, meter: Meter) -> None:
        self.left: int = 0
        """How often the door was closed behind them."""
        self.drains: bool = False
        """Whether an operator wants no more claimed here."""
        self._app = app
        self._groups: set[str] = set()
        self._meter = meter
        self._unsent: list[Beat] = []
        self._number = 0
        self._reporting: asyncio.Event | None = None
        self._again = False
        self._held: weakref.WeakSet[Item[Any]] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._start_id = ""
        self._owner = ("", 0)

    @property
    def owner(self) -> str:
        """The name that claims are made under, which no other process has."""
        name, pid = self._owner
        if pid != os.getpid():
            from mainspring.runtime.settings import owner_name

            self._start_id = secrets.token_hex(TOKEN_BYTES)
            self._owner = name, _ = owner_name(), os.getpid()
            # Whatever was to be told before a fork, the parent tells.
            self._unsent, self._reporting = [], None
        return name

    def holder(self, name: str | None) -> str:
        """What claims are held by in the database, under this name or its own."""
        own = self.owner  # after a fork, of another start
        return holder(own if name is None else name, self._start_id)

    def serves(self, group: str) -> None:
        """A queue of this group is in use."""
        self._groups.add(group)
        self._meter.serves([group])

    def took(self, items: Sequence[Item[Any]]) -> None:
        """These are in hand."""
        self._held.update(items)

    def settled(self, group: str, items: Sequence[Item[Any]], settlements: Sequence[Settlement]) -> None:
        """These are in hand no more, by these verdicts."""
        waits = {item.claim: held(item).waited for item in items}
        with self._lock:
            for each in settlements:
                wait = waits.get(each.claim)
                self._meter.count(group, each.verdict, wait, None if wait is None else each.took.total_seconds())
        self._held.difference_update(items)

    @property
    def has_news(self) -> bool:
        """Whether something was done that was not reported."""
        return self._meter.has_news

    async def report(self, storage: Storage) -> bool:
        """Be seen. False: the database cannot be told now."""
        _ = self.owner  # after a fork nothing is on its way here
        if self._reporting is not None:
            self._again = True  # beats arrive in their order: whoever is at it goes on with ours
            return True
        self._reporting = ended = asyncio.Event()
        try:
            await self._send(storage)
        except StorageError as error:
            self._unsent = [each for each in self._unsent if each.runs or each.measures]
            _logger.debug("queues were not reported: %s", error)
            return False
        finally:
            self._reporting = None
            ended.set()
        return True

    async def _send(self, storage: Storage) -> None:
        # The counts are taken out of the meter by making the beat: one that fails is sent again as it was.
        self._again = True
        while self._again:
            self._again = False
            self._unsent.append(self._beat(storage.doorbell.mode))
            while self._unsent:
                drain = (await storage.upkeep.beat(self._unsent[0])).drain
                del self._unsent[0]
                if drain != self.drains:
                    self.drains, self._again = drain, True  # operators see that it was heard

    async def leave(self, storage: Storage) -> None:
        """Report what was done last, and leave the roster."""
        self.left += 1
        if not self._groups or self._owner[1] != os.getpid():
            return
        if self._reporting is not None:
            await self._reporting.wait()
        reported = await self.report(storage)
        self._groups.clear()
        self.drains = False  # who comes back is a new one
        if not reported:
            return
        try:
            await storage.upkeep.farewell(seat(self._app, self.owner))
        except StorageError as error:
            _logger.debug("queues stay on the roster: %s", error)

    def _beat(self, bell: str) -> Beat:
        with self._lock:
            runs, measures = self._meter.take()
            self._number += 1
            number = self._number
        where = (seat(self._app, self.owner), self._app, socket.gethostname(), os.getpid())
        seen = (tuple(sorted(self._groups)), len(self._held), bell)
        return Beat(*where, *seen, runs, (), measures, self._start_id, number, self.drains)
