"""Writes verdicts in batches."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from operator import attrgetter
from typing import Protocol, assert_never

from mainspring.model.errors import DatabaseMoved, NotGranted, StorageError, StorageUnavailable
from mainspring.model.text import described
from mainspring.model.verdict import Bury, Cancel, Done, Release, Retry, Settlement, Snooze
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.reports import RateLimitedLog, report_outcome
from mainspring.runtime.service import FOREVER, Service, backoff
from mainspring.storage.contract import Mailbox
from mainspring.telemetry.bus import Bus
from mainspring.telemetry.measures import Meter
from mainspring.timing.clock import Clock

BATCH = 500
_GATHERS = 50
"""Verdicts that one turn of the event loop must add for the batch to wait for another turn."""
_TRIES = 2
"""Turns that may fail before an internal error is attributed to a single verdict of the batch."""
_LONGEST_BUSY = 1.0
"""The maximum of seconds between attempts to settle rows that another session has locked, perhaps for long."""


class Origin(Protocol):
    """The executor that reached a verdict, notified when it is settled."""

    @property
    def group(self) -> str:
        """The group the verdict is for."""
        ...

    def settled(self) -> None:
        """Note that one of its verdicts is settled."""
        ...


class Settles(Protocol):
    """Writes verdicts."""

    def put(self, origin: Origin, settlement: Settlement) -> None:
        """Queue a verdict to be written. Never waits."""
        ...

    def written(self, origin: Origin, settlement: Settlement) -> None:
        """Note a verdict that a handler's own transaction has written."""
        ...


