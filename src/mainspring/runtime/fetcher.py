"""Claims due deliveries for free slots, and sleeps when there are none."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from mainspring.model.message import ClaimRequest, Delivery, Priority, Scan
from mainspring.runtime.claims_in_hand import ClaimsInHand
from mainspring.runtime.executor import Executor
from mainspring.runtime.handler import Run
from mainspring.runtime.reports import RateLimitedLog
from mainspring.runtime.service import FOREVER, Service
from mainspring.runtime.settler import BATCH
from mainspring.runtime.slots import LINGER, PIPELINED_FROM, TAKEN_WITHIN, SharedSlots
from mainspring.runtime.wakeup import Wakeup
from mainspring.storage.contract import Storage
from mainspring.timing.clock import Clock

SLACK = timedelta(seconds=2)
FULL_EVERY = 10.0
FULL_AFTER_SHORT = 0.25
_LEVELS = tuple(int(level) for level in Priority)
_LOWEST_FIRST_EVERY = 8


class Marks:
    """The marks of one group."""

    __slots__ = ("_claims", "_full_at", "_rung", "_short", "_since", "scanned_at")

    def __init__(self) -> None:
        self._since: list[datetime | None] = [None] * len(_LEVELS)
        self._full_at = -FULL_EVERY
        self._short = True
        self._rung = True
        self._claims = 0
        self.scanned_at: float = -FOREVER
        """When the group was last asked for, unless it was rung since."""

    def rung(self) -> None:
        """Scan everything next time, after a ring."""
        self._rung = True
        self.scanned_at = -FOREVER

    def scans(self, now: float) -> tuple[Scan, ...]:
        """Return the levels to scan. One claim in eight starts with the lowest, so that none starves."""
        full = self._rung or now - self._full_at >= (FULL_AFTER_SHORT if self._short else FULL_EVERY)
        if full:
            self._full_at, self._rung = now, False
        self._claims += 1
        self.scanned_at = now
        levels = reversed(_LEVELS) if self._claims % _LOWEST_FIRST_EVERY == 0 else _LEVELS
        return tuple(Scan(level, None if full else self._since[level]) for level in levels)

    def learn(self, claimed: Iterable[Delivery], *, short: bool) -> None:
        """Update the marks from a claim's result, forwards or backwards."""
        self._short = short
        last: dict[int, datetime] = {}
        for delivery in claimed:
            last[delivery.priority] = delivery.due_at
        for level, due_at in last.items():
            self._since[level] = due_at - SLACK


@dataclass(frozen=True, slots=True)
class FetcherContext:
    """What all fetchers of a worker share."""

    storage: Storage
    in_hand: ClaimsInHand
    owner: str
    hold: timedelta
    """For how long a delivery is claimed."""
    longest_poll: timedelta
    log: RateLimitedLog
    clock: Clock
    slots: SharedSlots | None = None
    """The slots of the whole worker; None if their number is not capped."""


