"""Writes verdicts in batches."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol, assert_never

from mainspring.model.errors import StorageError, StorageUnavailable
from mainspring.model.message import Claim
from mainspring.model.schedule import SCHEDULE_HEADER
from mainspring.model.verdict import Bury, Cancel, Done, Release, Retry, Settlement, Snooze, Verdict
from mainspring.runtime.complaints import Complaints
from mainspring.runtime.handler import Run
from mainspring.runtime.hands import Hands
from mainspring.runtime.service import FOREVER, Service
from mainspring.runtime.telling import tell
from mainspring.storage.contract import Mailbox
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.measures import Meter
from mainspring.timing.clock import Clock

BATCH = 500


class Origin(Protocol):
    """Whoever reached a verdict, and is told when it has been answered for."""

    @property
    def group(self) -> str:
        """The group the verdict is for."""
        ...

    def settled(self) -> None:
        """One of its verdicts was answered for."""
        ...


class Settles(Protocol):
    """Whoever writes verdicts down."""

    def put(self, origin: Origin, settlement: Settlement) -> None:
        """Take a verdict to be written. Never waits."""
        ...

    def written(self, origin: Origin, settlement: Settlement) -> None:
        """Hear of a verdict that a handler's own transaction has written."""
        ...


class Settler(Service):
    """Writes verdicts in batches.

    A verdict leaves the batch only when the database has answered for it, so a failed flush loses nothing; until
    then it counts as in hand, which is what makes a slow database slow the fetching. Sending a batch again after
    a lost reply is safe: what was written is *gone*, and counts as settled. ``joining`` is told of members of joins,
    ``occurred`` of occurrences of schedules that have ended, and ``meter`` counts all that is written.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        hands: Hands,
        returns: Callable[[str, timedelta], None],
        complaints: Complaints,
        clock: Clock,
        bus: Bus | None = None,
        joining: Callable[[], None] | None = None,
        occurred: Callable[[], None] | None = None,
        meter: Meter | None = None,
    ) -> None:
        super().__init__("settler", complaints, clock)
        self._meter = meter or Meter()
        self._joining = joining
        self._occurred = occurred
        self._bus = bus or Bus()
        self._mailbox = mailbox
        self._hands = hands
        self._returns = returns
        self._waiting: deque[tuple[Origin, Settlement]] = deque()
        self._batch: list[tuple[Origin, Settlement]] = []
        self._empty = asyncio.Event()
        self._empty.set()

    def put(self, origin: Origin, settlement: Settlement) -> None:
        """Take a verdict to be written. Never waits."""
        self._waiting.append((origin, settlement))
        if len(self._waiting) == 1:
            self._empty.clear()
            self.wake()

    def written(self, origin: Origin, settlement: Settlement) -> None:
        """Count what a handler's own transaction has written (invariant 3)."""
        self._written(origin.group, settlement)

    async def drained(self) -> None:
        """Wait until every verdict taken so far has been answered for."""
        await self._empty.wait()

    async def turn(self) -> float:
        """Write one batch: whatever gathered while the last one was on its way."""
        batch, waiting = self._batch, self._waiting
        while waiting and len(batch) < BATCH:
            batch.append(waiting.popleft())
        if batch:
            await self._write()
        if waiting:
            return 0.0
        self._empty.set()
        return FOREVER

    async def _write(self) -> None:
        try:
            await self._write_first(len(self._batch))
        except StorageUnavailable:
            raise
        except StorageError:
            # One verdict the database refuses must not hold up its neighbours.
            while self._batch:
                await self._write_alone()

    async def _write_alone(self) -> None:
        try:
            await self._write_first(1)
        except StorageUnavailable:
            raise
        except StorageError as error:
            origin, settlement = self._batch.pop(0)
            self._hands.drop(settlement.claim)
            origin.settled()
            self._complaints.say(
                logging.ERROR,
                "settler: the database refuses a verdict of group %s, whose claim will lapse: %s",
                origin.group,
                error,
            )

    async def _write_first(self, count: int) -> None:
        chosen = self._batch[:count]
        # Sorted, because every statement that touches several rows takes them in one order.
        answer = await self._mailbox.settle(sorted([settlement for _, settlement in chosen], key=_by_claim))
        del self._batch[:count]
        for origin, settlement in chosen:
            if answer.lost and settlement.claim in answer.lost:
                self._hands.drop(settlement.claim)
                self._complaints.say(
                    logging.WARNING,
                    "%s: a claim was lost before its verdict could be written; whoever has it now decides",
                    origin.group,
                )
            else:
                self._written(origin.group, settlement)
            origin.settled()

    def _written(self, group: str, settlement: Settlement) -> None:
        run = self._hands.drop(settlement.claim)
        if self._bus and run is not None:
            tell(self._bus, run.delivery, settlement)
        if run is not None and run.ran:
            self._meter.count(group, settlement.verdict, run.waited, settlement.took.total_seconds())
        else:
            self._meter.count(group, settlement.verdict)
        match settlement.verdict:
            case Done() | Bury() | Cancel():
                pass
            case Retry(delay=delay):
                self._returns(group, delay)
            case Snooze(delay=delay) | Release(delay=delay):
                self._returns(group, delay if isinstance(delay, timedelta) else timedelta())
            case _:
                assert_never(settlement.verdict)
        if settlement.member and self._joining is not None:
            self._joining()
        if run is not None and self._occurred is not None and _ends_an_occurrence(run, settlement.verdict):
            self._occurred()
        if run is not None and run.delivery.suspect:
            self._returns("", timedelta())  # the next suspect may be taken now


def _ends_an_occurrence(run: Run, verdict: Verdict) -> bool:
    headers = run.delivery.headers
    return headers is not None and SCHEDULE_HEADER in headers and isinstance(verdict, Done | Bury | Cancel)


def _by_claim(settlement: Settlement) -> Claim:
    return settlement.claim