class Settler(Service):
    """Writes verdicts in batches.

    A verdict leaves the batch only when the database has confirmed it, so a failed flush loses nothing; until then it
    counts as in hand, so that a slow database slows down claiming. Sending a batch again after a lost reply is safe:
    what was written is *gone*, and counts as settled. A verdict on a row that another session has locked is put aside
    and retried with a back-off, and delays no other (invariant 28). ``returns`` is called with the group and the delay
    of a delivery that is due again, and ``meter`` counts everything written.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        owner: str,
        in_hand: ClaimsInHand,
        returns: Callable[[str, timedelta], None],
        log: RateLimitedLog,
        clock: Clock,
        bus: Bus,
        meter: Meter | None = None,
    ) -> None:
        super().__init__("settler", log, clock)
        self.on_member: Callable[[], None] | None = None
        """Called when a member of a join has ended."""
        self.on_occurrence: Callable[[], None] | None = None
        """Called when an occurrence of a schedule has ended."""
        self._meter = meter or Meter()
        self._bus = bus
        self._mailbox = mailbox
        self._owner = owner
        self._in_hand = in_hand
        self._returns = returns
        self._waiting: deque[tuple[Origin, Settlement]] = deque()
        self._batch: list[tuple[Origin, Settlement]] = []
        self._busy: deque[tuple[_Aside, Settlement]] = deque()
        self._busy_tries = 0
        self._busy_until = 0.0
        self._unbusy = asyncio.Event()
        self._unbusy.set()
        self._empty = asyncio.Event()
        self._empty.set()

    def put(self, origin: Origin, settlement: Settlement) -> None:
        """Queue a verdict to be written. Never waits."""
        self._waiting.append((origin, settlement))
        if len(self._waiting) == 1:
            self._empty.clear()
            self.wake()

    def written(self, origin: Origin, settlement: Settlement) -> None:
        """Count a verdict that a handler's own transaction has written (invariant 3)."""
        self._written(origin.group, settlement)

    async def drained(self) -> None:
        """Wait until the database has replied to every verdict taken so far, if only with *busy*."""
        await self._empty.wait()

    async def all_written(self) -> None:
        """Wait until none is left, neither unwritten nor busy."""
        await self._empty.wait()
        await self._unbusy.wait()

    @property
    def busy(self) -> int:
        """How many verdicts wait for a row that another session has locked."""
        return len(self._busy)

    async def turn(self) -> float:
        """Write one batch: the verdicts that gathered while the last one was on its way."""
        batch, waiting = self._batch, self._waiting
        seen = 0
        while not batch and seen + _GATHERS <= len(waiting) < BATCH:
            seen = len(waiting)
            await asyncio.sleep(0)  # executors that never wait yield before their queues are empty
        tries_again = self._take_up_busy()
        try:
            while waiting and len(batch) < BATCH:
                batch.append(waiting.popleft())
            if batch:
                await self._write()
        finally:
            if tries_again:
                self._put_back()
        if waiting:
            return 0.0
        self._empty.set()
        if self._busy:
            return max(self._busy_until - self._clock.monotonic(), 0.0)
        self._unbusy.set()
        self._busy_tries = 0
        return FOREVER

    def _take_up_busy(self) -> bool:
        """Put busy verdicts into the batch, if it is time; those that still are go to the end of the line."""
        now = self._clock.monotonic()
        if not self._busy or now < self._busy_until:
            return False
        for _ in range(min(len(self._busy), BATCH - len(self._batch))):
            self._batch.append(self._busy.popleft())
        self._busy_tries += 1
        self._busy_until = now + backoff(self._busy_tries, _LONGEST_BUSY)
        return True

    def _put_back(self) -> None:
        """Put the busy verdicts of a failed batch back in line."""
        left = [(each, settlement) for each, settlement in self._batch if isinstance(each, _Aside)]
        if left:
            self._busy.extend(left)
            self._batch = [each for each in self._batch if not isinstance(each[0], _Aside)]

    async def _write(self) -> None:
        try:
            await self._write_first(len(self._batch))
        except DatabaseMoved as error:
            if not error.is_over:
                raise
            self._lose()
        except StorageUnavailable:
            raise
        except Exception as error:
            if not isinstance(error, StorageError) and self._failures < _TRIES:
                raise  # not an error of the database about one verdict, so it may pass
            await self._write_each()

    def _lose(self) -> None:
        """Drop the batch: its claims are in another database, where they lapse and new holders decide."""
        batch, self._batch = self._batch, []
        for origin, settlement in batch:
            self._in_hand.drop(settlement.claim)
            origin.settled()
        self._log.log(
            logging.WARNING, "settler: %d claims are lost, since their database has moved; they run again", len(batch)
        )

    async def _write_each(self) -> None:
        """Write one by one: a verdict that cannot be written must not delay the others.

        Those for which a right is missing stay in the batch, and their claims are extended (invariant 34).
        """
        denied: list[tuple[Origin, Settlement]] = []
        missing: NotGranted | None = None
        try:
            while self._batch:
                try:
                    await self._write_alone()
                except NotGranted as error:
                    denied.append(self._batch.pop(0))
                    missing = error
        finally:
            self._batch[:0] = denied
        if missing is not None:
            raise missing

    async def _write_alone(self) -> None:
        try:
            await self._write_first(1)
        except (StorageUnavailable, NotGranted):
            raise
        except Exception as error:  # noqa: BLE001 - an error in this one must not affect the others
            origin, settlement = self._batch.pop(0)
            self._in_hand.drop(settlement.claim)
            origin.settled()
            self._log.log(
                logging.ERROR,
                "settler: the database rejected a verdict of group %s, whose claim will lapse: %s"
                if isinstance(error, StorageError)
                else "settler: a verdict of group %s cannot be written, so its claim will lapse: %s",
                origin.group,
                described(error),
            )

    async def _write_first(self, count: int) -> None:
        chosen = self._batch[:count]
        # Sorted, because all statements that lock several rows do so in one order.
        batch = sorted([settlement for _, settlement in chosen], key=attrgetter("claim"))
        answer = await self._mailbox.settle(batch, self._owner)
        del self._batch[:count]
        for origin, settlement in chosen:
            if answer.busy and settlement.claim in answer.busy:
                self._put_aside(origin, settlement)
                continue
            if answer.lost and settlement.claim in answer.lost:
                self._in_hand.drop(settlement.claim)
                self._log.log(
                    logging.WARNING,
                    "%s: a claim was lost before its verdict could be written; its new holder decides",
                    origin.group,
                )
            else:
                self._written(origin.group, settlement)
            origin.settled()

    def _put_aside(self, origin: Origin, settlement: Settlement) -> None:
        """Put it aside, and free its slot. Its claim may lapse, but no reaper takes a locked row, nor this one."""
        if not self._busy:
            self._unbusy.clear()
            self._busy_until = max(self._busy_until, self._clock.monotonic() + backoff(self._busy_tries, _LONGEST_BUSY))
        aside = origin
        if not isinstance(aside, _Aside):
            aside = _Aside(origin.group)
            run = self._in_hand.put_aside(settlement.claim)
            origin.settled()
            if run is not None and run.delivery.suspect:
                self._returns("", timedelta())  # the next suspect may be taken now
        else:
            # Not the first time: this process's keeper, which extends the claim, may hold the row for a moment.
            self._log.log(
                logging.WARNING,
                "%s: a verdict waits for its row, which another session's open transaction has locked; all others "
                "are written. To find that session, run `mainspring doctor`",
                origin.group,
            )
        self._busy.append((aside, settlement))

    def _written(self, group: str, settlement: Settlement) -> None:
        run = self._in_hand.drop(settlement.claim)
        if self._bus and run is not None:
            report_outcome(self._bus, run.delivery, settlement)
        if run is not None and run.ran:
            self._meter.count(group, settlement.verdict, run.waited, settlement.took.total_seconds())
        else:
            self._meter.count(group, settlement.verdict)
        match settlement.verdict:
            case Done() | Bury() | Cancel():
                if run is not None and run.delivery.schedule is not None and self.on_occurrence is not None:
                    self.on_occurrence()
            case Retry(delay=delay):
                self._returns(group, delay)
            case Snooze(delay=delay) | Release(delay=delay):
                self._returns(group, delay if isinstance(delay, timedelta) else timedelta())
            case _:
                assert_never(settlement.verdict)
        if settlement.member and self.on_member is not None:
            self.on_member()
        if run is not None and run.delivery.suspect:
            self._returns("", timedelta())  # the next suspect may be taken now


class _Aside:
    """The origin of a verdict that was put aside: its slot is free already."""

    def __init__(self, group: str) -> None:
        self.group = group

    def settled(self) -> None:
        """Do nothing: its slot is free already."""
