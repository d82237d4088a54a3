"""The shared state of an app's queues while it is open: declarations, wake-ups, their row on the roster."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mainspring.app.config import Options
from mainspring.app.connection import Connection, ReturnOnCancel
from mainspring.app.consume.consumers import Consumers
from mainspring.app.consume.queue_registry import QueueRegistry
from mainspring.app.message.catalogue import Catalogue
from mainspring.app.options import closest
from mainspring.app.queue.item import Item, held
from mainspring.app.queue.options import QueueOptions, QueueSettings
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import BadOption, Conflict, StorageError
from mainspring.model.verdict import Settlement
from mainspring.model.views import Beat
from mainspring.model.worker import TOKEN_BYTES, DeclareResult, holder, roster_name
from mainspring.storage.contract import Storage
from mainspring.telemetry.measures import Meter, Meters
from mainspring.timing.clock import Clock

if TYPE_CHECKING:
    from mainspring.runtime.worker import Worker

_logger = logging.getLogger("mainspring.queues")
_ROUND = 5.0
"""Seconds between two reports, and between two checks of parked messages; as in workers."""
_NEWS = 1.0
"""Seconds after which new counts are reported."""
_ROUTE_BATCH = 1_000
_STRETCHES = 20
"""The most batches of parked topics per round; the next one continues."""


class OpenQueues:
    """The queues on one open database: the groups declared in it, and its waiter."""

    def __init__(self, storage: Storage, heartbeat: QueueHeartbeat, longest_poll: timedelta, clock: Clock) -> None:
        self.storage: Storage = storage
        self.waiter: QueueWaiter = QueueWaiter(storage, longest_poll, clock)
        self._heartbeat = heartbeat
        self._clock = clock
        self._known: set[str] = set()
        self._declared: dict[str, QueueSettings] = {}
        self._seen: set[str] = set()
        self._round_at = 0.0
        self._after: str | None = None
        self._opened = heartbeat.left

    def is_current(self, storage: Storage) -> bool:
        """Return whether it is this database, still open."""
        return self.storage is storage and self._heartbeat.left == self._opened

    async def declare(self, settings: QueueSettings, *, again: bool = False) -> None:
        """Declare the group, once; without topics it must exist already."""
        if settings.group in self._known and not again:
            return
        await self.storage.schema.check()
        if settings.topics:
            _log_removed(await self.storage.upkeep.declare([settings.declaration], settings.declarer))
            self._declared[settings.group] = settings
        else:
            await self._check_exists(settings)
        self._known.add(settings.group)
        await self._route()

    async def attend(self, settings: QueueSettings) -> None:
        """Report regularly that this group is served, and do what otherwise a worker does."""
        now = self._clock.monotonic()
        if settings.group in self._seen and now - self._round_at < (_NEWS if self._heartbeat.has_news else _ROUND):
            return
        first = settings.group not in self._seen
        self._seen.add(settings.group)
        self._heartbeat.serves(settings.group)
        self._round_at = now
        await self._heartbeat.report(self.storage)
        if not first:
            await self._check()
            await self._route()

    async def _check(self) -> None:
        """Check that the queues' declarations still exist, as workers do, and restore missing ones (invariant 26)."""
        for settings in list(self._declared.values()):
            changed = await self.storage.upkeep.declare([settings.declaration], replace(settings.declarer, again=True))
            for group, pattern in changed.added:
                _logger.warning("%s: its subscription to %s was missing and is restored", group, pattern)
            _log_removed(changed)

    async def _route(self) -> None:
        # Messages published before a declaration was committed are parked, and there may be no janitor.
        for _ in range(_STRETCHES):
            rerouted = await self.storage.upkeep.reroute(_ROUTE_BATCH, self._after)
            self._after = rerouted.last
            if rerouted.last is None and rerouted.routed < _ROUTE_BATCH:
                return

    async def _check_exists(self, settings: QueueSettings) -> None:
        roster = await self.storage.ledger.roster()
        groups = [each.name for each in roster.groups]
        if settings.group in groups:
            return
        raise BadOption(
            f"app.queue({settings.group!r}) names no topics, and there is no such group."
            f"{closest(settings.group, groups)} There are: {', '.join(groups) or 'none'}. To create it, name its topics"
            f": app.queue({settings.group!r}, 'orders.placed')"
        )


def _log_removed(changed: DeclareResult) -> None:
    for group, pattern in changed.removed:
        _logger.warning(
            "%s: no process has declared its subscription to %s lately, and it is removed; if a release that needs "
            "it runs only sometimes, give each a version: Mainspring(version=2) or MAINSPRING_VERSION=2",
            group,
            pattern,
        )


