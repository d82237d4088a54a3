"""``app.fanouts``: the progress of every shard, and edits at run time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Final
from uuid import uuid4

from mainspring.app.blocking import Face, Renamed, blocking
from mainspring.app.connection import Connection
from mainspring.app.consume.context import Context, Publishing
from mainspring.app.fanout.coordinator import CHUNK, Coordinator, PlannedWindow
from mainspring.app.fanout.declaration import FanoutCode, FanoutDeclaration, PlanRequest, schedule_name
from mainspring.app.lease.leases import Wait
from mainspring.app.message.envelope import instant
from mainspring.app.names import check_name
from mainspring.app.options import flag, length, unknown
from mainspring.app.page import Name, Page, Paging, listing
from mainspring.model.errors import BadOption
from mainspring.model.fanout import (
    EVERYTHING,
    CursorTally,
    CursorView,
    FanoutPolicy,
    FanoutPolicyView,
    SeekResult,
    subject,
    summed,
)
from mainspring.model.message import MANUAL_HEADER, Delivery, Draft, unstored
from mainspring.model.schedule import Note
from mainspring.runtime.handler import Handler, Run
from mainspring.storage.contract import Storage
from mainspring.timing.backoff import NO_RETRY
from mainspring.timing.duration import Duration, spell

if TYPE_CHECKING:
    from mainspring.app.schedule.schedules import Schedules
    from mainspring.app.schedule.view import ScheduleView

_CURSORS: Paging[CursorView, str] = Paging("app.fanouts.cursors()", lambda each: each.shard, Name)
_POLICIES: Paging[FanoutPolicyView, str] = Paging("app.fanouts.policies()", lambda each: each.shard or EVERYTHING, Name)


@dataclass(frozen=True, slots=True)
class FanoutView:
    """A work of a fan-out: its timing, its policy, and the progress of its shards."""

    topic: str
    work: str | None
    """None: all that its planner yields."""
    schedule: str
    """The name of the coordinator's schedule, for ``app.schedules``."""
    rhythm: str | None
    """None: no code declares it any more."""
    paused: bool
    next_window: datetime | None
    enabled: bool
    every: timedelta | None
    """The least time between two windows of a shard; None: every window."""
    jitter: timedelta | None
    """None: only code knows it, and none is here."""
    coordinator: str | None
    """The process that plans it now."""
    shards: int = 0
    last_window: datetime | None = None
    """The latest planned window."""
    completed: int = 0
    """Shards that have completed it."""
    behind: int = 0
    """Shards whose own latest window is not completed: their slices are unfinished, or have failed."""
    oldest: datetime | None = None
    """The earliest window of any shard."""


# Defined here: inside the classes ``list`` is a method.
Views = list[FanoutView]
Cursors = Page[CursorView]
Policies = Page[FanoutPolicyView]
Names = list[str]


