"""The room of an app's queues behind one door: where they are declared, seen, and woken."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from mainspring.app.door import Door
from mainspring.app.options import closest
from mainspring.app.queues.ear import Ear
from mainspring.app.queues.presence import Presence
from mainspring.app.queues.reserved import Reserved
from mainspring.app.queues.terms import Terms
from mainspring.app.transactions import Transactions
from mainspring.app.unheard import Unheard
from mainspring.model.errors import BadOption
from mainspring.model.standing import Standing
from mainspring.storage.contract import Storage
from mainspring.telemetry.measures import Meter
from mainspring.timing.clock import Clock

if TYPE_CHECKING:
    from mainspring.runtime.worker import Worker

_logger = logging.getLogger("mainspring.queues")
_ROUND = 5.0
"""Seconds between two reports, and between two looks at what was parked; as workers do."""
_NEWS = 1.0
"""Seconds after which something new is reported."""
_ROUTE_BATCH = 1_000
_STRETCHES = 20
"""How much of a walk over parked topics is made at a time; the next round goes on."""


class Place:
    """One database while it is open: which groups were declared in it, and who listens."""

    def __init__(self, storage: Storage, presence: Presence, longest_poll: timedelta, clock: Clock) -> None:
        self.storage: Storage = storage
        self.ear: Ear = Ear(storage, longest_poll, clock)
        self._presence = presence
        self._clock = clock
        self._known: set[str] = set()
        self._declared: dict[str, Terms] = {}
        self._seen: set[str] = set()
        self._round_at = 0.0
        self._after: str | None = None
        self._opened = presence.left

    def stands(self, storage: Storage) -> bool:
        """Whether this is that database, and it was not closed since."""
        return self.storage is storage and self._presence.left == self._opened

    async def declare(self, terms: Terms, *, again: bool = False) -> None:
        """Make the group known, once; without topics it must be known already."""
        if terms.group in self._known and not again:
            return
        await self.storage.schema.check()
        if terms.topics:
            _log_removed(await self.storage.upkeep.declare([terms.declaration], terms.declarer))
            self._declared[terms.group] = terms
        else:
            await self._look_for(terms)
        self._known.add(terms.group)
        await self._route()

    async def attend(self, terms: Terms) -> None:
        """Be seen as who serves this group, now and then, and do what no worker may be there for."""
        now = self._clock.monotonic()
        if terms.group in self._seen and now - self._round_at < (_NEWS if self._presence.has_news else _ROUND):
            return
        first = terms.group not in self._seen
        self._seen.add(terms.group)
        self._presence.serves(terms.group)
        self._round_at = now
        await self._presence.report(self.storage)
        if not first:
            await self._check()
            await self._route()

    async def _check(self) -> None:
        """See that what the queues have declared stands, as workers do, and put back what is missing (invariant 26)."""
        for terms in list(self._declared.values()):
            standing = await self.storage.upkeep.declare([terms.declaration], replace(terms.declarer, again=True))
            for group, pattern in standing.added:
                _logger.warning("%s: its subscription to %s was missing and is put back", group, pattern)
            _log_removed(standing)

    async def _route(self) -> None:
        # What was published while a declaration was on its way lies parked, and there may be no janitor.
        for _ in range(_STRETCHES):
            rerouted = await self.storage.upkeep.reroute(_ROUTE_BATCH, self._after)
            self._after = rerouted.last
            if rerouted.last is None and rerouted.routed < _ROUTE_BATCH:
                return

    async def _look_for(self, terms: Terms) -> None:
        roster = await self.storage.ledger.roster()
        groups = [each.name for each in roster.groups]
        if terms.group in groups:
            return
        raise BadOption(
            f"app.queue({terms.group!r}) names no topics, and there is no such group.{closest(terms.group, groups)} "
            f"There are: {', '.join(groups) or 'none'}. To make it, say what it subscribes to: "
            f"app.queue({terms.group!r}, 'orders.placed')"
        )


def _log_removed(standing: Standing) -> None:
    for group, pattern in standing.removed:
        _logger.warning(
            "%s: no process has declared its subscription to %s lately, and it is removed; where a release that wants "
            "it runs now and then only, give each a version: Mainspring(version=2) or MAINSPRING_VERSION=2",
            group,
            pattern,
        )


class Room:
    """What the queues behind one door share."""

    def __init__(
        self,
        door: Door,
        transactions: Transactions,
        reserved: Reserved,
        app: str,
        idle_poll: timedelta,
        clock: Clock,
        workers: Sequence[Worker],
        meter: Meter,
    ) -> None:
        self.transactions: Transactions = transactions
        self.reserved: Reserved = reserved
        self.unheard: Unheard = Unheard(door)
        self.presence: Presence = Presence(app, meter)
        self.clock: Clock = clock
        self._door = door
        self._idle_poll = idle_poll
        self._workers = workers
        self._place: Place | None = None
        # No method of ours: a door outlives the app by the time it takes to close the database, and must not hold it.
        door.farewells.append(self.presence.leave)

    @property
    def in_test(self) -> bool:
        """Whether a test stands in for the database: then nobody sleeps."""
        return self._door.stand_in is not None

    async def place(self, call: str) -> Place:
        """The database that is open now; raises NotOpen naming ``call``."""
        storage = await self._door.storage(call)
        if self._place is None or not self._place.stands(storage):
            self._place = Place(storage, self.presence, self._idle_poll, self.clock)
        return self._place

    def settled(self, group: str, *, members: bool) -> None:
        """Something of this group was settled: it may be due again, and what follows ``members`` may be."""
        if self._place is not None and not self.in_test:
            self._place.ear.rung(group)
        if members:
            for worker in self._workers:
                worker.reschedule()
