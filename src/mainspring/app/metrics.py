"""The metrics of an app: what this process has counted, and what one process tells of the database for all."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from typing import get_args

from mainspring.app.background import in_loop
from mainspring.app.door import Door
from mainspring.app.gauges import LEASE, look
from mainspring.model.errors import MainspringError, NotOpen
from mainspring.storage.contract import BellMode, Storage
from mainspring.telemetry import metrics as told
from mainspring.telemetry.measures import Meters
from mainspring.telemetry.metrics import Distribution, Family, Metric
from mainspring.telemetry.prometheus import CONTENT_TYPE, exposition

__all__ = ["CONTENT_TYPE", "LEASE", "Metrics"]

_logger = logging.getLogger("mainspring.app")
TTL = timedelta(seconds=60)
_PATIENCE = 5.0
"""Seconds that the database has to answer: whoever asks for metrics does not wait for long."""
_FAREWELL = 0.5
"""Seconds for giving the lease back."""


class Metrics:
    """Gathers the metrics of one app in this process."""

    def __init__(self, meters: Meters, leases_held: Callable[[], int]) -> None:
        self._meters = meters
        self._leases_held = leases_held
        self._turn = Turn(LEASE)

    async def text(self, door: Door, call: str) -> str:
        """All that there is to tell, for Prometheus; without the database where that is away."""
        return exposition([*self.of_process(door), *await self.of_database(door, call)])

    def of_process(self, door: Door) -> list[Family]:
        """What this process knows by itself. From any thread."""
        groups = dict(sorted(self._meters.groups().items()))
        workers, loops = self._meters.workers(), self._meters.loops()
        tripped = {group for worker in workers for group in worker.pauses()}
        mode = door.bell
        return [
            _family(told.PUBLISHED, self._meters.topics().items()),
            Family(
                told.SETTLED,
                [
                    ((group, status), count)
                    for group, counted in groups.items()
                    for status, count in counted.statuses.items()
                ],
            ),
            Family(told.WAIT, [((group,), Distribution(each.wait, each.waited)) for group, each in groups.items()]),
            Family(told.RUN, [((group,), Distribution(each.run, each.ran)) for group, each in groups.items()]),
            Family(told.IN_HAND, [((), sum(worker.in_hand for worker in workers))]),
            _family(told.BREAKER, ((group, 1) for group in sorted(tripped))),
            _family(told.BELL, ((each, each == mode) for each in get_args(BellMode) if mode is not None)),
            Family(told.LEASES_HELD, [((), self._leases_held())]),
            _family(told.TURNS, ((loop, each.turns) for loop, each in loops.items())),
            _family(told.FAILURES, ((loop, each.failed) for loop, each in loops.items())),
        ]

    async def of_database(self, door: Door, call: str) -> list[Family]:
        """What is in the database, if it is this process' turn to tell; and whether that answers at all."""
        storage = await door.storage(call)
        found: list[Family] = []
        try:
            async with _patience():
                if await self._turn.ours(door, storage):
                    found = await look(storage)
        except NotOpen:
            raise
        except (MainspringError, TimeoutError) as error:
            up = await _answers(storage)
            if up:
                _logger.warning("the metrics of the database are not known: %s", error)
            return [Family(told.UP, [((), int(up))])]
        return [Family(told.UP, [((), 1)]), *found]


class Turn:
    """Whose turn it is to tell of the database: whoever holds the lease, for as long as it is asked in time.

    It knows nothing of the app, which a door outlives by the time it takes to close the database.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._holder = ("", 0)
        self._epoch: int | None = None
        self._doors: set[int] = set()

    async def ours(self, door: Door, storage: Storage) -> bool:
        """Whether it is ours. To ask is to hold it for a while longer."""
        if id(door) not in self._doors:
            self._doors.add(id(door))
            door.farewells.append(self._leave)
        granted = await storage.leases.acquire(self._name, self._as(), TTL)
        self._epoch = None if granted is None else granted.epoch
        return granted is not None

    def _as(self) -> str:
        # The same each time, so that what is ours is renewed; another one in a forked child.
        holder, pid = self._holder
        if pid != os.getpid():
            holder = f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"
            self._holder = holder, os.getpid()
        return holder

    async def _leave(self, storage: Storage) -> None:
        """Let somebody else have it at once."""
        if self._epoch is None or self._holder[1] != os.getpid():
            return
        epoch, self._epoch = self._epoch, None
        try:
            # Whoever closes has others to wait for, and what is not given back runs out by itself.
            async with _patience(_FAREWELL):
                await storage.leases.release(self._name, epoch, self._holder[0])
        except (MainspringError, TimeoutError):
            return


async def _answers(storage: Storage) -> bool:
    """Whether the database answers at all, whatever it has refused."""
    try:
        async with _patience(_FAREWELL):
            await storage.ping()
    except (MainspringError, TimeoutError):
        return False
    return True


def _family(metric: Metric, samples: Iterable[tuple[str, float]]) -> Family:
    return Family(metric, [((label,), value) for label, value in samples])


def _patience(seconds: float = _PATIENCE) -> AbstractAsyncContextManager[object]:
    # Without a loop, as in a test that blocks, nothing can be waited for.
    return asyncio.timeout(seconds) if in_loop() else nullcontext()
