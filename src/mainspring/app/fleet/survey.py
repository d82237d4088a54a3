"""What is in every database of a fleet, read in turns: within bounds, and once for all that ask."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from mainspring.app.fleet.member import Member
from mainspring.app.fleet.report import AT_ONCE, of_member
from mainspring.app.observe.checks import failed
from mainspring.app.observe.metrics import CAP, read_database, statuses
from mainspring.model.errors import MainspringError, NotOpen, StorageError
from mainspring.model.health import Health, HealthLimits, health_of
from mainspring.model.measures import RatesView, by_group
from mainspring.model.text import described
from mainspring.model.views import Tally
from mainspring.telemetry.metrics import DATABASE_HEALTH, Family

if TYPE_CHECKING:
    from mainspring.app.fleet.fleet import Fleet
    from mainspring.storage.contract import Storage

_logger = logging.getLogger("mainspring.fleet")
_PACE = 0.04
"""Seconds between the begins of two readings, so that those of all databases take a part of a core."""
_RETRIES = 2
"""How many of those that could not be read are tried again at a time, besides the others."""
_HANGS_AFTER = 0.5
"""Seconds after which a reading no longer keeps others waiting."""
_DEADLINE = 5.0
"""Seconds that a reading may take."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a database that could not be read is tried again: first, and at most."""
LASTS = 150.0
"""Seconds for which it goes on after it was last asked, unless the caller says otherwise: scrapes may be rare."""
_SHOWN_FOR = 5.0
_KEPT_OPEN = 16
"""How many databases a fleet may have so that they stay open between readings."""
_WINDOW = timedelta(minutes=1)
_CALL = "the survey of the fleet"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one database held when it was read last; what could not be read is as it was before."""

    health: Health
    tally: Tally | None = None
    rates: RatesView | None = None
    families: tuple[Family, ...] = ()
    """Its metrics, if they were asked for."""
    read_at: datetime | None = None
    """When it was last read, by the clock of this process."""
    error: str | None = None
    """Why it could not be read since."""


@dataclass(slots=True)
class _Entry:
    """The readings of one member."""

    member: Member
    reading: Reading | None = None
    tried_at: float = float("-inf")
    read_at: float = float("-inf")
    failures: int = 0
    is_read: bool = False
    """Whether it is being read now."""

    def is_due(self, age: float, now: float) -> bool:
        """Return whether it is to be read again, so that it is not older."""
        pause = age if not self.failures else min(_FIRST_PAUSE * 2.0 ** (self.failures - 1), _LONGEST_PAUSE)
        return not self.is_read and now - self.tried_at >= pause


class Survey:
    """Reads all databases while it is asked for: at most eight at a time and 25 a second, the oldest reading first.

    A database that hangs gives up its place after half a second, and one that failed waits apart, for longer each time:
    it delays no other. A file that does not exist is not created. Of a fleet with many databases none stays open.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.limits: HealthLimits | None = None
        """The thresholds of health [those of the app that leads the fleet]."""
        self._entries: dict[str, _Entry] = {}
        self._ages: dict[float, float] = {}
        """Until when an age is asked for."""
        self._metered_until = float("-inf")
        """Until when metrics are asked for."""
        self._shown: Collection[str] = ()
        self._shown_at = float("-inf")
        self._turn = 0
        self._free, self._retries = AT_ONCE, _RETRIES
        self._under_way: set[asyncio.Task[None]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    def ask(self, age: float, call: str, *, lasts: float = LASTS, metered: bool = False) -> None:
        """Keep readings at most so old, as far as the bounds allow, for so many seconds from now. Raises NotOpen."""
        if not self._fleet._inside:  # noqa: SLF001 - a part of the fleet
            raise NotOpen(call, "the fleet is not open: write `async with fleet:` around it")
        until = time.monotonic() + lasts
        self._ages[age] = max(until, self._ages.get(age, until))
        if metered:
            self._metered_until = until
        self._follow()
        self._changed.set()
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._keep_reading(), name="mainspring-fleet-survey")

    def show(self, names: Collection[str]) -> None:
        """Read these, which are looked at, twice as often as the others share."""
        self._shown, self._shown_at = frozenset(names), time.monotonic()

    def read(self) -> dict[str, Reading | None]:
        """Return what was read of each database; None: not read yet. Thread-safe."""
        entries = self._entries
        return {name: entries[name].reading if name in entries else None for name in self._members}

    async def caught_up(self, patience: float) -> None:
        """Wait until every database was tried once, or for so many seconds."""
        until = time.monotonic() + patience
        while (left := until - time.monotonic()) > 0 and any(each.tried_at < 0 for each in self._entries.values()):
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return

    def age(self, name: str) -> float | None:
        """Return how many seconds ago it was read; None: never."""
        entry = self._entries.get(name)
        return None if entry is None or entry.reading is None or entry.read_at < 0 else time.monotonic() - entry.read_at

    async def aclose(self) -> None:
        """End what is read now, and forget what was."""
        tasks = [*self._under_way, *([] if self._reading is None else [self._reading])]
        self._reading = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._entries.clear()

    # --- reading -------------------------------------------------------------------------------------------

    @property
    def _members(self) -> Mapping[str, Member]:
        return self._fleet._members  # noqa: SLF001 - a part of the fleet

    def _follow(self) -> None:
        """Keep an entry for each member, and none for others."""
        members = self._members
        before = self._entries
        if [*members] != [*before] or any(each.member is not members[name] for name, each in before.items()):
            self._entries = {
                name: known if (known := before.get(name)) is not None and known.member is member else _Entry(member)
                for name, member in members.items()
            }

    async def _keep_reading(self) -> None:
        while (age := self._age()) is not None:
            self._follow()
            entry = self._next(age, time.monotonic())
            if entry is None:
                # What is due next may be due in a moment; a change of what is asked or of what is free wakes it.
                self._changed.clear()
                try:
                    async with asyncio.timeout(_PACE * 5):
                        await self._changed.wait()
                except TimeoutError:
                    continue
                continue
            entry.is_read = True
            task = asyncio.create_task(self._read_one(entry), name=f"mainspring-fleet-read {entry.member.name}")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
            await asyncio.sleep(_PACE)

    def _age(self) -> float | None:
        """Return the least age that is asked for; None: none is any more."""
        now = time.monotonic()
        self._ages = {age: until for age, until in self._ages.items() if now < until}
        return min(self._ages, default=None)

    def _next(self, age: float, now: float) -> _Entry | None:
        """Return the one to read next: in turns among those that are looked at, and among all."""
        free, retries = self._free > 0, self._retries > 0
        due = [
            each for each in self._entries.values() if (retries if each.failures else free) and each.is_due(age, now)
        ]
        self._turn += 1
        if self._turn % 2 and now - self._shown_at < _SHOWN_FOR:
            due = [each for each in due if each.member.name in self._shown] or due
        return min(due, key=lambda each: each.tried_at, default=None)

    async def _read_one(self, entry: _Entry) -> None:
        again = entry.failures > 0
        place = _Place(partial(self._give_back, again=again))
        self._retries, self._free = self._retries - again, self._free - (not again)
        hanging = asyncio.get_running_loop().call_later(_HANGS_AFTER, place.give_back)
        try:
            entry.reading = await self._reading_of(entry)
            entry.failures = 0
            entry.read_at = time.monotonic()
        except (MainspringError, OSError, TimeoutError) as error:
            self._note(entry, error)
        except Exception as error:
            _logger.exception("%s: failed to read the database", entry.member.name)
            self._note(entry, error)
        finally:
            hanging.cancel()
            place.give_back()
            entry.is_read = False
            entry.tried_at = time.monotonic()
            self._changed.set()

    def _give_back(self, *, again: bool) -> None:
        self._retries, self._free = self._retries + again, self._free + (not again)

    @staticmethod
    def _note(entry: _Entry, error: Exception) -> None:
        why = f"no answer within {_DEADLINE:g} s" if isinstance(error, TimeoutError) else described(error)
        before = entry.reading or Reading(health_of(()))
        # The health of a database that cannot be read is that it cannot be; what it held is shown with its age.
        cause = StorageError(why) if isinstance(error, TimeoutError) else error
        entry.reading = replace(before, health=health_of([failed(cause)]), error=why, families=())
        entry.failures += 1

    async def _reading_of(self, entry: _Entry) -> Reading:
        member = entry.member
        if member.address.missing:
            raise StorageError(f"there is no file {member.address.target}")  # opening it would create one
        connection = member.connection
        was_kept = connection.is_kept
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(asyncio.timeout(_DEADLINE))
            if stays := len(self._entries) <= min(_KEPT_OPEN, self._fleet._most_kept):  # noqa: SLF001
                await connection.opening(_CALL)
            elif not connection.admits:
                raise NotOpen(_CALL)
            await stack.enter_async_context(connection)
            reading = await self._content((await connection.held(_CALL)).storage, member)
        if not was_kept and not stays:
            await member.hang_up()
        return reading

    async def _content(self, storage: Storage, member: Member) -> Reading:
        metered = time.monotonic() < self._metered_until
        limits = self.limits or self._fleet._app._own.place.custom_checks.limits  # noqa: SLF001
        health = of_member(health_of(await member.place.front.examiner.of_database(storage, limits)))
        tally = await storage.ledger.tally(CAP)
        rates = by_group(await storage.measures.rates(_WINDOW), _WINDOW)
        families = [*await read_database(storage, tally), statuses(DATABASE_HEALTH, health.checks)] if metered else []
        return Reading(health, tally, rates, tuple(families), datetime.now(UTC))


def survey_of(fleet: Fleet) -> Survey:
    """Return the survey of a fleet."""
    return fleet._survey  # noqa: SLF001 - a part of the fleet


class _Place:
    """A place that is given back once."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back

    def give_back(self) -> None:
        """Give it back, unless it was."""
        back, self._give_back = self._give_back, None
        if back is not None:
            back()
