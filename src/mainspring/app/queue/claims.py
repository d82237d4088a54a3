"""The claims of a queue: claim and reap, wait, extend and settle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from mainspring.app.consume.consumers import retry_policy
from mainspring.app.names import check_name
from mainspring.app.options import length, whole
from mainspring.app.queue.item import (
    ClaimState,
    ExtendedItems,
    Item,
    SettledItems,
    all_extended,
    all_settled,
    claims_by_owner,
    extended,
    held,
    settled,
    settlements_by_owner,
)
from mainspring.app.queue.options import QueueSettings
from mainspring.app.queue.runtime import OpenQueues, QueueRuntime
from mainspring.app.storages import OperationSet
from mainspring.model.errors import BadOption, ClaimLost, Misuse, StorageError, StorageUnavailable
from mainspring.model.join import is_member
from mainspring.model.message import ALL_LEVELS, Claim, ClaimRequest, Delivery, Settled
from mainspring.model.verdict import Done, Release, Settlement, Snooze, Verdict
from mainspring.runtime import verdicts
from mainspring.runtime.fetcher import Marks
from mainspring.runtime.service import backoff
from mainspring.runtime.settings import WorkerSettings
from mainspring.runtime.settler import BATCH
from mainspring.storage.script import Script
from mainspring.timing.backoff import RetryPolicy
from mainspring.timing.clock import Clock
from mainspring.timing.duration import Duration

T = TypeVar("T")

_logger = logging.getLogger("mainspring.queues")

_SHORTEST = timedelta(milliseconds=1)
_LONGEST = timedelta(days=1)
_FOREVER = float("inf")
_REAP_EVERY = 1.0
_TURN = 5.0
"""Seconds that a wait sleeps between two heartbeats and checks of parked messages."""
_FIRST_HOLD_OFF = 0.005
_LONGEST_HOLD_OFF = 0.25
_DEATHS = WorkerSettings().deaths


class QueueClaims(Generic[T]):
    """The deliveries of one group claimed by this process, on one connection."""

    def __init__(self, settings: QueueSettings, runtime: QueueRuntime) -> None:
        self.settings: QueueSettings = settings
        self._runtime = runtime
        self._clock = runtime.clock
        self._marks = Marks()
        self._marked: OpenQueues | None = None
        self._woken = False
        self._fruitless = 0

    async def declare(self) -> None:
        """Declare the group, even if it is declared."""
        await (await self._runtime.opened("queue.declare()")).declare(self.settings, again=True)

    # --- claiming ------------------------------------------------------------------------------------------

    async def claim(self, batch: int, hold: Duration, owner: str | None) -> list[Item[T]]:
        """See ``Queue.claim``."""
        limit = whole(batch, "batch", least=1, most=BATCH)
        span, name = _span(hold), self._holder(owner)
        opened = await self._ready("claim")
        if self._runtime.heartbeat.drains:
            items: list[Item[T]] = []
        else:
            claiming = self._filled(opened, limit, name, span)
            items = await self._runtime.return_on_cancel.run(claiming, partial(self._hand_back, opened))
        self._fruitless = 0 if items or not self._woken else self._fruitless + 1
        return items

    async def reap(self, hold: Duration, owner: str | None) -> Item[T] | None:
        """See ``Queue.reap``."""
        span, name = _span(hold), self._holder(owner)
        opened = await self._ready("reap")
        if self._runtime.heartbeat.drains:
            return None
        reaped = await self._runtime.return_on_cancel.run(
            self._reaped(opened, name, span), partial(self._hand_back, opened)
        )
        return reaped[0] if reaped else None

    async def wait(self, timeout: Duration | None) -> bool:  # noqa: ASYNC109 - the end of it is no error
        """See ``Queue.wait``."""
        seconds = _FOREVER if timeout is None else length(timeout, "timeout").total_seconds()
        opened = await self._ready("wait")
        if self._runtime.in_test:
            upcoming = await opened.waiter.upcoming(self.settings.group)
            return upcoming is not None and upcoming <= timedelta()
        hold_off = self._hold_off()
        until = self._clock.monotonic() + seconds
        self._woken = False
        while True:
            left = max(until - self._clock.monotonic(), 0.0)
            if await opened.waiter.wait(self.settings.group, min(left, _TURN), hold_off):
                self._woken = True
                return True
            if left <= _TURN:
                return False
            hold_off = 0.0
            opened = await self._ready("wait")

    async def items(self, hold: Duration, owner: str | None) -> AsyncIterator[Item[T]]:
        """See ``Queue.items``."""
        reaped_at = -_FOREVER
        while True:
            now = self._clock.monotonic()
            if now - reaped_at >= _REAP_EVERY:
                suspect = await self.reap(hold, owner)
                # If one lapsed, others probably did too.
                reaped_at = now if suspect is None else -_FOREVER
                if suspect is not None:
                    yield suspect
                    continue
            claimed = await self.claim(1, hold, owner)
            for item in claimed:
                yield item
            if not claimed and not await self.wait(timedelta(seconds=_TURN)) and self._runtime.in_test:
                return

    async def _filled(self, opened: OpenQueues, limit: int, owner: str, hold: timedelta) -> list[Item[T]]:
        while True:
            claimed = await self._claim(opened, limit, owner, hold)
            items = await self._given(opened, claimed, owner, hold)
            # If none of them needs processing, more may follow.
            if items or not claimed:
                return items

    async def _reaped(self, opened: OpenQueues, owner: str, hold: timedelta) -> list[Item[T]]:
        group, queues = self.settings.group, self._runtime.queues
        while True:
            now = self._clock.monotonic()
            with queues.reaping(group, now) as may_reap:
                if not may_reap:
                    break
                accused = not queues.holds_suspects(now)
                delivery = await opened.storage.mailbox.reap([group], owner, hold, accused=accused)
                if delivery is None:
                    break
                for item in await self._given(opened, [delivery], owner, hold):
                    queues.suspect(held(item))
                    return [item]
        return []

    async def _hand_back(self, opened: OpenQueues, items: Sequence[Item[T]]) -> None:
        """Release items whose caller was cancelled: others need not wait until they lapse."""
        if items:
            self._runtime.queues.let_go([held(item) for item in items])
            made = settlements(items, lambda _held, _took: Release(), self.settings, self._clock)
            for owner, theirs in settlements_by_owner(items, made):
                answer = await opened.storage.mailbox.settle(theirs, owner)
                self._written(items, [each for each in theirs if each.claim not in answer.busy])

    async def _claim(self, opened: OpenQueues, limit: int, owner: str, hold: timedelta) -> list[Delivery]:
        if self._marked is not opened:
            self._marks, self._marked = Marks(), opened
        group, marks, mailbox = self.settings.group, self._marks, opened.storage.mailbox
        scans = marks.scans(self._clock.monotonic())
        claimed = await mailbox.claim([ClaimRequest(group, limit, scans)], owner, hold)
        marks.learn(claimed, short=len(claimed) < limit)
        if len(claimed) == limit or all(scan.since is None for scan in scans):
            return claimed
        # Nothing more above the marks: also claim deliveries that were committed late.
        marks.rung()
        try:
            return claimed + await mailbox.claim([ClaimRequest(group, limit - len(claimed), ALL_LEVELS)], owner, hold)
        except StorageError:
            if not claimed:
                raise
            return claimed  # they are claimed, and would lapse if the caller never got them

    async def _given(
        self, opened: OpenQueues, deliveries: Sequence[Delivery], owner: str, hold: timedelta
    ) -> list[Item[T]]:
        """Return the deliveries as items; settle those that need no run: expired, cancelled, poisonous."""
        received = self._clock.monotonic()
        items: list[Item[T]] = []
        over: list[Settlement] = []
        for delivery in deliveries:
            verdict = verdicts.without_running(delivery, _DEATHS)
            if verdict is None:
                until = delivery.claimed_at + hold
                one = ClaimState(delivery, owner, self._runtime.queues, received, until)
                items.append(Item(one, self.settings.read))
            else:
                over.append(
                    Settlement(delivery.claim, verdict, self.settings.keeps(delivery), member=is_member(delivery))
                )
        if over:
            await self._end(opened, over, owner)
        self._runtime.heartbeat.took(items)
        return items

    async def _end(self, opened: OpenQueues, over: list[Settlement], owner: str) -> None:
        over.sort(key=lambda settlement: settlement.claim)
        try:
            answer = await opened.storage.mailbox.settle(over, owner)
        except StorageError as error:
            # Their claims lapse, and a later reap settles them. The items claimed with them are not lost.
            _logger.warning(
                "%s: failed to settle %d deliveries that need no run: %s", self.settings.group, len(over), error
            )
        else:
            self._written([], [each for each in over if each.claim not in answer.busy])

    # --- extending and settling ----------------------------------------------------------------------------

    async def extend(self, items: Sequence[Item[T]], hold: Duration) -> ExtendedItems[T]:
        """See ``Queue.extend``."""
        span = _span(hold)
        check(items, self.settings, self._runtime.queues, "extend", writes=False)
        live = [item for item in items if held(item).settled is None]
        if not live:
            return ExtendedItems()
        storage = (await self._runtime.opened("queue.extend()")).storage
        sent = self._clock.monotonic()
        answers = [await storage.mailbox.extend(claims, owner, span) for owner, claims in claims_by_owner(live)]
        answer = extended(live, all_extended(answers), sent, span)
        self._runtime.queues.let_go([held(item) for item in answer.lost])
        return answer

    async def settle(self, items: Sequence[Item[T]], judge: Judge, tx: object, call: str) -> SettledItems[T]:
        """Settle items with this verdict, in the caller's transaction or outside any."""
        made = self._judged(items, judge, call)
        if not made:
            return SettledItems()
        if tx is not None:
            transactions = self._runtime.transactions
            script = self._settling(transactions.operations, items, made)
            answer = await transactions.run(tx, script, f"queue(…).{call}")
            return self._answered(items, made, answer, call, enlisted=True)
        storage = (await self._runtime.opened(f"queue.{call}()")).storage
        try:
            answers = [
                await patiently(storage.mailbox.settle, theirs, owner, call)
                for owner, theirs in settlements_by_owner(items, made)
            ]
        except BaseException:
            # It may have been written nevertheless. A retry then finds nothing left to settle, which is correct.
            for item in items:
                held(item).unconfirmed = True
            raise
        return self._answered(items, made, all_settled(answers), call, enlisted=False)

    def _settling(
        self, operations: OperationSet, items: Sequence[Item[T]], made: Sequence[Settlement]
    ) -> Script[Settled]:
        answers = []
        for owner, theirs in settlements_by_owner(items, made):
            answers.append((yield from operations.mailbox.settle.script(theirs, owner, waits=True)))
        return all_settled(answers)

    def _judged(self, items: Sequence[Item[T]], judge: Judge, call: str) -> list[Settlement]:
        check(items, self.settings, self._runtime.queues, call, writes=True)
        return settlements(items, judge, self.settings, self._clock)

    def _answered(
        self, items: Sequence[Item[T]], made: Sequence[Settlement], answer: Settled, call: str, *, enlisted: bool
    ) -> SettledItems[T]:
        self._runtime.queues.let_go([held(item) for item in items])
        try:
            result = settled(items, answer, call, enlisted=enlisted)
        except ClaimLost as error:
            lost = {item.claim for item in error.lost}
            if not enlisted:
                self._written(items, [each for each in made if each.claim not in lost])
            raise
        self._written(items, made)
        return result

    def _written(self, items: Sequence[Item[T]], made: Sequence[Settlement]) -> None:
        self._runtime.heartbeat.settled(self.settings.group, items, made)
        self._runtime.settled(self.settings.group, members=any(each.member for each in made))

    # --- preparation ---------------------------------------------------------------------------------------

    async def _ready(self, call: str) -> OpenQueues:
        opened = await self._runtime.opened(f"queue.{call}()")
        await opened.declare(self.settings)
        await opened.attend(self.settings)
        return opened

    def _holder(self, given: str | None) -> str:
        return self._runtime.heartbeat.holder(None if given is None else check_name(given, "owner"))

    def _hold_off(self) -> float:
        """Return how long to sleep before polling, after repeated claims of due deliveries failed.

        Others are faster, or the rows are locked: polling at once would be a busy loop.
        """
        if self._fruitless < 2:  # noqa: PLR2004 - once is chance
            return 0.0
        return min(_FIRST_HOLD_OFF * 2.0 ** min(self._fruitless, 10), _LONGEST_HOLD_OFF)


