"""One worker over the databases of a fleet: it looks at each, and starts an ordinary worker where something is due."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from mainspring.app.fleet.databases import Chosen, is_chosen
from mainspring.app.fleet.member import Member
from mainspring.app.fleet.options import WorkerOptions
from mainspring.app.fleet.share import Share
from mainspring.app.fleet.turns import Turns
from mainspring.model.errors import DatabaseMoved, MainspringError, StorageUnavailable
from mainspring.model.retention import CHORES
from mainspring.model.text import described

if TYPE_CHECKING:
    from mainspring.runtime.worker import Worker
    from mainspring.storage.contract import Storage

_logger = logging.getLogger("mainspring.fleet")
_DEADLINE = 10.0
"""Seconds that a look may take."""
_FIRST_PAUSE = 1.0
_LONGEST_OUTAGE = 60.0
_GLANCE = 0.1
"""Seconds between two checks whether an open worker has work."""
_BRIEF = 0.02
"""The same while others wait for its place."""
_SLICE = 2.0
"""Seconds after which a busy worker makes room, if others wait, for each unit of the weight of its database."""
_PING_AFTER = 5.0
"""Seconds without progress after which an open worker's database is asked whether it is there."""
_TEND_EVERY = 1200.0
"""Seconds between two rounds of housekeeping in a database without work."""
_TENDED_WITHIN = 5.0
"""Seconds that a round of housekeeping takes at most, but for its last batch; the next one continues."""
_BATCH = 1_000