class Fanouts(Renamed):
    """The fan-outs of this namespace. Every change is audited with ``by``."""

    _former: ClassVar[Mapping[str, str]] = {"show": "get(topic, work), which returns None when there is none"}

    def __init__(
        self,
        connection: Connection,
        code: FanoutCode,
        schedules: Schedules,
        coordinator: Coordinator,
        publisher: Publishing,
    ) -> None:
        self._connection = connection
        self._code = code
        self._schedules = schedules
        self._coordinator = coordinator
        self._publisher = publisher

    # --- reading -------------------------------------------------------------------------------------------

    async def list(self) -> Views:
        """Return every work of every fan-out, in order."""
        storage = await self._connection.storage("app.fanouts.list()")
        views = [each for each in await self._schedules.list() if each.name.startswith("plan:")]
        schedules = {each.name: each for each in views if each.group == each.name}
        tallies = await storage.fanouts.tally()
        found: dict[tuple[str, str | None], CursorTally | None] = {(each.topic, each.work): each for each in tallies}
        counted = {topic for topic, _ in found}
        named = [name.removeprefix("plan:").partition(":")[::2] for name in schedules]
        for topic, work in (*named, *((each.topic, each.work) for each in self._code)):
            if work or topic not in counted:
                found.setdefault((topic, work or None), None)
        keys = sorted(found, key=lambda key: (key[0], key[1] or ""))
        return [await self._view(topic, work, found[topic, work], schedules) for topic, work in keys]

    async def get(self, topic: str, work: str | None = None) -> FanoutView | None:
        """Return one work of a fan-out, or all works of a planner; None if there is none."""
        storage = await self._connection.storage("app.fanouts.get()")
        tallies = await storage.fanouts.tally(topic, work)
        names = {schedule_name(topic, work), schedule_name(topic, None)}
        schedules = {name: view for name in names if (view := await self._schedules.get(name)) is not None}
        if not ((work and tallies) or schedule_name(topic, work) in schedules or self._code.get(topic, work)):
            return None
        return await self._view(topic, work, summed(tallies), schedules)

    @listing
    async def cursors(
        self, topic: str, work: str, *, behind: bool = False, cursor: str | None = None, limit: int = 50
    ) -> Cursors:
        """Return each shard's progress, by shard; with ``behind`` those whose latest window is incomplete."""
        after = _CURSORS.start(cursor, limit)
        storage = await self._connection.storage("app.fanouts.cursors()")
        found = await storage.fanouts.cursors(topic, work, after, limit + 1, behind=flag(behind, "behind"))
        return _CURSORS.page(found, limit)

    @listing
    async def policies(self, topic: str, work: str, *, cursor: str | None = None, limit: int = 50) -> Policies:
        """Return what is set at run time: first for the work, then by shard."""
        after = _POLICIES.start(cursor, limit)
        storage = await self._connection.storage("app.fanouts.policies()")
        return _POLICIES.page(await storage.fanouts.policies(topic, work, after, limit + 1), limit)

    # --- changing ------------------------------------------------------------------------------------------

    async def edit(
        self,
        topic: str,
        work: str,
        shard: str | None = None,
        *,
        every: Duration | None = None,
        jitter: Duration | None = None,
        enabled: bool | None = None,
        by: str = "app",
    ) -> FanoutPolicy:
        """Set how a shard, or every shard of the work, is planned from the next window on; the rest is unchanged.

        A shard's own policy overrides its work's, and that the code's. ``every`` is the least time between two of its
        windows, "0s" for every window. Returns the resulting policy.
        """
        policy = FanoutPolicy(
            None if enabled is None else flag(enabled, "enabled"),
            None if every is None else length(every, "every"),
            None if jitter is None else length(jitter, "jitter"),
        )
        detail = _described(policy)
        if not detail:
            raise BadOption("edit(…) has nothing to set: give every=, jitter= or enabled=")
        if await self.get(topic, work) is None:
            raise no_fanout(topic, work, await self.list())
        storage = await self._connection.storage("app.fanouts.edit()")
        note = Note(by, "fanout edit", detail)
        return await storage.fanouts.edit(topic, work, _shard(shard), policy, note)

    async def seek(
        self,
        topic: str,
        work: str,
        shard: str | None = None,
        *,
        to: datetime | None,
        reason: str = "",
        by: str = "app",
    ) -> SeekResult:
        """Move the cursor of a shard, or of every shard of the work, to a window, back or ahead; None is the start.

        The next window then covers the time from there. A shard whose slice is unfinished stays where it is, and is
        counted: cancel the slice first. The audit log records it with ``by``.
        """
        window = None if to is None else instant(to, "to")
        storage = await self._connection.storage("app.fanouts.seek()")
        detail = "to the start" if window is None else f"to {window.isoformat()}"
        note = Note(by, "fanout seek", f"{detail}: {reason}" if reason else detail)
        about, consumer = subject(topic, work, shard), self._code.consumers(topic).get(work)
        total = SeekResult()
        async for shards in _pages(storage, topic, work, shard):
            noted = None if total.moved else note  # once, with the first that moves
            total += await storage.fanouts.seek(topic, work, shards, window, consumer, noted, about)
        if total == SeekResult() and await self.get(topic, work) is None:
            raise no_fanout(topic, work, await self.list())
        return total

    async def reset(self, topic: str, work: str, shard: str | None = None, *, by: str = "app") -> bool:
        """Remove the ``edit`` of the shard, or of the whole work. False: there was none."""
        storage = await self._connection.storage("app.fanouts.reset()")
        return await storage.fanouts.reset(topic, work, _shard(shard), Note(by, "fanout reset"))

    async def run(
        self, topic: str, work: str | None = None, shard: str | None = None, *, wait: Wait = None, by: str = "app"
    ) -> PlannedWindow:
        """Plan it now, in this process, with now as the window: shards due by policy get a slice at once.

        With ``shard`` only that one, however recent its last window. Raises LeaseHeld while a coordinator plans, at
        once or after ``wait``.
        """
        storage = await self._connection.storage("app.fanouts.run()")
        declared = self._code.find(topic, work)
        if declared is None:
            known = [each.shown for each in self._code]
            raise unknown("no planner here yields the shards of", _name(topic, work), known)
        now = (await storage.timetable.read([])).now
        here = Context(self._publisher, *_by_hand(declared, now))
        only = None if shard is None else _shard(shard)
        doing, note = self._code.consumers(topic), Note(by, "fanout run")
        request = PlanRequest(declared, work, now, here, doing, only, by_hand=True, note=note)
        return await self._coordinator.plan(request, wait=wait)

    async def _view(
        self, topic: str, work: str | None, tally: CursorTally | None, schedules: dict[str, ScheduleView]
    ) -> FanoutView:
        storage = await self._connection.storage("app.fanouts.get()")
        declared = self._code.find(topic, work)
        name, of_topic = schedule_name(topic, work), schedule_name(topic, None)
        if declared is not None:
            name = declared.schedule
        elif name not in schedules and of_topic in schedules:
            name = of_topic
        schedule = schedules.get(name)
        rhythm = None if declared is None else declared.rhythm
        set_now = FanoutPolicy()
        if (
            work is not None
            and (rows := await storage.fanouts.policies(topic, work, None, 1))
            and rows[0].shard is None
        ):
            set_now = rows[0].policy
        lease = await storage.leases.find(name.replace("plan:", "fanout:", 1))
        return FanoutView(
            topic,
            work,
            name,
            rhythm if schedule is None else schedule.rhythm,
            schedule is not None and schedule.state in ("paused", "frozen"),
            None if schedule is None else schedule.next_at,
            set_now.enabled is not False,
            (set_now.every if set_now.every is not None or declared is None else declared.every) or None,
            set_now.jitter if set_now.jitter is not None or declared is None else declared.jitter,
            lease.holder if lease is not None and lease.state == "held" else None,
            *(() if tally is None else (tally.shards, tally.last_window, tally.completed, tally.behind, tally.oldest)),
        )