def _span(hold: Duration) -> timedelta:
    return length(hold, "hold", least=_SHORTEST, most=_LONGEST)


Judge = Callable[[ClaimState, timedelta], Verdict]
"""The verdict on one claim, and its run time."""

_KINDS = ("builtins.Exception", "builtins.BaseException")
"""How an error given as text is classified, for ``retry_on`` and ``give_up_on``."""
_TRIES = 50
_LONGEST_PAUSE = 0.25


def done(output: object) -> Judge:
    """Judge as done."""
    if output is not None and not isinstance(output, str):
        raise BadOption(f"queue.ack(…, output={output!r}) must be text: it is kept with the history")
    verdict = verdicts.of_result(Done(output))
    return lambda _held, _took: verdict


def handed_back(delay: Duration, reason: object) -> Judge:
    """Return an uncounted snooze."""
    verdict = verdicts.of_result(Snooze(length(delay, "delay"), None if reason is None else str(reason)))
    return lambda _held, _took: verdict


def failed(error: object, retry: RetryPolicy | str | None, settings: QueueSettings) -> Judge:
    """Return a failure: retried by policy, or buried."""
    policy = retry_policy(retry, settings.retry)
    if isinstance(error, str):
        error = verdicts.Reported(verdicts.reported(error), _KINDS)
    if not isinstance(error, BaseException):
        raise BadOption(f"queue.fail(…, error={error!r}) must be the exception, or text that describes it")
    raised: BaseException = error
    return lambda held, took: verdicts.of_error(raised, held.delivery, policy, took)


