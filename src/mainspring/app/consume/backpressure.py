"""Back-pressure on every publish to groups that have a limit: the limits, counts of what waits, and the admission."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, cast

from mainspring.app.connection import Connection
from mainspring.app.options import choice, whole
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import Backlogged, BadOption, StorageUnavailable
from mainspring.model.message import Delivery, Draft
from mainspring.runtime.handler import Call, Run
from mainspring.storage.patterns import matches
from mainspring.timing.clock import Clock
from mainspring.timing.duration import spell

WhenFull = Literal["raise", "wait"]
"""What a publish over a group's limit does."""

COUNT_EVERY = 1.0
"""Seconds for which a count is used, with what this process has published since."""
RECOUNT_AFTER = 0.1
"""Seconds until a recount if only what was published since makes a group full: it may be done."""
PATIENCE = timedelta(seconds=30)
"""How long a publish waits for room before it raises."""
MOST = 1_000_000
"""The highest limit: a full group is counted up to its limit every second, by every process that publishes to it."""
_WORDS = ("raise", "wait")
_TOPICS = 1_000
_LONG_AGO = float("-inf")

_serving: ContextVar[str | None] = ContextVar("mainspring_serving", default=None)
"""The group whose handler runs here, if that group makes publishers wait."""


@dataclass(frozen=True, slots=True)
class PendingLimit:
    """How many deliveries of a group may wait, and what a publish over that limit does."""

    most: int
    when_full: WhenFull = "raise"

    @property
    def shown(self) -> dict[str, str]:
        """The declared options."""
        return {"pending_limit": str(self.most), "when_full": self.when_full}


def read_pending_limit(options: Mapping[str, Any], whose: str) -> PendingLimit | None:
    """Return the limit among these options, or None."""
    most, when_full = options.get("pending_limit"), options.get("when_full")
    if most is None:
        if when_full is not None:
            raise BadOption(f"{whose} has when_full={when_full!r} and no limit: add pending_limit=10_000, or drop it")
        return None
    word = "raise" if when_full is None else choice(when_full, _WORDS, "when_full")
    return PendingLimit(whole(most, "pending_limit", least=1, most=MOST), cast("WhenFull", word))


@dataclass(slots=True)
class _Count:
    """How many wait for a group, as far as this process knows."""

    queried: float = _LONG_AGO
    learned: float = _LONG_AGO
    waiting: int = 0
    """As of the last count."""
    since: int = 0
    """What was admitted here since then."""