async def _pages(storage: Storage, topic: str, work: str, shard: str | None) -> AsyncIterator[Names]:
    """Yield the shards of a work in pages, or the only one."""
    if shard is not None:
        yield [check_name(shard, "shard")]
        return
    after: str | None = None
    while rows := await storage.fanouts.cursors(topic, work, after, CHUNK):
        after = rows[-1].shard
        yield [each.shard for each in rows]


def no_fanout(topic: str, work: str | None, views: Views) -> BadOption:
    """Return the error that names the existing fan-outs."""
    return unknown("there is no fan-out", _name(topic, work), [_name(each.topic, each.work) for each in views])


def _name(topic: str, work: str | None) -> str:
    return topic if work is None else f"{topic} {work}"


def _by_hand(declared: FanoutDeclaration, now: datetime) -> tuple[Delivery, Run]:
    """Return the delivery and run of a manual plan."""
    group = declared.schedule
    draft = Draft(uuid4(), group, b"null", headers={MANUAL_HEADER: "true"}, schedule=group, manual=True)
    delivery = unstored(draft, group, now, now)
    return delivery, Run(delivery, Handler(group, lambda _delivery, _run: None, NO_RETRY), float("inf"))


def _shard(shard: str | None) -> str:
    return EVERYTHING if shard is None else check_name(shard, "shard")


def _described(policy: FanoutPolicy) -> str:
    fields = {
        "enabled": None if policy.enabled is None else str(policy.enabled),
        "every": None if policy.every is None else spell(policy.every),
        "jitter": None if policy.jitter is None else spell(policy.jitter),
    }
    return ", ".join(f"{name}={value}" for name, value in fields.items() if value is not None)


class SyncFanouts(Face[Fanouts]):
    """``app.sync.fanouts``: as ``app.fanouts``, without await."""

    list: Final = blocking(Fanouts.list)
    get: Final = blocking(Fanouts.get)
    cursors: Final = blocking(Fanouts.cursors)
    policies: Final = blocking(Fanouts.policies)
    edit: Final = blocking(Fanouts.edit)
    seek: Final = blocking(Fanouts.seek)
    reset: Final = blocking(Fanouts.reset)
    run: Final = blocking(Fanouts.run)