class Attendance:
    """The turns at one database: looks, a worker while there is work, and pauses, until it leaves."""

    def __init__(self, member: Member, options: WorkerOptions, turns: Turns) -> None:
        self.member: Member = member
        self.trouble: str | None = None
        """Why the last look failed."""
        self._options = options
        self._turns = turns
        self._woken = asyncio.Event()
        self._leaving = False
        self._running: Worker | None = None
        self._failures = 0
        self._tended_at: float | None = None
        self._loop = asyncio.get_running_loop()
        self._hurrying: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] = member.start(self._attend(), f"mainspring-fleet {member.name}")

    @property
    def is_running(self) -> bool:
        """Whether a worker runs there now."""
        return self._running is not None

    def wake_from_any_thread(self) -> None:
        """Look soon."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    def hurry(self) -> None:
        """End what runs there without waiting for handlers, if it ends already."""
        if self._leaving and self._running is not None:
            self._hurrying = asyncio.ensure_future(self._running.stop_now())

    def leave(self) -> None:
        """Claim no more, and end once what is in hand is finished."""
        self._leaving = True
        self._woken.set()
        if self._running is not None:
            self._running.drain()

    async def stop(self, *, now: bool) -> None:
        """End as a worker ends: what runs has the grace to finish, or none."""
        self._leaving = True
        if self._running is None:
            self.task.cancel()  # a database that does not respond is not waited for
        else:
            await (self._running.stop_now() if now else self._running.stop())
        await asyncio.wait([self.task])

    async def _attend(self) -> None:
        pause = random.uniform(0.0, min(_FIRST_PAUSE, self._longest))
        step = _FIRST_PAUSE
        while not self._is_leaving():
            if await self._sleep(pause):
                step = _FIRST_PAUSE
            if self._is_leaving():
                return
            try:
                until = await self._look()
                worked = until is not None and until <= 0 and await self._take_turn()
            except (MainspringError, OSError, TimeoutError) as error:
                pause = self._failed(error)
                continue
            except Exception as error:
                _logger.exception("%s: its turn failed", self.member.name)
                pause = self._failed(error)
                continue
            self._recovered()
            step = _FIRST_PAUSE if worked else min(step * 2, self._longest)
            # What is due and could not be claimed, as under an order, is not looked at all the time.
            soon = step if until is None or until <= 0 else min(step, until)
            pause = 0.0 if worked else soon * random.uniform(0.8, 1.0)

    def _is_leaving(self) -> bool:
        return self._leaving

    @property
    def _longest(self) -> float:
        return self._options.longest_pause.total_seconds()

    async def _sleep(self, pause: float) -> bool:
        """Wait, and return whether it was woken."""
        try:
            async with asyncio.timeout(pause):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    async def _look(self) -> float | None:
        """Return the seconds until there is something to do; None if nothing is."""
        async with self._turns.look(again=self._failures > 0):
            connection = self.member.connection
            was_kept = connection.is_kept
            async with asyncio.timeout(_DEADLINE), connection:
                storage = (await connection.held("fleet.worker()")).storage
                if self._tended_at is None or time.monotonic() - self._tended_at >= _TEND_EVERY:
                    await self._tend(storage)
                place = self.member.place
                served = (*self._options.served, *(each.group for each in place.own))
                until = await storage.upkeep.outlook(place.code.options.name, served)
                is_due = until is not None and until <= timedelta()
                if is_due and (fence := await storage.moves.fence()) is not None:
                    raise DatabaseMoved(fence.name, fence.target, is_over=fence.is_over)
                is_next = is_due and self._turns.is_free
                if is_next:
                    await connection.keep()  # its turn begins with this connection
            if not was_kept and not is_next:
                await self.member.hang_up()
        return None if until is None else until.total_seconds()

    async def _tend(self, storage: Storage) -> None:
        """Do what a worker does besides its messages: check the schema, declare, route what is parked, prune."""
        await storage.schema.check()
        await self.member.app.declare()
        until = time.monotonic() + _TENDED_WITHIN
        after: str | None = None
        while time.monotonic() < until:
            rerouted = await storage.upkeep.reroute(_BATCH, after)
            after = rerouted.last
            if after is None and rerouted.routed < _BATCH:
                break
        retention = self.member.place.code.options.retention
        for chore in CHORES if self._tended_at is not None else ():
            found = _BATCH
            while found >= _BATCH and time.monotonic() < until:
                found = (await storage.upkeep.prune(retention, _BATCH, chore=chore)).total
        self._tended_at = time.monotonic()

    async def _take_turn(self) -> bool:
        """Run a worker there, when it is its turn, until it has nothing to do. Return whether it did something."""
        async with self._turns.turn(self.member.name) as turn:
            if self._is_leaving():
                return False
            options = self._options
            worker = self.member.app.worker(groups=options.groups, concurrency=options.concurrency)
            self.member.place.is_tended = True
            try:
                async with worker as self._running:
                    try:
                        worked = await self._serve(self._running)
                    except (MainspringError, TimeoutError):
                        turn.end()  # its end may take as long as its grace, and the others need not wait
                        raise
            finally:
                self._running = None
                self.member.place.is_tended = False
            await self.member.hang_up()  # within the turn, so that the connections of all are bounded
            return worked

    async def _serve(self, running: Worker) -> bool:
        """Wait until the worker is to end, and let it finish what it has in hand."""
        self._check_runs(running)
        begun = active_at = pinged_at = time.monotonic()
        first = seen = self._settled()
        is_over = False
        while not is_over or (running.in_hand and running.ready):
            await asyncio.sleep(_BRIEF if self._turns.is_crowded else _GLANCE)
            self._check_runs(running)
            now, counted = time.monotonic(), self._settled()
            if counted != seen:
                pinged_at = now  # the database responds
            if counted != seen or running.in_hand:
                seen, active_at = counted, now
            if now - pinged_at >= _PING_AFTER:
                pinged_at = now
                await self._ping()
            if not is_over and (self._is_leaving() or self._is_over(running, now - begun, now - active_at)):
                is_over = True
                running.drain()
        return self._settled() != first

    def _check_runs(self, running: Worker) -> None:
        """Raise StorageUnavailable if the worker has ended by itself."""
        if not running.ready and not self._is_leaving():
            raise StorageUnavailable("its worker could not start, or has ended by itself: the log says why")

    def _is_over(self, running: Worker, served: float, idled: float) -> bool:
        """Return whether a worker makes room that has served and idled for so many seconds."""
        if not self._turns.is_crowded:
            return idled >= self._options.idle.total_seconds()
        is_used_up = self._options.order == "round-robin" and served >= _SLICE * self.member.database.weight
        return running.is_idle or is_used_up

    async def _ping(self) -> None:
        async with asyncio.timeout(_DEADLINE):
            await (await self.member.connection.held("fleet.worker()")).storage.ping()

    def _settled(self) -> int:
        counted = self.member.place.metrics.meters.groups().values()
        return sum(sum(each.statuses.values()) for each in counted)

    def _failed(self, error: Exception) -> float:
        why = f"no answer within {_DEADLINE:g} s" if isinstance(error, TimeoutError) else described(error)
        if not self._failures:
            _logger.warning("%s: waits until its database can be used, the others go on: %s", self.member.name, why)
        self.trouble = why
        self._failures += 1
        return min(_FIRST_PAUSE * 2.0 ** (self._failures - 1), _LONGEST_OUTAGE) * random.uniform(0.5, 1.0)

    def _recovered(self) -> None:
        if self._failures:
            _logger.info("%s: its database can be used again", self.member.name)
        self._failures, self.trouble = 0, None


class Attendances:
    """The databases that a fleet's worker attends to: those that are chosen, as far as they are in its share."""

    def __init__(
        self,
        options: WorkerOptions,
        chosen: Chosen,
        members: Callable[[], Iterable[Member]],
        share: Share | None,
    ) -> None:
        self._options = options
        self._members = members
        self._chosen = chosen
        self._share = share
        self._turns = Turns(options.most_open)
        self._by_member: dict[Member, Attendance] = {}
        self._leaving: set[Attendance] = set()
        self._is_ending = False
        if share is not None:
            share.on_change = self.follow

    def __iter__(self) -> Iterator[Attendance]:
        """Iterate over them, and over those that finish what they have in hand."""
        return iter((*self._by_member.values(), *self._leaving))

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return self._turns.waiting

    @property
    def names(self) -> tuple[str, ...]:
        """The databases that are attended to, but for those that only finish."""
        return tuple(each.name for each in self._members() if each in self._by_member and not self._is_ending)

    def follow(self) -> None:
        """Attend to the members that are to be served, and leave those that are not."""
        for member in () if self._is_ending else self._members():
            is_served = is_chosen(member.name, self._chosen) and (self._share is None or self._share.has(member.name))
            if is_served and member not in self._by_member:
                self._attend(member)
            elif not is_served and member in self._by_member:
                self._leave(member)

    def _attend(self, member: Member) -> None:
        self._by_member[member] = attendance = Attendance(member, self._options, self._turns)
        member.place.listeners.append(attendance.wake_from_any_thread)
        attendance.task.add_done_callback(lambda _: self._ended(attendance))

    def _leave(self, member: Member) -> None:
        # If it comes back while this one finishes, another attends to it: a long handler keeps nothing waiting.
        attendance = self._by_member.pop(member)
        self._leaving.add(attendance)
        attendance.leave()

    def _ended(self, attendance: Attendance) -> None:
        self._leaving.discard(attendance)
        attendance.member.place.listeners.remove(attendance.wake_from_any_thread)

    async def let_go(self, member: Member) -> None:
        """Finish what is in hand there, and serve it no more."""
        if member in self._by_member:
            self._leave(member)
        if tasks := [each.task for each in self._leaving if each.member is member]:
            await asyncio.wait(tasks)

    async def end(self, *, now: bool) -> None:
        """End all, as a worker ends, and give up the share at once."""
        self._is_ending = True
        ends = [each.stop(now=now) for each in self]
        await asyncio.gather(*ends, *([] if self._share is None else [self._share.end()]))


