"""``app.schedules``: what runs on a rhythm, to look at and to steer while everything runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Unpack

from mainspring.app.blocking import Face, blocking
from mainspring.app.changes import Change, NoSchedule
from mainspring.app.envelope import MISSING
from mainspring.app.schedule_reading import ScheduleReading
from mainspring.app.schedule_view import ScheduleView
from mainspring.app.timings import RhythmOption, TimingOptions
from mainspring.app.wishes import Past
from mainspring.model.errors import BadOption
from mainspring.model.message import Draft, Published, Receipt
from mainspring.model.schedule import Note, Occurrence, Schedule
from mainspring.model.views import RunView
from mainspring.storage.script import Script

if TYPE_CHECKING:
    pass

# Named here, since inside the classes ``list`` is their own verb.
Runs = list[RunView]
Views = list[ScheduleView]
Instants = list[datetime]
_RESERVED = timedelta(seconds=5)


class Schedules(ScheduleReading):
    """Every schedule of the database, whoever made it. Every change is audited with ``by``.

    With ``tx`` a change joins that transaction: it counts if and when that commits.
    """

    # --- changing ------------------------------------------------------------------------------------------

    async def put(
        self,
        name: str,
        rhythm: RhythmOption,
        consumer: object = None,
        payload: object = None,
        *,
        topic: str | None = None,
        by: str = "app",
        tx: Any = None,
        **options: Unpack[TimingOptions],
    ) -> ScheduleView:
        """Make a schedule at run time, or define anew one that was made so.

        Its occurrences go to ``consumer`` (the function, its class or its group's name), or to every group of
        ``topic``.
        """
        return await self._shown(self._wishes.putting(name, rhythm, consumer, payload, topic, by, options), tx, "put")

    async def once(
        self,
        name: str,
        at: datetime,
        consumer: object,
        payload: object = None,
        *,
        past: Past = "raise",
        by: str = "app",
        tx: Any = None,
    ) -> ScheduleView:
        """Run a consumer at one time, under a name by which it can be moved, paused and deleted until then."""
        return await self._shown(self._wishes.putting_once(name, at, consumer, payload, past, by), tx, "once")

    async def alter(
        self,
        name: str,
        rhythm: RhythmOption | None = None,
        *,
        reset: Collection[str] = (),
        by: str = "app",
        tx: Any = None,
        **options: Unpack[TimingOptions],
    ) -> ScheduleView:
        """Set fields at run time, over configuration and code; those in ``reset`` are left to them again."""
        return await self._shown(self._wishes.altering(name, rhythm, reset, by, options), tx, "alter")

    async def pause(self, name: str, *, reason: str = "", by: str = "app", tx: Any = None) -> ScheduleView:
        """Let it stand still until someone resumes it: restarts and deploys do not.

        What runs goes on. What no worker has begun is cancelled, but for what was triggered or backfilled.
        """
        return await self._shown(self._wishes.changes.pause(name, reason, by), tx, "pause")

    async def resume(self, name: str, *, by: str = "app", tx: Any = None) -> ScheduleView:
        """Let it go on with the first occurrence still to come; those of the pause are left out."""
        return await self._shown(self._wishes.changes.resume(name, by), tx, "resume")

    async def delete(self, name: str, *, by: str = "app", tx: Any = None) -> None:
        """Remove it; its history and what runs stay. What code defines is removed there."""
        await self._write(self._wishes.changes.delete(name, by), tx, "delete")

    async def trigger(
        self, name: str, *, payload: object = MISSING, local: bool = False, by: str = "app", tx: Any = None
    ) -> Receipt:
        """Run it now, outside of its rhythm: the next occurrence stays as it is. Its runs are marked ``manual``.

        With ``local`` it runs in this process, whose worker must serve its consumer.
        """
        if local and tx is not None:
            raise BadOption("local=True runs it at once, and what tx= holds is not there yet: leave out one of them")
        sheet = await self._sheet(name, tx, "trigger")
        draft = self._wishes.triggered(name, sheet, payload)
        if local and self._door.stand_in is None:  # in a test there is no other node
            await self._run_here(draft, sheet.now, by)
        else:
            await self._enter([Occurrence(draft)], Note(by, "schedule trigger"), tx, "trigger")
        return Receipt(draft.id, "stored")

    async def _run_here(self, draft: Draft, now: datetime, by: str) -> None:
        group = draft.group
        worker = next((each for each in self._workers if group is not None and each.serves(group)), None)
        if worker is None or group is None:
            raise BadOption(
                f"no worker of this process serves {group or draft.topic!r}: leave out local=True, "
                "and any worker that does will run it"
            )
        # Due a little later, so that it is ours to take; and still due, should this process end before it has.
        await self._enter([Occurrence(draft, now + _RESERVED)], Note(by, "schedule trigger", "local"), None, "trigger")
        await worker.take(draft.id, group)

    async def backfill(self, name: str, start: datetime, end: datetime, *, by: str = "app", tx: Any = None) -> Instants:
        """Run it for every occurrence from ``start`` to ``end``, as if it had been there; returns those instants.

        One after another, unless it allows overlaps. Its runs are marked ``manual``.
        """
        occurrences = self._wishes.backfilled(name, await self._sheet(name, tx, "backfill"), start, end)
        if occurrences:
            await self._enter(occurrences, Note(by, "schedule backfill", f"{start} to {end}"), tx, "backfill")
        return [each.draft.at for each in occurrences if each.draft.at is not None]

    async def freeze(
        self, *, reason: str = "", app: str | None = None, everywhere: bool = False, by: str = "app"
    ) -> None:
        """Let all schedules of an app [this one] stand still until they are thawed, or those of every app there is."""
        storage = await self._door.storage("app.schedules.freeze()")
        await storage.timetable.freeze(self._frozen(app, everywhere=everywhere), by, reason)

    async def thaw(self, *, app: str | None = None, everywhere: bool = False, by: str = "app") -> bool:
        """End a freeze; what was due meanwhile is for each schedule's misfire policy. False: there was none."""
        storage = await self._door.storage("app.schedules.thaw()")
        thawed = await storage.timetable.thaw(self._frozen(app, everywhere=everywhere), by)
        self._changed()
        return thawed

    def _frozen(self, app: str | None, *, everywhere: bool) -> str:
        if everywhere and app is not None:
            raise BadOption(f"everywhere=True and app={app!r} were both given: pass one of them")
        return "" if everywhere else app or self._app

    def _changed(self) -> None:
        for worker in self._workers:
            worker.reschedule()
            worker.wake()

    async def _shown(self, change: Change, tx: object, call: str) -> ScheduleView:
        row = await self._write(change, tx, call)
        assert row is not None, "only a deletion leaves no row"
        if tx is None and (whole := await self.get(row.name)) is not None:
            return whole
        return self._view(row, None, None)

    async def _enter(self, occurrences: Sequence[Occurrence], note: Note, tx: object, call: str) -> None:
        if tx is None:
            await (await self._door.storage(f"app.schedules.{call}()")).timetable.enter(occurrences, note)
        else:
            await self._transactions.run(tx, self._entering(occurrences, note))
        self._changed()

    def _entering(self, occurrences: Sequence[Occurrence], note: Note) -> Script[Published]:
        published = yield from self._transactions.rooms.timetable.enter.script(occurrences, note)
        self._transactions.entered(occurrences, published)
        return published

    async def _write(self, change: Change, tx: object, call: str) -> Schedule | None:
        if tx is None:
            storage = await self._door.storage(f"app.schedules.{call}()")
            rows = await storage.timetable.rewrite([change.name], change.how, change.note)
        else:
            script = self._transactions.rooms.timetable.rewrite.script([change.name], change.how, change.note)
            rows = await self._transactions.run(tx, script)
        if isinstance(change.problem, NoSchedule):
            raise self._wishes.unknown(change.problem.name, await self._read(None, tx, call))
        row = change.outcome(rows)
        self._changed()
        return row


class SyncSchedules(Face[Schedules]):
    """``app.sync.schedules``: as ``app.schedules``, without await."""

    list: Final = blocking(Schedules.list)
    get: Final = blocking(Schedules.get)
    recent: Final = blocking(Schedules.recent)
    next: Final = blocking(Schedules.next)
    between: Final = blocking(Schedules.between)
    runs: Final = blocking(Schedules.runs)
    put: Final = blocking(Schedules.put)
    once: Final = blocking(Schedules.once)
    alter: Final = blocking(Schedules.alter)
    pause: Final = blocking(Schedules.pause)
    resume: Final = blocking(Schedules.resume)
    delete: Final = blocking(Schedules.delete)
    trigger: Final = blocking(Schedules.trigger)
    backfill: Final = blocking(Schedules.backfill)
    freeze: Final = blocking(Schedules.freeze)
    thaw: Final = blocking(Schedules.thaw)
