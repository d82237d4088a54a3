"""What a queue does, whoever calls it: claim and reap, wait, extend and settle."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Generic, TypeVar

from mainspring.app.names import check_name
from mainspring.app.options import length, whole
from mainspring.app.queues.answers import ExtendedItems, SettledItems, extended, settled
from mainspring.app.queues.item import Held, Item, held
from mainspring.app.queues.owners import all_extended, all_settled, claims_by_owner, settlements_by_owner
from mainspring.app.queues.room import Place, Room
from mainspring.app.queues.terms import Terms
from mainspring.app.queues.verdicts import Judge, check, patiently, settlements
from mainspring.app.storages import Rooms
from mainspring.model.errors import ClaimLost, StorageError
from mainspring.model.join import is_member
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Settled
from mainspring.model.verdict import Release, Settlement
from mainspring.runtime import judgement
from mainspring.runtime.marks import Marks
from mainspring.runtime.settings import WorkerSettings
from mainspring.runtime.settler import BATCH
from mainspring.storage.script import Script
from mainspring.timing.duration import Duration

T = TypeVar("T")

_logger = logging.getLogger("mainspring.queues")

_SHORTEST = timedelta(milliseconds=1)
_LONGEST = timedelta(days=1)
_FOREVER = float("inf")
_REAP_EVERY = 1.0
_TURN = 5.0
"""Seconds that a wait sleeps before it is seen again, and looks at what was parked."""
_FIRST_HOLD_OFF = 0.005
_LONGEST_HOLD_OFF = 0.25
_DEATHS = WorkerSettings().deaths


class Custody(Generic[T]):
    """The deliveries of one group in the hands of this process, behind one door."""

    def __init__(self, terms: Terms, room: Room) -> None:
        self.terms: Terms = terms
        self._room = room
        self._clock = room.clock
        self._marks = Marks()
        self._marked: Place | None = None
        self._woken = False
        self._fruitless = 0

    async def declare(self) -> None:
        """Make the group known, whether or not it is."""
        await (await self._room.place("queue.declare()")).declare(self.terms, again=True)

    # --- taking --------------------------------------------------------------------------------------------

    async def claim(self, batch: int, hold: Duration, owner: str | None) -> list[Item[T]]:
        """See ``Queue.claim``."""
        limit = whole(batch, "batch", least=1, most=BATCH)
        span, name = _span(hold), self._holder(owner)
        place = await self._ready("claim")
        if self._room.presence.drains:
            items: list[Item[T]] = []
        else:
            asking = self._filled(place, limit, name, span)
            items = await self._room.unheard.ask(asking, partial(self._hand_back, place))
        self._fruitless = 0 if items or not self._woken else self._fruitless + 1
        return items

    async def reap(self, hold: Duration, owner: str | None) -> Item[T] | None:
        """See ``Queue.reap``."""
        span, name = _span(hold), self._holder(owner)
        place = await self._ready("reap")
        if self._room.presence.drains:
            return None
        reaped = await self._room.unheard.ask(self._reaped(place, name, span), partial(self._hand_back, place))
        return reaped[0] if reaped else None

    async def wait(self, timeout: Duration | None) -> bool:  # noqa: ASYNC109 - the end of it is no error
        """See ``Queue.wait``."""
        seconds = _FOREVER if timeout is None else length(timeout, "timeout").total_seconds()
        place = await self._ready("wait")
        if self._room.in_test:
            upcoming = await place.ear.look(self.terms.group)
            return upcoming is not None and upcoming <= timedelta()
        hold_off = self._hold_off()
        until = self._clock.monotonic() + seconds
        self._woken = False
        while True:
            left = max(until - self._clock.monotonic(), 0.0)
            if await place.ear.wait(self.terms.group, min(left, _TURN), hold_off):
                self._woken = True
                return True
            if left <= _TURN:
                return False
            hold_off = 0.0
            place = await self._ready("wait")

    async def items(self, hold: Duration, owner: str | None) -> AsyncIterator[Item[T]]:
        """See ``Queue.items``."""
        reaped_at = -_FOREVER
        while True:
            now = self._clock.monotonic()
            if now - reaped_at >= _REAP_EVERY:
                suspect = await self.reap(hold, owner)
                # Where one was found its neighbours wait too.
                reaped_at = now if suspect is None else -_FOREVER
                if suspect is not None:
                    yield suspect
                    continue
            claimed = await self.claim(1, hold, owner)
            for item in claimed:
                yield item
            if not claimed and not await self.wait(timedelta(seconds=_TURN)) and self._room.in_test:
                return

    async def _filled(self, place: Place, limit: int, owner: str, hold: timedelta) -> list[Item[T]]:
        while True:
            claimed = await self._claim(place, limit, owner, hold)
            items = await self._given(place, claimed, owner, hold)
            # Where all of it was over, there may be more behind it.
            if items or not claimed:
                return items

    async def _reaped(self, place: Place, owner: str, hold: timedelta) -> list[Item[T]]:
        group, reserved = self.terms.group, self._room.reserved
        while True:
            now = self._clock.monotonic()
            with reserved.reaping(group, now) as may_reap:
                if not may_reap:
                    break
                accused = not reserved.holds_suspects(now)
                delivery = await place.storage.mailbox.reap([group], owner, hold, accused=accused)
                if delivery is None:
                    break
                for item in await self._given(place, [delivery], owner, hold):
                    reserved.suspect(held(item))
                    return [item]
        return []

    async def _hand_back(self, place: Place, unheard: Sequence[Item[T]]) -> None:
        """Whoever asked for them was cancelled: let others have them now, not when they lapse."""
        if unheard:
            self._room.reserved.let_go([held(item) for item in unheard])
            made = settlements(unheard, lambda _held, _took: Release(), self.terms, self._clock)
            for owner, theirs in settlements_by_owner(unheard, made):
                answer = await place.storage.mailbox.settle(theirs, owner)
                self._written(unheard, [each for each in theirs if each.claim not in answer.busy])

    async def _claim(self, place: Place, limit: int, owner: str, hold: timedelta) -> list[Delivery]:
        if self._marked is not place:
            self._marks, self._marked = Marks(), place
        group, marks, mailbox = self.terms.group, self._marks, place.storage.mailbox
        scans = marks.scans(self._clock.monotonic())
        claimed = await mailbox.claim([ClaimRequest(group, limit, scans)], owner, hold)
        marks.learn(claimed, short=len(claimed) < limit)
        if len(claimed) == limit or all(scan.since is None for scan in scans):
            return claimed
        # Nothing more above the marks; who asks for work shall have what was committed late as well.
        marks.rung()
        try:
            return claimed + await mailbox.claim([ClaimRequest(group, limit - len(claimed), ALL_LEVELS)], owner, hold)
        except StorageError:
            if not claimed:
                raise
            return claimed  # they are in hand, and would have to lapse if nobody heard of them

    async def _given(self, place: Place, deliveries: Sequence[Delivery], owner: str, hold: timedelta) -> list[Item[T]]:
        """The deliveries as items, but for those that need no processor: expired, cancelled, poisonous."""
        received = self._clock.monotonic()
        items: list[Item[T]] = []
        over: list[Settlement] = []
        for delivery in deliveries:
            verdict = judgement.without_running(delivery, _DEATHS)
            if verdict is None:
                until = delivery.claimed_at + hold
                one = Held(delivery, owner, self._room.reserved, received, until)
                items.append(Item(one, self.terms.read))
            else:
                over.append(Settlement(delivery.claim, verdict, self.terms.keeps(delivery), member=is_member(delivery)))
        if over:
            await self._end(place, over, owner)
        self._room.presence.took(items)
        return items

    async def _end(self, place: Place, over: list[Settlement], owner: str) -> None:
        over.sort(key=lambda settlement: settlement.claim)
        try:
            answer = await place.storage.mailbox.settle(over, owner)
        except StorageError as error:
            # Their claims lapse, and whoever reaps them ends them. What was claimed with them is not lost by that.
            _logger.warning("%s: %d deliveries that are over were not settled: %s", self.terms.group, len(over), error)
        else:
            self._written([], [each for each in over if each.claim not in answer.busy])

    # --- keeping and settling ------------------------------------------------------------------------------

    async def extend(self, items: Sequence[Item[T]], hold: Duration) -> ExtendedItems[T]:
        """See ``Queue.extend``."""
        span = _span(hold)
        check(items, self.terms, self._room.reserved, "extend", writes=False)
        asked = [item for item in items if held(item).settled is None]
        if not asked:
            return ExtendedItems()
        storage = (await self._room.place("queue.extend()")).storage
        sent = self._clock.monotonic()
        answers = [await storage.mailbox.extend(claims, owner, span) for owner, claims in claims_by_owner(asked)]
        answer = extended(asked, all_extended(answers), sent, span)
        self._room.reserved.let_go([held(item) for item in answer.lost])
        return answer

    async def settle(self, items: Sequence[Item[T]], judge: Judge, tx: object, call: str) -> SettledItems[T]:
        """Write this verdict on the items, in the caller's transaction or outside any."""
        made = self._judged(items, judge, call)
        if not made:
            return SettledItems()
        if tx is not None:
            transactions = self._room.transactions
            script = self._settling(transactions.rooms, items, made)
            answer = await transactions.run(tx, script, f"queue(…).{call}")
            return self._answered(items, made, answer, call, joined=True)
        storage = (await self._room.place(f"queue.{call}()")).storage
        try:
            answers = [
                await patiently(storage.mailbox.settle, theirs, owner, call)
                for owner, theirs in settlements_by_owner(items, made)
            ]
        except BaseException:
            # It may have been written all the same. Who tries again finds nothing left to settle, and that is well.
            for item in items:
                held(item).unheard = True
            raise
        return self._answered(items, made, all_settled(answers), call, joined=False)

    def _settling(self, rooms: Rooms, items: Sequence[Item[T]], made: Sequence[Settlement]) -> Script[Settled]:
        answers = []
        for owner, theirs in settlements_by_owner(items, made):
            answers.append((yield from rooms.mailbox.settle.script(theirs, owner, waits=True)))
        return all_settled(answers)

    def _judged(self, items: Sequence[Item[T]], judge: Judge, call: str) -> list[Settlement]:
        check(items, self.terms, self._room.reserved, call, writes=True)
        return settlements(items, judge, self.terms, self._clock)

    def _answered(
        self, items: Sequence[Item[T]], made: Sequence[Settlement], answer: Settled, call: str, *, joined: bool
    ) -> SettledItems[T]:
        self._room.reserved.let_go([held(item) for item in items])
        try:
            told = settled(items, answer, call, joined=joined)
        except ClaimLost as error:
            lost = {item.claim for item in error.lost}
            if not joined:
                self._written(items, [each for each in made if each.claim not in lost])
            raise
        self._written(items, made)
        return told

    def _written(self, items: Sequence[Item[T]], made: Sequence[Settlement]) -> None:
        self._room.presence.settled(self.terms.group, items, made)
        self._room.settled(self.terms.group, members=any(each.member for each in made))

    # --- what every call begins with -----------------------------------------------------------------------

    async def _ready(self, call: str) -> Place:
        place = await self._room.place(f"queue.{call}()")
        await place.declare(self.terms)
        await place.attend(self.terms)
        return place

    def _holder(self, given: str | None) -> str:
        return self._room.presence.holder(None if given is None else check_name(given, "owner"))

    def _hold_off(self) -> float:
        """How long to sleep before looking, where what was due was not to be had, time and again.

        Others are faster, or somebody has its row locked: looking at once would be polling.
        """
        if self._fruitless < 2:  # noqa: PLR2004 - once is chance
            return 0.0
        return min(_FIRST_HOLD_OFF * 2.0 ** min(self._fruitless, 10), _LONGEST_HOLD_OFF)


def _span(hold: Duration) -> timedelta:
    return length(hold, "hold", least=_SHORTEST, most=_LONGEST)
