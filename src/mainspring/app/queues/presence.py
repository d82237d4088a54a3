"""How a process with queues is seen by others: as a worker that serves their groups."""

from __future__ import annotations

import logging
import os
import socket
import threading
import weakref
from collections.abc import Sequence
from typing import Any

from mainspring.app.queues.item import Item
from mainspring.model.errors import StorageError
from mainspring.model.verdict import Bury, Done, Retry, Settlement
from mainspring.model.views import Beat, GroupRuns
from mainspring.storage.contract import Storage

_logger = logging.getLogger("mainspring.queues")


class Presence:
    """Reports the queues behind one door on the roster, with what they have done.

    By it their groups count as served, and their runs are counted. Nothing else depends on it: a report that fails
    is made again with the next one.
    """

    def __init__(self, app: str) -> None:
        self.left: int = 0
        """How often the door was closed behind them."""
        self._app = app
        self._groups: set[str] = set()
        self._runs: dict[str, list[int]] = {}
        self._held: weakref.WeakSet[Item[Any]] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._owner = ("", 0)

    @property
    def owner(self) -> str:
        """The name that claims are made under, which no other process has."""
        name, pid = self._owner
        if pid != os.getpid():
            from mainspring.runtime.settings import owner_name

            self._owner = name, _ = owner_name(), os.getpid()
        return name

    def serves(self, group: str) -> None:
        """A queue of this group is in use."""
        self._groups.add(group)

    def took(self, items: Sequence[Item[Any]]) -> None:
        """These are in hand."""
        self._held.update(items)

    def settled(self, group: str, items: Sequence[Item[Any]], settlements: Sequence[Settlement]) -> None:
        """These are in hand no more, by these verdicts."""
        with self._lock:
            runs = self._runs.setdefault(group, [0, 0])
            for each in settlements:
                runs[0] += isinstance(each.verdict, Done)
                runs[1] += isinstance(each.verdict, Retry | Bury)
        self._held.difference_update(items)

    async def report(self, storage: Storage) -> bool:
        """Be seen. False: the database cannot be told now."""
        taken = self._taken()
        beat = Beat(
            self.owner,
            self._app,
            socket.gethostname(),
            os.getpid(),
            tuple(sorted(self._groups)),
            len(self._held),
            storage.doorbell.mode,
            {group: GroupRuns(*runs) for group, runs in taken.items()},
        )
        try:
            await storage.upkeep.beat(beat)
        except StorageError as error:
            self._put_back(taken)
            _logger.debug("queues were not reported: %s", error)
            return False
        return True

    async def leave(self, storage: Storage) -> None:
        """Report what was done last, and leave the roster."""
        self.left += 1
        if not self._groups or self._owner[1] != os.getpid():
            return
        reported = await self.report(storage)
        self._groups.clear()
        if not reported:
            return
        try:
            await storage.upkeep.farewell(self.owner)
        except StorageError as error:
            _logger.debug("queues stay on the roster: %s", error)

    def _taken(self) -> dict[str, list[int]]:
        with self._lock:
            taken, self._runs = self._runs, {}
        return {group: runs for group, runs in taken.items() if any(runs)}

    def _put_back(self, taken: dict[str, list[int]]) -> None:
        with self._lock:
            for group, (handled, failed) in taken.items():
                runs = self._runs.setdefault(group, [0, 0])
                runs[0] += handled
                runs[1] += failed
