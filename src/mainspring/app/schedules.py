"""``app.schedules``: what runs on a rhythm, to look at and to steer while everything runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

from mainspring.app.changes import Change, NoSchedule
from mainspring.app.door import Door
from mainspring.app.envelope import MISSING
from mainspring.app.names import Namespace
from mainspring.app.options import whole
from mainspring.app.preview import upcoming
from mainspring.app.schedule_view import ScheduleView, viewed
from mainspring.app.timings import RhythmOption, TimingOptions
from mainspring.app.transactions import Transactions
from mainspring.app.wishes import Past, Wishes
from mainspring.model.errors import BadOption
from mainspring.model.message import Draft, Receipt
from mainspring.model.schedule import Note, Occurrence, Schedule, Timesheet
from mainspring.model.views import RunView

if TYPE_CHECKING:
    from mainspring.app.recurring import Recurrences
    from mainspring.runtime.worker import Worker

# Named here, since inside the classes ``list`` is their own verb.
Runs = list[RunView]
Views = list[ScheduleView]
Instants = list[datetime]
_RESERVED = timedelta(seconds=5)


class Schedules:
    """Every schedule of the database, whoever made it. Every change is audited with ``by``.

    With ``tx`` a change joins that transaction: it counts if and when that commits.
    """

    def __init__(
        self,
        door: Door,
        transactions: Transactions,
        wishes: Wishes,
        recurrences: Recurrences,
        names: Namespace,
        app: str,
        workers: Sequence[Worker],
    ) -> None:
        self._door = door
        self._transactions = transactions
        self._wishes = wishes
        self._recurrences = recurrences
        self._names = names
        self._app = app
        self._workers = workers

    # --- reading -------------------------------------------------------------------------------------------

    async def list(self, *, app: str | None = None) -> Views:
        """Every schedule of this namespace, or those of one app, by name."""
        storage = await self._door.storage("app.schedules.list()")
        sheet = await storage.timetable.read(app=None if app is None else self._names.stored(app))
        rows = [row for row in sheet.schedules if self._names.owns(row.name)]
        latest = await storage.ledger.latest([row.name for row in rows])
        return [self._view(row, sheet, latest.get(row.name)) for row in rows]

    async def get(self, name: str) -> ScheduleView | None:
        """One schedule; None when there is no such schedule."""
        storage = await self._door.storage("app.schedules.get()")
        stored = self._names.stored(name)
        sheet = await storage.timetable.read([stored])
        if not sheet.schedules:
            return None
        return self._view(sheet.schedules[0], sheet, (await storage.ledger.latest([stored])).get(stored))

    async def next(self, name: str, n: int = 5) -> Instants:
        """The next ``n`` times at which it is due, in its own zone; for a paused one those it would have."""
        whole(n, "n", least=1, most=1000)
        sheet = await self._sheet(name, None, "next")
        return upcoming(self._wishes.plan(name, sheet), sheet.now, n)

    async def between(self, name: str, start: datetime, end: datetime) -> Instants:
        """The times from ``start`` to ``end`` at which it is due, in its zone: those ``backfill`` would run."""
        sheet = await self._sheet(name, None, "between")
        zone = self._wishes.plan(name, sheet).zone
        return [at.astimezone(zone) for at in self._wishes.times(name, sheet, start, end)]

    async def runs(self, name: str, *, before: int | None = None, limit: int = 50) -> Runs:
        """Its kept runs, newest first; ``before`` is the id of the last row of the page before."""
        storage = await self._door.storage("app.schedules.runs()")
        rows = await storage.ledger.runs(None, before, limit, self._names.stored(name))
        return [self._names.run(row) for row in rows]

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
                f"no worker of this process serves {self._names.shown(group or draft.topic)!r}: leave out local=True, "
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
        return "" if everywhere else self._names.stored(app or self._app)

    # --- the same in a transaction of somebody who blocks --------------------------------------------------

    def join(self, change: Change, tx: object) -> ScheduleView | None:
        """Make the change in it."""
        transactions = self._transactions
        script = transactions.timetable().rewrite([change.name], change.how, change.note, self._door.now)
        rows = transactions.run_blocking(tx, script)
        if isinstance(change.problem, NoSchedule):
            raise self._wishes.unknown(change.problem.name, self._join_read(None, tx))
        row = change.outcome(rows)
        self._changed()
        return None if row is None else self._view(row, None, None)

    def join_sheet(self, name: str, tx: object) -> Timesheet:
        """Read the schedule in it."""
        sheet = self._join_read([self._names.stored(name)], tx)
        if not sheet.schedules:
            raise self._wishes.unknown(name, self._join_read(None, tx))
        return sheet

    def _join_read(self, stored: Sequence[str] | None, tx: object) -> Timesheet:
        script = self._transactions.timetable().read(stored, None, self._door.now)
        return self._transactions.run_blocking(tx, script)

    def join_enter(self, occurrences: Sequence[Occurrence], note: Note, tx: object) -> None:
        """Publish the occurrences in it."""
        self._transactions.run_blocking(tx, self._transactions.timetable().enter(occurrences, note, self._door.now))
        self._changed()

    def _changed(self) -> None:
        for worker in self._workers:
            worker.reschedule()
            worker.wake()

    def _view(self, row: Schedule, sheet: Timesheet | None, last_run: RunView | None) -> ScheduleView:
        shown = None if last_run is None else self._names.run(last_run)
        freezes = () if sheet is None else sheet.freezes
        return viewed(row, self._names, freezes, shown, self._recurrences.code(self._names.shown(row.name)))

    async def write(self, change: Change) -> ScheduleView | None:
        """Make a change that somebody who blocks has asked for."""
        row = await self._write(change, None, "write")
        return None if row is None else self._view(row, None, None)

    async def _shown(self, change: Change, tx: object, call: str) -> ScheduleView:
        row = await self._write(change, tx, call)
        assert row is not None, "only a deletion leaves no row"
        if tx is None and (whole := await self.get(self._names.shown(row.name))) is not None:
            return whole
        return self._view(row, None, None)

    async def _sheet(self, name: str, tx: object, call: str) -> Timesheet:
        sheet = await self._read([self._names.stored(name)], tx, call)
        if not sheet.schedules:
            raise self._wishes.unknown(name, await self._read(None, tx, call))
        return sheet

    async def _read(self, stored: Sequence[str] | None, tx: object, call: str) -> Timesheet:
        if tx is None:
            return await (await self._door.storage(f"app.schedules.{call}()")).timetable.read(stored)
        return await self._transactions.run(tx, self._transactions.timetable().read(stored, None, self._door.now))

    async def _enter(self, occurrences: Sequence[Occurrence], note: Note, tx: object, call: str) -> None:
        if tx is None:
            await (await self._door.storage(f"app.schedules.{call}()")).timetable.enter(occurrences, note)
        else:
            script = self._transactions.timetable().enter(occurrences, note, self._door.now)
            await self._transactions.run(tx, script)
        self._changed()

    async def _write(self, change: Change, tx: object, call: str) -> Schedule | None:
        if tx is None:
            storage = await self._door.storage(f"app.schedules.{call}()")
            rows = await storage.timetable.rewrite([change.name], change.how, change.note)
        else:
            script = self._transactions.timetable().rewrite([change.name], change.how, change.note, self._door.now)
            rows = await self._transactions.run(tx, script)
        if isinstance(change.problem, NoSchedule):
            raise self._wishes.unknown(change.problem.name, await self._read(None, tx, call))
        row = change.outcome(rows)
        self._changed()
        return row
