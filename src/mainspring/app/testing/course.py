"""The course of time in a test: everything that is due, in order, each at its own instant."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from mainspring.app.consumers import Consumers
from mainspring.app.post import Post
from mainspring.app.registration import Registration
from mainspring.app.testing.attempts import OWNER
from mainspring.app.testing.batch_attempts import BatchAttempts
from mainspring.app.testing.book import ALL, Book, in_order
from mainspring.app.testing.calling import Calls
from mainspring.app.testing.fuses import Fuses
from mainspring.app.testing.occurrences import Occurrences
from mainspring.app.testing.own import Own
from mainspring.app.testing.values import Ran
from mainspring.model.browsing import Filter
from mainspring.model.errors import EndlessWork, Misuse
from mainspring.model.retention import Retention
from mainspring.model.views import Beat, DeliveryView, GroupRuns
from mainspring.runtime.handler import Handler
from mainspring.storage.contract import Storage
from mainspring.timing.clock import HandClock

Enough = Callable[[], Awaitable[bool]]
"""Whether to stop here; asked once before anything runs, and after every run."""
Died = Callable[[Ran], None]
"""Hears of every dead letter, and may end the test."""

_SUCCESSES = ("done",)
_FAILURES = ("failed", "dead")
_MOST_SHOWN = 5
_PRUNED_AT_ONCE = 10_000


class Course:
    """Runs what is due up to an instant, and turns the clock to it.

    Whatever has times of its own has its say in ``_next``: the clock goes from one due instant to the next.
    """

    def __init__(
        self,
        storage: Storage,
        attempts: BatchAttempts,
        book: Book,
        clock: HandClock,
        consumers: Consumers,
        post: Post,
        owner: str,
        retention: Retention,
        fuses: Fuses,
        occurrences: Occurrences,
        limit: int,
        own: Own | None = None,
    ) -> None:
        self._storage = storage
        self._own = own
        self._attempts = attempts
        self._book = book
        self._clock = clock
        self._consumers = consumers
        self._post = post
        self._owner = owner
        self._retention = retention
        self._limit = limit
        self._fuses = fuses
        self._occurrences = occurrences
        self._declared: dict[str, Registration] = {}
        self._handlers: dict[str, Handler] = {}
        self._running = False

    @property
    def running(self) -> bool:
        """Whether it is under way."""
        return self._running

    @property
    def consumers(self) -> dict[str, Registration]:
        """Those declared so far, by the names of their groups as they are stored."""
        return self._declared

    async def prepare(self) -> None:
        """Declare every consumer and schedule there is, and route what was published before one came."""
        await self._declare()
        await self._occurrences.prepare()

    async def _declare(self) -> None:
        fresh = {group: each for each in self._consumers if self._declared.get(group := each.group) is not each}
        if not fresh:
            return
        await self._storage.upkeep.declare([each.declaration(self._owner) for each in fresh.values()])
        self._declared |= fresh
        outermost = self._post.outermost()
        handlers = {group: each.handler(self._post, None, outermost) for group, each in fresh.items()}
        self._handlers |= handlers
        self._fuses.add(handlers)
        after: str | None = None
        while (after := (await self._storage.upkeep.reroute(ALL, after)).last) is not None:
            pass
        await self._report([])

    async def run(self, until: datetime, calls: Calls, died: Died, enough: Enough | None = None) -> list[Ran]:
        """Run everything due up to ``until`` and be there then, or earlier where it was enough."""
        __tracebackhide__ = True
        if self._running:
            raise Misuse("the kit is running already: call drain, advance and wait_until one after another, not within")
        self._running = True
        first = len(self._book.runs)
        try:
            if not await self._through(until, calls, died, enough):
                self._clock.advance(max(until - self._clock.now(), timedelta()))
                await self._book.keep(self._storage)
                await self._storage.upkeep.prune(self._retention, _PRUNED_AT_ONCE)
            return self._book.runs[first:]
        finally:
            self._running = False
            await self._report(self._book.runs[first:])

    async def _through(self, until: datetime, calls: Calls, died: Died, enough: Enough | None) -> bool:
        __tracebackhide__ = True
        if enough is not None and await enough():
            return True
        while not await self._instant(calls, died, enough):
            wait = await self._next()
            if wait is None or self._clock.now() + wait > until:
                return False
            self._clock.advance(wait)
        return True

    async def _instant(self, calls: Calls, died: Died, enough: Enough | None) -> bool:
        """Run what is due now, and what comes to be due now by that. True: it was enough."""
        __tracebackhide__ = True
        first = len(self._book.runs)
        while True:
            before = len(self._book.runs)
            await self.prepare()
            more = await self._occurrences.look()
            for view in await self._due():
                made = await self._attempt(view, calls)
                if not made:
                    continue
                for ran in made:
                    if ran.outcome == "dead":
                        died(ran)
                if enough is not None and await enough():
                    return True
                if len(self._book.runs) - first >= self._limit:
                    raise _endless(self._book.runs[first:])
            if len(self._book.runs) == before and not more:
                return False

    async def _attempt(self, view: DeliveryView, calls: Calls) -> list[Ran]:
        __tracebackhide__ = True
        group = view.group
        consumer, handler = self._declared[group], self._handlers[group]
        room = self._fuses.room(group, 1 if handler.batching is None else handler.batching.size)
        if room <= 0:
            return []
        if handler.batching is not None:
            made = await self._attempts.make_all(view, room, consumer, handler, calls)
        else:
            ran = await self._attempts.make(view, consumer, handler, calls)
            made = [] if ran is None else [ran]
        for each in made:
            self._fuses.note(group, each.outcome)
        return made

    async def _due(self) -> list[DeliveryView]:
        ready = await self._storage.ledger.browse(Filter(state="ready", limit=ALL, scan=ALL))
        declared = [view for view in ready.rows if view.group in self._declared]
        return sorted(declared if self._own is None else await self._own.of(declared), key=in_order)

    async def _next(self) -> timedelta | None:
        """How long until something comes due; None: never."""
        upcoming = await self._storage.mailbox.upcoming(list(self._declared))
        waits = (upcoming, self._fuses.next(), self._occurrences.next_in, self._attempts.next_in())
        return min((wait for wait in waits if wait is not None), default=None)

    async def _report(self, runs: Sequence[Ran]) -> None:
        """Be seen as the worker that serves these groups: health and tallies know no other."""
        done, failed = (
            Counter(ran.group for ran in runs if ran.outcome in outcomes) for outcomes in (_SUCCESSES, _FAILURES)
        )
        await self._storage.upkeep.beat(
            Beat(
                worker=OWNER,
                app=self._owner,
                host=OWNER,
                pid=os.getpid(),
                groups=tuple(self._declared),
                in_hand=0,
                bell="poll",
                runs={group: GroupRuns(done[group], failed[group]) for group in sorted(done | failed)},
            )
        )


def _endless(runs: Sequence[Ran]) -> EndlessWork:
    busiest = Counter(ran.group for ran in runs).most_common(_MOST_SHOWN)
    named = ", ".join(f"{group} ({count:,})" for group, count in busiest)
    return EndlessWork(
        f"{len(runs):,} runs at one instant, and there is still more to do: {named}. Handlers that publish to each "
        "other without delay= never come to an end; where it is meant, say app.testing(limit=…)"
    )