class QueueRuntime:
    """The shared state of an app's queues."""

    def __init__(
        self,
        connection: Connection,
        transactions: Transactions,
        consumers: Consumers,
        catalogue: Catalogue,
        options: Options,
        clock: Clock,
        workers: Sequence[Worker],
        meters: Meters,
    ) -> None:
        self.transactions: Transactions = transactions
        self.queues: QueueRegistry = consumers.queues
        self.return_on_cancel: ReturnOnCancel = ReturnOnCancel(connection)
        self.heartbeat: QueueHeartbeat = QueueHeartbeat(options.name, meters.new_meter())
        self.clock: Clock = clock
        self._connection = connection
        self._consumers = consumers
        self._catalogue = catalogue
        self._options = options
        self._workers = workers
        self._opened: OpenQueues | None = None
        # Not a bound method: a connection outlives the app while the database closes, and must not hold it.
        connection.before_close.append(self.heartbeat.leave)

    def register(self, group: str, topics: tuple[Any, ...], type: Any, options: QueueOptions) -> QueueSettings:
        """Return the settings of ``app.queue(group, *topics, …)``; raises BadOption or Conflict."""
        settings = QueueSettings(group, topics, self._catalogue, self._options, type, options)
        owner = next((each for each in self._consumers if each.group == settings.group), None)
        if owner is not None:
            raise Conflict(
                f"group {settings.group!r} belongs to the consumer {owner.name}: give the queue another name, since "
                "each would get half of its messages"
            )
        self.queues.take(settings)
        if settings.pending_limit is not None:
            self._consumers.backlogs.note(settings.group, settings.topics, settings.pending_limit)
        return settings

    @property
    def in_test(self) -> bool:
        """Whether a test replaces the database: then nothing sleeps."""
        return self._connection.stand_in is not None

    async def opened(self, call: str) -> OpenQueues:
        """Return the open database; raises NotOpen naming ``call``."""
        storage = await self._connection.storage(call)
        if self._opened is None or not self._opened.is_current(storage):
            self._opened = OpenQueues(storage, self.heartbeat, self._options.idle_poll, self.clock)
        return self._opened

    def settled(self, group: str, *, members: bool) -> None:
        """Wake waiters after a settle: the group, or what follows ``members``, may be due."""
        if self._opened is not None and not self.in_test:
            self._opened.waiter.rung(group)
        if members:
            for worker in self._workers:
                worker.reschedule()


EVER = timedelta(days=36_500)
"""How long a delivery may be overdue: longer than any is."""
_FIRST_POLL = 0.25
_BLIND_POLL = 0.5
"""The longest poll while the doorbell is unproven."""
_REARM = 20.0
_SPACING = 0.002


class QueueWaiter:
    """The doorbell of all queues on one connection: wakes each waiter for its own group."""

    def __init__(self, storage: Storage, longest_poll: timedelta, clock: Clock) -> None:
        self._storage = storage
        self._longest_poll = longest_poll.total_seconds()
        self._clock = clock
        self._listening = False
        self._bells: dict[str, set[asyncio.Event]] = {}
        self._armed: dict[str, float] = {}

    async def upcoming(self, group: str) -> timedelta | None:
        """Return the time until a delivery of the group is due, zero or less if one is; None: there is none."""
        return await self._storage.mailbox.upcoming([group], EVER)

    async def wait(self, group: str, seconds: float, hold_off: float) -> bool:
        """Wait, at most ``seconds``. True: something may be due. Ignores due deliveries for ``hold_off``."""
        if not self._listening:
            self._listening = True
            self._storage.doorbell.listen(self.rung)
        bell = asyncio.Event()
        self._bells.setdefault(group, set()).add(bell)
        try:
            return await self._wait(group, bell, seconds, hold_off)
        finally:
            self._bells[group].discard(bell)
            if not self._bells[group]:
                await self._disarm(group)

    def rung(self, group: str) -> None:
        """Wake the waiters of this group, or all (the empty string)."""
        for each, bells in self._bells.items():
            if group in ("", each):
                for bell in bells:
                    bell.set()

    async def _wait(self, group: str, bell: asyncio.Event, seconds: float, hold_off: float) -> bool:
        began = self._clock.monotonic()
        poll = _FIRST_POLL
        if hold_off:
            await asyncio.sleep(min(hold_off, seconds))
        while True:
            bell.clear()
            await self._arm(group)
            # After arming, not before: a commit in between would wake no waiter.
            upcoming = await self.upcoming(group)
            if upcoming is not None and upcoming <= timedelta():
                return True
            left = began + seconds - self._clock.monotonic()
            if left <= 0:
                return False
            longest = self._longest_poll
            if self._storage.doorbell.mode == "poll":
                longest = min(longest, _BLIND_POLL)
            pause = min(poll, longest, left)
            if upcoming is not None:
                pause = min(pause, max(_SPACING, upcoming.total_seconds()))
            poll = min(poll * 2, longest)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await bell.wait()

    async def _arm(self, group: str) -> None:
        now = self._clock.monotonic()
        # Only a proven doorbell is armed: proving it wakes every waiter, which then returns here.
        if self._storage.doorbell.mode != "poll" and now - self._armed.get(group, -_REARM) >= _REARM:
            await self._storage.doorbell.arm([group])
            self._armed[group] = now

    async def _disarm(self, group: str) -> None:
        if self._armed.pop(group, None) is not None:
            # Otherwise publishers ring needlessly for a short time.
            with contextlib.suppress(StorageError):
                await self._storage.doorbell.disarm([group])