class FleetWorker:
    """The worker of a fleet in this process.

    At most ``most_open`` databases have an ordinary worker at a time, in the order in which they asked for one; a busy
    one makes room for others that wait. A database that cannot be used delays no other.
    """

    def __init__(self, attendances: Attendances) -> None:
        self._attendances = attendances
        self._finished = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether it attends to its databases."""
        return self._stopping is None

    @property
    def databases(self) -> tuple[str, ...]:
        """The databases that it serves now: those that were chosen, and of these its share."""
        return self._attendances.names

    @property
    def open(self) -> tuple[str, ...]:
        """The databases on which a worker runs now."""
        return tuple(each.member.name for each in self._attendances if each.is_running)

    @property
    def troubles(self) -> dict[str, str]:
        """The databases that cannot be used now, and why."""
        return {each.member.name: each.trouble for each in self._attendances if each.trouble is not None}

    async def stop(self) -> None:
        """Stop everywhere: stop claiming, let what runs finish within the grace."""
        await self._stop(now=False)

    async def stop_now(self) -> None:
        """Stop without waiting for handlers."""
        for each in self._attendances:
            each.hurry()
        await self._stop(now=True)

    async def finished(self) -> None:
        """Wait until it has ended."""
        await self._finished.wait()

    async def _stop(self, *, now: bool) -> None:
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._end(now=now), name="mainspring-fleet-stop")
        await asyncio.shield(self._stopping)

    async def _end(self, *, now: bool) -> None:
        try:
            await self._attendances.end(now=now)
        finally:
            self._finished.set()