class Fetcher(Service):
    """Claims for free slots only (invariant 4: the number in hand bounds duplicates)."""

    def __init__(self, executors: Sequence[Executor], shared: FetcherContext, name: str = "fetcher") -> None:
        super().__init__(name, shared.log, shared.clock)
        storage = shared.storage
        self._mailbox = storage.mailbox
        self._executors: Mapping[str, Executor] = {each.handler.group: each for each in executors}
        self._marks = {group: Marks() for group in self._executors}
        self._in_hand = shared.in_hand
        self._slots = shared.slots
        self._look_again_in = FOREVER
        """How soon to turn again for groups that got none of the shared slots, even if nothing wakes them."""
        self._stirred_at = -FOREVER
        """When it last found something, or went to sleep."""
        self._wakeup = Wakeup(self._upcoming, storage.doorbell, shared.longest_poll, shared.clock)
        self._owner = shared.owner
        self._hold = hold = shared.hold
        self._reap_every = min(1.0, hold.total_seconds() / 10)
        self._reaped_at = -FOREVER
        self._claimed_at = -FOREVER
        self._more: set[str] = set()
        self._lapsed_in: set[str] = set()
        """The groups that may have more lapsed deliveries."""
        self._passed_over = False
        """Whether a suspect that must run alone was left, since another was in hand."""
        self._drains = False
        self._has_rested = False

    @property
    def is_resting(self) -> bool:
        """Whether its last claim has found all that is due, and nothing was reported since."""
        return self._has_rested and not self._alarm.is_set

    def freed(self, group: str) -> None:
        """Note a free slot of this group: claim again if the group may have more waiting."""
        if group in self._more:
            self.wake()

    def rung(self, group: str) -> None:
        """Handle a ring for this group, or for any (the empty string): scan everything."""
        if not group:
            self._scan_everything()
        elif group in self._marks:
            self._marks[group].rung()
        else:
            return
        self._wakeup.rung()
        self.wake()

    def nudge(self) -> None:
        """Handle a publish in this process: it lies above every mark, so scan only there."""
        self._wakeup.published()
        self.wake()

    def claim_no_more(self) -> None:
        """Stop claiming for good: deliveries released at the end must not return here."""
        self._stopping = True
        self.wake()

    def drain(self, *, drains: bool) -> None:
        """Stop claiming until further notice, or resume."""
        self._drains = drains
        if not drains:
            self._scan_everything()  # deliveries that arrived since may lie anywhere
        self.wake()

    def due_again(self, delay: timedelta) -> None:
        """Note that a delivery of its groups is due after this time (a retry, a snooze), or may be taken then."""
        self._wakeup.returns(delay)
        self.wake()

    async def take(self, message_id: UUID, group: str) -> bool:
        """Run this delivery here, now, even if other workers have free slots. Returns False if it is held already."""
        sent = self._clock.monotonic()
        delivery = await self._mailbox.take(message_id, group, self._owner, self._hold)
        if delivery is not None:
            self._give(group, [delivery], sent + self._hold.total_seconds())
        return delivery is not None

    async def turn(self) -> float:
        """Claim once for all free slots."""
        if self._drains:
            if self._slots is not None:
                self._slots.leave(self._executors)
            return FOREVER
        self._has_rested = False
        now = self._clock.monotonic()
        spacing = self._wakeup.spacing(now - self._claimed_at)
        if spacing > 0:
            return spacing
        reap_in = await self._reap(now)
        if self._stopping:
            return FOREVER
        wants, pause = self._wants(now)
        if not wants:
            self._stirred_at = now
            return min(pause, self._look_again_in)
        if await self.fetch(wants) or (self._slots is not None and self._slots.is_due(self._executors)):
            return 0.0
        self._stirred_at = self._clock.monotonic()
        pause, scan_again = await self._wakeup.rest(self._stirred_at, self._executors.keys() - self._more)
        if scan_again:
            self._scan_everything()
        self._has_rested = not scan_again
        return min(pause, reap_in, self._look_again_in)

    async def fetch(self, wants: Sequence[ClaimRequest]) -> bool:
        """Claim once, and pass the deliveries to their executors. Returns whether there may be more to claim."""
        self._claimed_at = sent = self._clock.monotonic()
        try:
            claimed = await self._claim(wants)
            short = self._hand_out(wants, claimed, sent)
        except Exception:
            self._scan_everything()  # the claim failed, so its range is still to be scanned
            raise
        finally:
            if self._slots is not None:
                self._slots.give_back(sum(want.limit for want in wants))
        if claimed:
            self._stirred_at = sent
            await self._wakeup.worked(sent)
        return not short or self._has_unscanned()

    async def _claim(self, wants: Sequence[ClaimRequest]) -> Sequence[Delivery]:
        return await self._mailbox.claim(wants, self._owner, self._hold)

    async def _reap_one(self, groups: Sequence[str], *, accused: bool) -> Delivery | None:
        return await self._mailbox.reap(groups, self._owner, self._hold, accused=accused, aside=self._in_hand.aside)

    async def _upcoming(self, groups: Sequence[str], back: timedelta) -> timedelta | None:
        return await self._mailbox.upcoming(groups, back)

    def _has_unscanned(self) -> bool:
        """Return whether a claim that came back short has not scanned everything."""
        return False

    def _wants(self, now: float) -> tuple[list[ClaimRequest], float]:
        """Return the claim requests; if there are none, how long to wait for slots."""
        limits: dict[str, int] = {}
        pause = FOREVER
        for group, executor in self._executors.items():
            slots, free = executor.slots, executor.free
            if free <= 0:
                self._more.add(group)
                continue
            if free < slots // 4 and now - self._claimed_at < LINGER:
                self._more.add(group)
                pause = LINGER
                continue
            limit = min(free, BATCH)
            if slots >= PIPELINED_FROM:
                limit = min(limit, slots // 2)
            limits[group] = limit
        if self._slots is not None:
            limits, pause = self._shared(self._slots, limits, pause, now)
        return [ClaimRequest(group, limit, self._marks[group].scans(now)) for group, limit in limits.items()], pause

    def _shared(
        self, slots: SharedSlots, limits: dict[str, int], pause: float, now: float
    ) -> tuple[dict[str, int], float]:
        """Return what the slots of the worker leave of these limits; if that is nothing, how long to wait."""
        self._look_again_in = FOREVER
        slots.leave(self._executors.keys() - limits.keys())
        if slots.free < slots.most // 4 and now - self._claimed_at < LINGER:
            self._more.update(limits)
            return {}, LINGER
        busy = self._more & limits.keys()
        idle = {group for group in limits.keys() - busy if self._is_idle_still(self._marks[group].scanned_at, now)}
        if busy:
            # Where there was nothing, one slot is enough to find out whether there is now.
            limits = {group: limit if group in busy else 1 for group, limit in limits.items()}
        shares = slots.share(limits, idle, self.wake)
        if left_out := limits.keys() - shares.keys():
            self._more |= left_out - idle
            self._look_again_in = FULL_AFTER_SHORT if left_out & idle else TAKEN_WITHIN
        return shares, pause

    def _is_idle_still(self, scanned_at: float, now: float) -> bool:
        """Return whether a group in which a scan found nothing need not be scanned yet, while other groups wait."""
        return now - scanned_at < FULL_AFTER_SHORT or scanned_at > self._stirred_at

    def _hand_out(self, wants: Sequence[ClaimRequest], claimed: Sequence[Delivery], sent: float) -> bool:
        """Pass the deliveries to their executors. Returns whether every group came back short."""
        until = sent + self._hold.total_seconds()
        by_group: dict[str, list[Delivery]] = {}
        for delivery in claimed:
            by_group.setdefault(delivery.group, []).append(delivery)
        all_short = True
        for want in wants:
            theirs = by_group.get(want.group, [])
            short = len(theirs) < want.limit
            self._marks[want.group].learn(theirs, short=short)
            all_short &= short
            if short:
                self._more.discard(want.group)
            else:
                self._more.add(want.group)
            if theirs:
                self._give(want.group, theirs, until)
        return all_short

    async def _reap(self, now: float) -> float:
        """Reap lapsed deliveries, as far as probation allows (invariant 15).

        Returns the seconds until the next attempt is worthwhile, if that is known.
        """
        if self._in_hand.overdue(now):
            return FOREVER
        if now - self._reaped_at >= self._reap_every or (self._passed_over and not self._in_hand.holds_suspects):
            self._reaped_at = now
            self._lapsed_in = set(self._executors)
        while True:
            if self._slots is not None and self._slots.free <= 0:
                return FOREVER
            waits = {
                group: self._in_hand.probation(group) for group in self._lapsed_in if self._executors[group].free > 0
            }
            groups = [group for group, wait in waits.items() if wait <= 0]
            if not groups or self._stopping:
                return min(waits.values(), default=FOREVER)
            if self._in_hand.is_reaping:
                # Another fetcher is reaping: do not wait for it, its trip may take long.
                return self._reap_every
            await self._reap_from(groups)

    async def _reap_from(self, groups: Sequence[str]) -> None:
        self._in_hand.is_reaping = True
        if self._slots is not None:
            self._slots.take_one()
        try:
            sent, accused = self._clock.monotonic(), not self._in_hand.holds_suspects
            suspect = await self._reap_one(groups, accused=accused)
            if suspect is not None:
                # Where one was found there may be more.
                self._give(suspect.group, [suspect], sent + self._hold.total_seconds())
            else:
                self._lapsed_in.difference_update(groups)
                self._passed_over = not accused
        finally:
            self._in_hand.is_reaping = False
            if self._slots is not None:
                self._slots.give_back(1)

    def _scan_everything(self) -> None:
        for marks in self._marks.values():
            marks.rung()

    def _give(self, group: str, deliveries: Sequence[Delivery], until: float) -> None:
        executor, arrived = self._executors[group], time.monotonic()
        runs = [Run(delivery, executor.handler, until, arrived, self._owner) for delivery in deliveries]
        executor.put([run for run in runs if self._in_hand.take(run)])
        if self._stopping:
            executor.release_waiting()
        if self._slots is not None:
            self._slots.filled()
