"""``app.fanouts``: how far every shard has come, to look at and to steer while everything runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from mainspring.app.blocking import Face, blocking
from mainspring.app.context import Context, Publishing
from mainspring.app.door import Door
from mainspring.app.fanout import FanoutCode
from mainspring.app.fanout_code import Declared, schedule_name
from mainspring.app.leases import Wait
from mainspring.app.names import check_name
from mainspring.app.options import closest, flag, length, whole
from mainspring.app.planning import Coordinator, PlannedWindow
from mainspring.model.errors import BadOption
from mainspring.model.fanout import EVERYTHING, CursorTally, CursorView, FanoutPolicy, FanoutPolicyView, summed
from mainspring.model.message import Delivery, Priority
from mainspring.model.schedule import Note
from mainspring.runtime.handler import Handler, Run
from mainspring.timing.backoff import NO_RETRY
from mainspring.timing.duration import Duration, spell

if TYPE_CHECKING:
    from mainspring.app.schedule_view import ScheduleView
    from mainspring.app.schedules import Schedules

_PAGE_MOST = 1000


@dataclass(frozen=True, slots=True)
class FanoutView:
    """A work of a fan-out: when it is planned, how, and how far its shards have come."""

    topic: str
    work: str | None
    """None: all that its planner names."""
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
    """None: only the code knows, and it is not here."""
    coordinator: str | None
    """Who plans it at this moment."""
    shards: int = 0
    last_window: datetime | None = None
    """The latest window that was planned."""
    completed: int = 0
    """Shards that have completed it."""
    behind: int = 0
    """Shards whose own latest window is not completed: their slices are on their way, or have failed."""
    oldest: datetime | None = None
    """The earliest window that some shard stands at."""


# Named here, since inside the classes ``list`` is their own verb.
Views = list[FanoutView]
Cursors = list[CursorView]
Policies = list[FanoutPolicyView]


class Fanouts:
    """The fan-outs of this namespace. Every change is audited with ``by``."""

    def __init__(
        self,
        door: Door,
        code: FanoutCode,
        schedules: Schedules,
        coordinator: Coordinator,
        post: Publishing,
    ) -> None:
        self._door = door
        self._code = code
        self._schedules = schedules
        self._coordinator = coordinator
        self._post = post

    # --- reading -------------------------------------------------------------------------------------------

    async def list(self) -> Views:
        """Every work of every fan-out, by topic and work."""
        storage = await self._door.storage("app.fanouts.list()")
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

    async def show(self, topic: str, work: str | None = None) -> FanoutView:
        """One work of a fan-out, or all works of a planner that names them. Raises BadOption when there is none."""
        storage = await self._door.storage("app.fanouts.show()")
        tallies = await storage.fanouts.tally(topic, work)
        asked = {schedule_name(topic, work), schedule_name(topic, None)}
        schedules = {name: view for name in asked if (view := await self._schedules.get(name)) is not None}
        if not ((work and tallies) or schedule_name(topic, work) in schedules or self._code.get(topic, work)):
            raise await self._unknown(topic, work)
        return await self._view(topic, work, summed(tallies), schedules)

    async def cursors(
        self, topic: str, work: str, *, behind: bool = False, after: str | None = None, limit: int = 50
    ) -> Cursors:
        """How far each shard has come, by shard; with ``behind`` those whose latest window is not completed.

        ``after`` is the shard of the last row of the page before.
        """
        whole(limit, "limit", least=1, most=_PAGE_MOST)
        storage = await self._door.storage("app.fanouts.cursors()")
        return [*await storage.fanouts.cursors(topic, work, after, limit, behind=flag(behind, "behind"))]

    async def policies(self, topic: str, work: str, *, after: str | None = None, limit: int = 50) -> Policies:
        """What was set at run time: for the whole work first, then by shard."""
        whole(limit, "limit", least=1, most=_PAGE_MOST)
        storage = await self._door.storage("app.fanouts.policies()")
        return [*await storage.fanouts.policies(topic, work, after, limit)]

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
        """Set how a shard is planned from the next window on, or all shards of the work; the rest stays as it was.

        A shard's own policy goes before that of its work, and that before the code. ``every`` is the least time
        between two of its windows, "0s" for every window. Returns what is set now.
        """
        policy = FanoutPolicy(
            None if enabled is None else flag(enabled, "enabled"),
            None if every is None else length(every, "every"),
            None if jitter is None else length(jitter, "jitter"),
        )
        detail = _described(policy)
        if not detail:
            raise BadOption("edit(…) has nothing to set: give every=, jitter= or enabled=")
        await self.show(topic, work)
        storage = await self._door.storage("app.fanouts.edit()")
        note = Note(by, "fanout edit", detail)
        return await storage.fanouts.edit(topic, work, _shard(shard), policy, note)

    async def reset(self, topic: str, work: str, shard: str | None = None, *, by: str = "app") -> bool:
        """Remove what ``edit`` has set for the shard, or for the whole work. False: there was nothing."""
        storage = await self._door.storage("app.fanouts.reset()")
        return await storage.fanouts.reset(topic, work, _shard(shard), Note(by, "fanout reset"))

    async def run(
        self, topic: str, work: str | None = None, shard: str | None = None, *, wait: Wait = None, by: str = "app"
    ) -> PlannedWindow:
        """Plan it now, in this process, with now as the window: what is due by its policies gets a slice at once.

        With ``shard`` only that one, however short ago its last window was. Raises LeaseHeld while a coordinator
        plans, at once or after ``wait``.
        """
        storage = await self._door.storage("app.fanouts.run()")
        declared = self._code.find(topic, work)
        if declared is None:
            raise await self._unknown(topic, work, here=True)
        now = (await storage.timetable.read([])).now
        here = Context(self._post, *_by_hand(declared, now))
        only = None if shard is None else _shard(shard)
        doing, note = self._code.consumers(topic), Note(by, "fanout run")
        asking = declared.asking(now, here, work=work, shard=only, by_hand=True, consumers=doing, note=note)
        return await self._coordinator.plan(asking, wait=wait)

    async def _view(
        self, topic: str, work: str | None, tally: CursorTally | None, schedules: dict[str, ScheduleView]
    ) -> FanoutView:
        storage = await self._door.storage("app.fanouts.show()")
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
        view = FanoutView(
            topic,
            work,
            name,
            rhythm if schedule is None else schedule.rhythm,
            schedule is not None and schedule.state in ("paused", "frozen"),
            None if schedule is None else schedule.next_at,
            set_now.enabled is not False,
            set_now.every or None,
            set_now.jitter if set_now.jitter is not None or declared is None else declared.jitter,
            lease.holder if lease is not None and lease.state == "held" else None,
        )
        if tally is None:
            return view
        return replace(
            view,
            shards=tally.shards,
            last_window=tally.last_window,
            completed=tally.completed,
            behind=tally.behind,
            oldest=tally.oldest,
        )

    async def _unknown(self, topic: str, work: str | None, *, here: bool = False) -> BadOption:
        asked = topic if work is None else f"{topic} {work}"
        if here:
            known = [each.shown for each in self._code]
            place = "no planner here names the shards of"
        else:
            known = [each.topic if each.work is None else f"{each.topic} {each.work}" for each in await self.list()]
            place = "there is no fan-out"
        return BadOption(f"{place} {asked!r}.{closest(asked, known)} There are: {', '.join(known) or 'none'}")


def _by_hand(declared: Declared, now: datetime) -> tuple[Delivery, Run]:
    """What a planner is told of where no message has called for it."""
    group = declared.schedule
    delivery = Delivery(
        id=0,
        epoch=0,
        message_id=uuid4(),
        group=group,
        topic=group,
        payload=b"null",
        content_type="application/json",
        headers=None,
        key=None,
        correlation_id=None,
        causation_id=None,
        priority=Priority.NORMAL,
        attempt=1,
        deaths=0,
        due_at=now,
        scheduled_for=now,
        published_at=now,
        expired=False,
        cancel_asked=False,
        suspect=False,
        claimed_at=now,
    )
    return delivery, Run(delivery, Handler(group, lambda _delivery, _run: None, NO_RETRY), float("inf"))


def _shard(shard: str | None) -> str:
    return EVERYTHING if shard is None else check_name(shard, "shard")


def _described(policy: FanoutPolicy) -> str:
    told = {
        "enabled": None if policy.enabled is None else str(policy.enabled),
        "every": None if policy.every is None else spell(policy.every),
        "jitter": None if policy.jitter is None else spell(policy.jitter),
    }
    return ", ".join(f"{name}={value}" for name, value in told.items() if value is not None)


class SyncFanouts(Face[Fanouts]):
    """``app.sync.fanouts``: as ``app.fanouts``, without await."""

    list: Final = blocking(Fanouts.list)
    show: Final = blocking(Fanouts.show)
    cursors: Final = blocking(Fanouts.cursors)
    policies: Final = blocking(Fanouts.policies)
    edit: Final = blocking(Fanouts.edit)
    reset: Final = blocking(Fanouts.reset)
    run: Final = blocking(Fanouts.run)