class Backlogs:
    """The limited groups of one app, by name, and how many wait for them in one database.

    It is used by every thread that publishes, and without a lock, which a forked child might inherit locked. What two
    threads add at one instant may count once; the next count corrects that.
    """

    def __init__(self) -> None:
        self.limits: dict[str, PendingLimit] = {}
        """By group. Empty for most apps, which only pay for this check."""
        self._patterns: dict[str, tuple[str, ...]] = {}
        self._reached: list[dict[str, tuple[str, ...]]] = [{}]
        """One: the limited groups that each topic reaches."""
        self._counts: defaultdict[str, _Count] = defaultdict(_Count)

    def apart(self) -> Backlogs:
        """Return the same limits, with counts of their own: those of another database."""
        other = copy(self)
        other._counts = defaultdict(_Count)  # noqa: SLF001 - a copy of this
        return other

    def note(self, group: str, patterns: Iterable[str], limit: PendingLimit | None) -> None:
        """Set the group's limit, or remove it."""
        if limit is None:
            self.limits.pop(group, None)
        else:
            self._patterns[group] = tuple(patterns)
            self.limits[group] = limit  # last: a concurrent publish that finds it also finds the rest
        self._reached[0] = {}  # a new one: a thread that read the limits before writes into the old

    def wanted(self, drafts: Iterable[Draft]) -> dict[str, int]:
        """Count these for each limited group."""
        wanted: dict[str, int] = {}
        for draft in drafts:
            for group in self._groups(draft):
                wanted[group] = wanted.get(group, 0) + 1
        return wanted

    def _groups(self, draft: Draft) -> tuple[str, ...]:
        if draft.group is not None:
            return (draft.group,) if draft.group in self.limits else ()
        known = self._reached[0]
        reached = known.get(draft.topic)
        if reached is None:
            if len(known) >= _TOPICS:
                known.clear()
            reached = known[draft.topic] = tuple(
                group
                for group in tuple(self.limits)
                if any(matches(each, draft.topic) for each in self._patterns[group])
            )
        return reached

    def due(self, groups: Iterable[str], now: float) -> dict[str, int]:
        """Return the groups that are due, with how far to count. The caller must count them: no other will."""
        return self._claimed((group for group in groups if now - self._counts[group].queried >= COUNT_EVERY), now)

    def doubtful(self, full: Iterable[str], now: float) -> dict[str, int]:
        """Return full groups that are due sooner, being estimates: done messages must not reject a publish."""
        return self._claimed(
            (group for group in self.guessed(full) if now - self._counts[group].queried >= RECOUNT_AFTER), now
        )

    def guessed(self, groups: Iterable[str]) -> list[str]:
        """Return those with an estimate."""
        return [group for group in groups if self._counts[group].since > 0]

    def _claimed(self, groups: Iterable[str], now: float) -> dict[str, int]:
        due = set(groups)
        for group in due:
            self._counts[group].queried = now
        return {group: self.limits[group].most for group in due}

    def unknown(self, groups: Iterable[str], now: float) -> dict[str, int]:
        """Return those without a count, or with none new enough to use during a recount."""
        old = (group for group in groups if now - self._counts[group].learned > 2 * COUNT_EVERY)
        return {group: self.limits[group].most for group in old}

    def before(self, groups: Iterable[str]) -> dict[str, int]:
        """Return what a count from now on will include."""
        return {group: self._counts[group].since for group in groups}

    def learn(self, waiting: Mapping[str, int], before: Mapping[str, int], now: float) -> None:
        """Record a count. What was admitted ``before`` it is included, or was never stored."""
        for group, count in ((group, self._counts[group]) for group in waiting):
            count.queried = count.learned = now
            count.waiting = waiting[group]
            count.since = max(count.since - before[group], 0)

    def not_learned(self, groups: Iterable[str]) -> None:
        """Let the next caller count again."""
        for group in groups:
            self._counts[group].queried = _LONG_AGO

    def take(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Admit so many to each group, or none to any; return how many wait for those that are full."""
        counted = {group: self._counts[group].waiting + self._counts[group].since for group in wanted}
        if full := self.full(wanted, counted):
            return full
        for group, more in wanted.items():
            self._counts[group].since += more
        return {}

    def full(self, wanted: Mapping[str, int], counted: Mapping[str, int]) -> dict[str, int]:
        """Return the groups, with their counts, that have no room for what is wanted."""
        return {
            group: counted[group] for group, more in wanted.items() if counted[group] + more > self.limits[group].most
        }

    def may_wait(self, wanted: Mapping[str, int], full: Collection[str]) -> bool:
        """Return whether waiting can help, and every full group allows it. A handler cannot wait for itself."""
        return _serving.get() not in full and all(
            self.limits[group].when_full == "wait" and wanted[group] <= self.limits[group].most for group in full
        )

    def until_count(self, groups: Collection[str], now: float) -> float:
        """Return the seconds until one of these is due again, with jitter."""
        every = RECOUNT_AFTER if self.guessed(groups) else COUNT_EVERY
        pause = max(min(self._counts[group].queried for group in groups) + every - now, 0.0)
        # Waiting calls resume one after the other: the first counts for all.
        return pause + every * random.uniform(0.01, 0.25)


class Backpressure:
    """Admission of drafts to groups that have room, all of a call or none.

    A count is queried at most once a second and otherwise cached, plus what was admitted since; sooner only if that
    alone makes a group full. So the limit is exceeded by what other processes publish in between, and by publishes
    in flight.
    """

    def __init__(self, backlogs: Backlogs, connection: Connection, transactions: Transactions, clock: Clock) -> None:
        self._backlogs = backlogs
        self._connection = connection
        self._transactions = transactions
        self._clock = clock
        self._counting: asyncio.Future[None] | None = None

    async def admit(self, drafts: Sequence[Draft], tx: object, call: str) -> None:
        """Return when there is room for all of these, or raise Backlogged. A caller's transaction never waits."""
        wanted = self._backlogs.wanted(drafts)
        if not wanted:
            return
        if self._connection.stand_in is not None:
            limits = {group: self._backlogs.limits[group].most for group in wanted}
            self._refuse(wanted, self._backlogs.full(wanted, await self._pending(limits, tx, call)))
            return
        began = self._clock.monotonic()
        while await self._count(wanted, tx, call):
            full = self._backlogs.take(wanted)
            if not full:
                return
            if await self._recount(full, tx, call):
                continue
            now = self._clock.monotonic()
            may_wait = tx is None and self._backlogs.may_wait(wanted, full)
            if not may_wait or now - began >= PATIENCE.total_seconds():
                self._refuse(wanted, full, PATIENCE if may_wait else None)
            await asyncio.sleep(self._backlogs.until_count(full, now))
            wanted = self._backlogs.wanted(drafts)  # a limit may be gone by now

    async def _count(self, groups: Mapping[str, int], tx: object, call: str) -> bool:
        """Count what waits for each of these; False if the database is unavailable."""
        while True:
            now = self._clock.monotonic()
            limits = self._backlogs.due(groups, now)
            if not limits:
                limits = self._backlogs.unknown(groups, now)
                if not limits:
                    return True
                if await self._others_counted(tx):
                    continue
            if not await self._query(limits, tx, call):
                return False

    async def _recount(self, full: Mapping[str, int], tx: object, call: str) -> bool:
        """Recount what is full by estimate; return whether it did."""
        if not self._backlogs.guessed(full):
            return False
        if await self._others_counted(tx):
            return True
        doubtful = self._backlogs.doubtful(full, self._clock.monotonic())
        return bool(doubtful) and await self._query(doubtful, tx, call)

    async def _others_counted(self, tx: object) -> bool:
        """Await another caller's count; False if there is none."""
        counting = self._counting
        # A transaction never waits for others, since they may wait for a lock that it holds.
        if tx is not None or counting is None or counting.get_loop() is not asyncio.get_running_loop():
            return False
        await asyncio.wait([counting])
        return True

    async def _query(self, limits: Mapping[str, int], tx: object, call: str) -> bool:
        # With tx= the call never waits for another count, so it needs no loop.
        mine = asyncio.get_running_loop().create_future() if tx is None else None
        if mine is not None:
            self._counting = mine
        before = self._backlogs.before(limits)
        try:
            waiting = await self._pending(limits, tx, call)
        except BaseException as error:
            self._backlogs.not_learned(limits)
            if tx is None and isinstance(error, StorageUnavailable):
                return False  # storing retries, and raises if the database does not come back
            raise
        finally:
            if mine is not None:
                mine.set_result(None)
                if self._counting is mine:
                    self._counting = None
        self._backlogs.learn(waiting, before, self._clock.monotonic())
        return True

    async def _pending(self, limits: Mapping[str, int], tx: object, call: str) -> Mapping[str, int]:
        if tx is None:
            return await (await self._connection.storage(call)).ledger.pending(limits)
        # On the caller's connection: it may be the only one, and sees what was published on it already.
        return await self._transactions.run(tx, self._transactions.operations.mailbox.pending.script(limits))

    def _refuse(self, wanted: Mapping[str, int], full: Mapping[str, int], waited: timedelta | None = None) -> None:
        for group, waiting in full.items():
            limit = self._backlogs.limits[group].most
            time = None if waited is None else spell(waited)
            raise Backlogged(group, limit, min(waiting, limit), wanted[group], time)


def serving(group: str, call: Call, *, threaded: bool) -> Call:
    """Wrap the handler's call, so that a publish within it knows its group."""

    def called(delivery: Delivery, run: Run) -> object:
        token = _serving.set(group)
        try:
            return call(delivery, run)
        finally:
            _serving.reset(token)

    async def awaited(delivery: Delivery, run: Run) -> object:
        token = _serving.set(group)
        try:
            return await cast("Awaitable[object]", call(delivery, run))
        finally:
            _serving.reset(token)

    return called if threaded else awaited
