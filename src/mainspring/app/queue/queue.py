"""``app.queue``: deliveries of one group, claimed and settled by the caller's own code, without a worker."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, Generic, TypeVar

from mainspring.app.blocking import Face, Renamed, blocking
from mainspring.app.names import check_name
from mainspring.app.options import length, named_options, whole
from mainspring.app.queue.item import (
    ClaimState,
    ExtendedItems,
    Item,
    Judge,
    SettledItems,
    all_extended,
    all_settled,
    check,
    claims_by_owner,
    extended,
    held,
    judge_done,
    judge_failed,
    judge_snoozed,
    patiently,
    settled,
    settlements,
    settlements_by_owner,
)
from mainspring.app.queue.options import QueueSettings
from mainspring.app.queue.runtime import OpenQueues, QueueRuntime
from mainspring.app.queue.token import check_group_of, read_token
from mainspring.app.storages import OperationSet
from mainspring.model.errors import ClaimLost, StorageError
from mainspring.model.message import ALL_LEVELS, ClaimRequest, Delivery, Settled
from mainspring.model.verdict import Release, Settlement
from mainspring.runtime import verdicts
from mainspring.runtime.fetcher import Marks
from mainspring.runtime.settings import WorkerSettings
from mainspring.runtime.settler import BATCH
from mainspring.storage.script import Script
from mainspring.timing.backoff import RetryPolicy
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


class Queue(Renamed, Generic[T]):
    """The deliveries of one group, for a processor that claims and settles them itself. Needs no worker.

    Nothing runs in the background: a claim that is not extended lapses, and only ``reap`` takes over lapsed claims.
    ``ack``, ``abandon`` and ``fail`` return when every item is settled. They raise ClaimLost if some were not, after
    settling the others; with ``tx`` the caller rolls back.
    """

    def __init__(self, settings: QueueSettings, runtime: QueueRuntime) -> None:
        self._settings = settings
        self._runtime = runtime
        self._clock = runtime.clock
        self._marks = Marks()
        self._marked: OpenQueues | None = None
        self._woken = False
        self._fruitless = 0

    def __repr__(self) -> str:
        """Return the group and topics."""
        return f"<Queue {self.group!r} of {', '.join(self.topics) or 'what its group subscribes to'}>"

    @property
    def group(self) -> str:
        """The group of its deliveries."""
        return self._settings.group

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics and patterns it subscribes to; none if other code declares the group."""
        return self._settings.topics

    async def declare(self) -> None:
        """Declare the group and its topics now, and route its parked messages. The first use does so implicitly.

        A queue without topics is only looked up: raises BadOption if there is no such group.
        """
        await (await self._runtime.opened("queue.declare()")).declare(self._settings, again=True)

    # --- claiming ------------------------------------------------------------------------------------------

    @named_options
    async def claim(self, batch: int = 10, hold: Duration = "1m", owner: str | None = None) -> list[Item[T]]:
        """Claim up to ``batch`` due deliveries for ``hold``; none if nothing is due, or the group is paused.

        In the order of workers: by priority, without starvation, then by due time. Expired ones are cancelled.
        Deliveries that are held, or whose claim has lapsed, are excluded.
        """
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

    @named_options
    async def reap(self, hold: Duration = "1m", owner: str | None = None) -> Item[T] | None:
        """Take over the delivery whose claim lapsed longest ago, as a *suspect*; None if there is none.

        Its holder died or froze with it, so it may be the cause. Suspects are therefore returned one by one: None for
        the first second that one is in hand, and until it is settled if it has killed a process before. After three
        deaths of suspects' holders, a delivery is buried unread.
        """
        span, name = _span(hold), self._holder(owner)
        opened = await self._ready("reap")
        if self._runtime.heartbeat.drains:
            return None
        reaped = await self._runtime.return_on_cancel.run(
            self._reaped(opened, name, span), partial(self._hand_back, opened)
        )
        return reaped[0] if reaped else None

    async def wait(self, timeout: Duration | None = None) -> bool:  # noqa: ASYNC109 - the end of it is no error
        """Sleep until something may be due to claim, at most ``timeout`` [for ever]. False: nothing is.

        Publishers and the next due instant wake it; it also polls every few seconds. Another processor may be faster,
        and lapsed claims do not count: call ``reap`` regularly. In ``app.testing()`` it never sleeps.
        """
        seconds = _FOREVER if timeout is None else length(timeout, "timeout").total_seconds()
        opened = await self._ready("wait")
        if self._runtime.in_test:
            upcoming = await opened.waiter.upcoming(self._settings.group)
            return upcoming is not None and upcoming <= timedelta()
        hold_off = self._hold_off()
        until = self._clock.monotonic() + seconds
        self._woken = False
        while True:
            left = max(until - self._clock.monotonic(), 0.0)
            if await opened.waiter.wait(self._settings.group, min(left, _TURN), hold_off):
                self._woken = True
                return True
            if left <= _TURN:
                return False
            hold_off = 0.0
            opened = await self._ready("wait")

    async def items(self, hold: Duration = "1m", owner: str | None = None) -> AsyncIterator[Item[T]]:
        """Yield one item after another, for ever: reaped, claimed or waited for. The loop body settles each.

        Each is claimed when requested, and nothing is extended implicitly. In ``app.testing()`` it ends when nothing is
        due.
        """
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

    async def item(self, token: str) -> Item[T]:
        """Return the item whose ``token`` this is, claimed by any process, to extend and settle it here.

        It is read from the database, once: its properties are those of now. Raises ClaimLost if the claim is no longer
        held, and BadOption for a token of another group or namespace, or for text that is no token.
        """
        read = read_token(token, self._settings)
        opened = await self._ready("item")
        found = await opened.storage.ledger.held(read.claim)
        now = self._clock.monotonic()
        if found is None or not read.is_of(found.owner):
            raise ClaimLost(
                f"queue.item(…): the claim on message {read.message_id} is lost, because it lapsed and was taken over, "
                "or it was settled already: drop the token. Hold it for longer, or extend it while you work"
            )
        check_group_of(found.delivery.group, self._settings)
        delivery = found.delivery._replace(due_at=read.due_at)
        claimed = now - (found.now - delivery.claimed_at).total_seconds()
        one = ClaimState(delivery, found.owner, self._runtime.queues, claimed, found.delivery.due_at)
        item: Item[T] = Item(one, self._settings)
        if delivery.suspect:
            self._runtime.queues.suspect(one, now)
        self._runtime.heartbeat.took([item])
        return item

    async def extend(self, *items: Item[T], hold: Duration = "1m") -> ExtendedItems[T]:
        """Hold them for ``hold`` from now; return which were lost, and which were cancelled."""
        span = _span(hold)
        check(items, self._settings, self._runtime.queues, "extend", writes=False)
        live = [item for item in items if held(item).settled is None]
        if not live:
            return ExtendedItems()
        storage = (await self._runtime.opened("queue.extend()")).storage
        sent = self._clock.monotonic()
        answers = [await storage.mailbox.extend(claims, owner, span) for owner, claims in claims_by_owner(live)]
        answer = extended(live, all_extended(answers), sent, span)
        self._runtime.queues.let_go([held(item) for item in answer.lost])
        return answer

    # --- settling ------------------------------------------------------------------------------------------

    async def ack(self, *items: Item[T], output: str | None = None, tx: Any = None) -> SettledItems[T]:
        """Settle as done. ``output`` is kept with the run, if successes are kept (``keep="all"``).

        With ``tx`` it enlists in the caller's transaction: they are done when that commits.
        """
        return await self._settle(items, judge_done(output), tx, "ack")

    async def abandon(
        self, *items: Item[T], delay: Duration = "5s", reason: str | None = None, tx: Any = None
    ) -> SettledItems[T]:
        """Release them, to be claimed again after ``delay``. No attempt is counted, however often."""
        return await self._settle(items, judge_snoozed(delay, reason), tx, "abandon")

    async def fail(
        self, *items: Item[T], error: BaseException | str, retry: RetryPolicy | str | None = None, tx: Any = None
    ) -> SettledItems[T]:
        """Settle as failed: the attempt counts, and the policy retries them, or buries them with the error.

        ``retry`` is a policy or the name of a preset [the queue's own]; ``"none"`` buries at once.
        """
        judge = judge_failed(error, retry, self._settings)
        return await self._settle(items, judge, tx, "fail")

    # -------------------------------------------------------------------------------------------------------

    async def _filled(self, opened: OpenQueues, limit: int, owner: str, hold: timedelta) -> list[Item[T]]:
        while True:
            claimed = await self._claim(opened, limit, owner, hold)
            items = await self._given(opened, claimed, owner, hold)
            # If none of them needs processing, more may follow.
            if items or not claimed:
                return items

    async def _reaped(self, opened: OpenQueues, owner: str, hold: timedelta) -> list[Item[T]]:
        group, queues = self._settings.group, self._runtime.queues
        for each in queues.unchecked(self._clock.monotonic()):
            found = await opened.storage.ledger.held(each.delivery.claim)
            if found is None or found.owner != each.owner:
                queues.let_go([each])
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
                    queues.suspect(held(item), now)
                    return [item]
        return []

    async def _hand_back(self, opened: OpenQueues, items: Sequence[Item[T]]) -> None:
        """Release items whose caller was cancelled: others need not wait until they lapse."""
        if items:
            self._runtime.queues.let_go([held(item) for item in items])
            made = settlements(items, lambda _held, _took: Release(), self._settings, self._clock)
            for owner, theirs in settlements_by_owner(items, made):
                answer = await opened.storage.mailbox.settle(theirs, owner)
                self._written(items, [each for each in theirs if each.claim not in answer.busy])

    async def _claim(self, opened: OpenQueues, limit: int, owner: str, hold: timedelta) -> list[Delivery]:
        if self._marked is not opened:
            self._marks, self._marked = Marks(), opened
        group, marks, mailbox = self._settings.group, self._marks, opened.storage.mailbox
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
                items.append(Item(one, self._settings))
            else:
                over.append(self._settings.handler.settlement(delivery, verdict, timedelta()))
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
                "%s: failed to settle %d deliveries that need no run: %s", self._settings.group, len(over), error
            )
        else:
            self._written([], [each for each in over if each.claim not in answer.busy])

    async def _settle(self, items: Sequence[Item[T]], judge: Judge, tx: object, call: str) -> SettledItems[T]:
        """Settle items with this verdict, in the caller's transaction or outside any."""
        check(items, self._settings, self._runtime.queues, call, writes=True)
        if not items:
            return SettledItems()
        made = settlements(items, judge, self._settings, self._clock)
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
        self._runtime.heartbeat.settled(self._settings.group, items, made)
        self._runtime.settled(self._settings.group, members=any(each.member for each in made))

    async def _ready(self, call: str) -> OpenQueues:
        opened = await self._runtime.opened(f"queue.{call}()")
        await opened.declare(self._settings)
        await opened.attend(self._settings)
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


class SyncQueue(Face[Queue[T]], Generic[T]):
    """``Queue`` without await. Items of ``app.queue`` of the same group are interchangeable."""

    def __repr__(self) -> str:
        """Return the group and topics."""
        return f"<Sync{repr(self._target)[1:]}"

    @property
    def group(self) -> str:
        """The group of its deliveries."""
        return self._target.group

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics and patterns it subscribes to; none if other code declares the group."""
        return self._target.topics

    declare: Final = blocking(Queue[T].declare)
    claim: Final = blocking(Queue[T].claim)
    reap: Final = blocking(Queue[T].reap)
    wait: Final = blocking(Queue[T].wait)
    item: Final = blocking(Queue[T].item)
    extend: Final = blocking(Queue[T].extend)
    ack: Final = blocking(Queue[T].ack)
    abandon: Final = blocking(Queue[T].abandon)
    fail: Final = blocking(Queue[T].fail)

    def items(self, hold: Duration = "1m", owner: str | None = None) -> Iterator[Item[T]]:
        """Yield one item after another. See ``Queue.items``."""
        turns = self._target.items(hold, owner)
        while (item := self._wait_for(lambda: anext(turns, None), "items(…)")) is not None:
            yield item