def settlements(items: Sequence[Item[Any]], judge: Judge, settings: QueueSettings, clock: Clock) -> list[Settlement]:
    """Return the verdicts, ready to be written, in the order in which every transaction locks rows."""
    now = clock.monotonic()
    made = []
    for item in items:
        one = held(item)
        took = timedelta(seconds=max(now - one.received, 0.0))
        delivery = one.delivery
        made.append(
            Settlement(delivery.claim, judge(one, took), settings.keeps(delivery), took, is_member(delivery)),
        )
    return sorted(made, key=lambda settlement: settlement.claim)


def check(items: Sequence[object], settings: QueueSettings, home: object, call: str, *, writes: bool) -> None:
    """Raise if a call cannot take these items."""
    seen: set[int] = set()
    for item in items:
        if not isinstance(item, Item):
            hint = f": write queue.{call}(*items)" if isinstance(item, list | tuple) else ""
            raise BadOption(f"queue.{call}(…) takes items from queue.claim(), not {item!r}{hint}")
        one = held(item)
        if one.home is not home or one.delivery.group != settings.group:
            whose = f"of {item.group!r}" if one.home is home else "of another app"
            raise BadOption(
                f"queue.{call}(…): message {item.message_id} is an item {whose}, and this is the queue "
                f"{settings.group!r}: pass it to a queue of its own group"
            )
        if id(item) in seen:
            raise BadOption(f"queue.{call}(…) names message {item.message_id} twice")
        if writes and one.settled is not None:
            raise Misuse(
                f"queue.{call}(…): message {item.message_id} was settled already, by queue.{one.settled}(…): an item "
                "is settled once"
            )
        seen.add(id(item))


async def patiently(
    settle: Callable[[Sequence[Settlement], str], Awaitable[Settled]],
    made: Sequence[Settlement],
    owner: str,
    call: str,
) -> Settled:
    """Settle, and retry rows locked by another session, for about ten seconds."""
    lost: frozenset[Claim] = frozenset()
    gone: frozenset[Claim] = frozenset()
    for tries in range(1, _TRIES + 1):
        answer = await settle(made, owner)
        lost, gone = lost | answer.lost, gone | answer.gone
        if not answer.busy:
            break
        made = [each for each in made if each.claim in answer.busy]
        await asyncio.sleep(backoff(tries, _LONGEST_PAUSE))
    else:
        raise StorageUnavailable(
            f"queue.{call}(…): another session's open transaction has locked {len(made):,} of the items: when it "
            f"ends, call queue.{call}(…) with the same items again"
        )
    return Settled(lost, gone)