class QueueHeartbeat:
    """The row of an app's queues on the roster, with their counts.

    It marks their groups as served, and counts their runs. Nothing else depends on it: a failed report is repeated with
    the next one.
    """

    def __init__(self, app: str, meter: Meter) -> None:
        self.left: int = 0
        """How often the connection was closed."""
        self.drains: bool = False
        """Whether an operator drains this process."""
        self._app = app
        self._groups: set[str] = set()
        self._meter = meter
        self._unsent: list[Beat] = []
        self._number = 0
        self._reporting: asyncio.Event | None = None
        self._again = False
        self._held: weakref.WeakSet[Item[Any]] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._start_id = ""
        self._owner = ("", 0)

    @property
    def owner(self) -> str:
        """The holder name of claims, unique to this process."""
        name, pid = self._owner
        if pid != os.getpid():
            from mainspring.runtime.settings import owner_name

            self._start_id = secrets.token_hex(TOKEN_BYTES)
            self._owner = name, _ = owner_name(), os.getpid()
            # The parent sends the reports made before a fork.
            self._unsent, self._reporting = [], None
        return name

    def holder(self, name: str | None) -> str:
        """Return the holder of claims in the database, for this name or ours."""
        own = self.owner  # after a fork, a new one
        return holder(own if name is None else name, self._start_id)

    def serves(self, group: str) -> None:
        """Mark the group as in use."""
        self._groups.add(group)
        self._meter.serves([group])

    def took(self, items: Sequence[Item[Any]]) -> None:
        """Add claimed items."""
        self._held.update(items)

    def settled(self, group: str, items: Sequence[Item[Any]], settlements: Sequence[Settlement]) -> None:
        """Remove settled items, count their verdicts."""
        waits = {item.claim: held(item).waited for item in items}
        with self._lock:
            for each in settlements:
                wait = waits.get(each.claim)
                self._meter.count(group, each.verdict, wait, None if wait is None else each.took.total_seconds())
        self._held.difference_update(items)

    @property
    def has_news(self) -> bool:
        """Whether there are unreported counts."""
        return self._meter.has_news

    async def report(self, storage: Storage) -> bool:
        """Send a report. False: the database is down."""
        _ = self.owner  # after a fork no report is under way here
        if self._reporting is not None:
            self._again = True  # beats arrive in order: the running report also sends this one
            return True
        self._reporting = ended = asyncio.Event()
        try:
            await self._send(storage)
        except StorageError as error:
            self._unsent = [each for each in self._unsent if each.runs or each.measures]
            _logger.debug("failed to report queues: %s", error)
            return False
        finally:
            self._reporting = None
            ended.set()
        return True

    async def _send(self, storage: Storage) -> None:
        # Making the beat takes the counts out of the meter: a failed one is sent again unchanged.
        self._again = True
        while self._again:
            self._again = False
            self._unsent.append(self._beat(storage.doorbell.mode))
            while self._unsent:
                drain = (await storage.upkeep.beat(self._unsent[0])).drain
                del self._unsent[0]
                if drain != self.drains:
                    self.drains, self._again = drain, True  # shows operators that it took effect

    async def leave(self, storage: Storage) -> None:
        """Report the last counts, and leave the roster."""
        self.left += 1
        if not self._groups or self._owner[1] != os.getpid():
            return
        if self._reporting is not None:
            await self._reporting.wait()
        reported = await self.report(storage)
        self._groups.clear()
        self.drains = False  # a reopened app starts fresh
        if not reported:
            return
        try:
            await storage.upkeep.deregister(roster_name(self._app, self.owner))
        except StorageError as error:
            _logger.debug("failed to deregister queues: %s", error)

    def _beat(self, bell: str) -> Beat:
        with self._lock:
            runs, measures = self._meter.take()
            self._number += 1
            number = self._number
        where = (roster_name(self._app, self.owner), self._app, socket.gethostname(), os.getpid())
        seen = (tuple(sorted(self._groups)), len(self._held), bell)
        return Beat(*where, *seen, runs, (), measures, self._start_id, number, self.drains)
