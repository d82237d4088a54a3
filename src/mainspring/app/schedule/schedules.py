"""``app.schedules``: list, inspect and change schedules at run time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Unpack

from mainspring.app.blocking import Face, Renamed, blocking
from mainspring.app.connection import Connection
from mainspring.app.consume.consumers import Consumers
from mainspring.app.message.envelope import MISSING, UNGIVEN, Envelope
from mainspring.app.options import whole
from mainspring.app.page import Page, Paging, Seq, listing
from mainspring.app.schedule.edits import NoSchedule, Past, ScheduleEdit, ScheduleEdits
from mainspring.app.schedule.occurrence import OnceOptions, ScheduleOptions
from mainspring.app.schedule.timing import RhythmOption
from mainspring.app.schedule.view import ScheduleView, upcoming, viewed
from mainspring.app.transaction.enlistment import Transactions
from mainspring.model.errors import BadOption
from mainspring.model.message import Published, Receipt
from mainspring.model.schedule import Note, Occurrence, Schedule, Timesheet
from mainspring.model.views import RunTimes, RunView
from mainspring.runtime.schedules.middleware import Around
from mainspring.storage.script import Script

if TYPE_CHECKING:
    from mainspring.app.schedule.recurring import Recurrences
    from mainspring.runtime.worker import Worker

# Defined here: inside the class ``list`` is a method.
Runs = Page[RunView]
RunsByName = dict[str, tuple[RunView, ...]]
Views = list[ScheduleView]
Instants = list[datetime]

_RESERVED = timedelta(seconds=5)
_TIMED = 1000
"""How many runs the percentiles of their times are of."""
_RUNS: Paging[RunView, int] = Paging("app.schedules.runs()", lambda run: run.id, Seq)


class Schedules(Renamed):
    """Every schedule of the database, of any origin. Every change is audited with ``by``.

    With ``tx`` a change is enlisted in that transaction: it takes effect on commit.
    """

    def __init__(
        self,
        connection: Connection,
        transactions: Transactions,
        envelope: Envelope,
        consumers: Consumers,
        recurrences: Recurrences,
        elsewhere: Callable[[], Collection[str]],
        app: str,
        workers: Sequence[Worker],
        around: Around | None = None,
    ) -> None:
        self._around = around
        self._connection = connection
        self._transactions = transactions
        self._edits = ScheduleEdits(envelope, consumers, recurrences, elsewhere, app)
        self._workers = workers

    async def list(self, *, app: str | None = None) -> Views:
        """Return every schedule of the namespace, or of one app, by name."""
        storage = await self._connection.storage("app.schedules.list()")
        sheet = await storage.timetable.read(app=app)
        rows = sheet.schedules
        latest = await storage.ledger.recent([row.name for row in rows], 1)
        return [self._view(row, sheet, *latest.get(row.name, (None,))) for row in rows]

    async def get(self, name: str) -> ScheduleView | None:
        """Return one schedule; None if there is none."""
        storage = await self._connection.storage("app.schedules.get()")
        sheet = await storage.timetable.read([name])
        if not sheet.schedules:
            return None
        latest = await storage.ledger.recent([name], 1)
        view = self._view(sheet.schedules[0], sheet, *latest.get(name, (None,)))
        return replace(view, run_times=await storage.ledger.run_times(name, _TIMED))

    async def recent(self, limit: int = 20) -> RunsByName:
        """Return the latest kept runs of every schedule by name, newest first; schedules without runs are omitted.

        It has no pages: ``runs(name)`` returns the earlier ones.
        """
        storage = await self._connection.storage("app.schedules.recent()")
        sheet = await storage.timetable.read()
        found = await storage.ledger.recent([row.name for row in sheet.schedules], limit)
        return {name: tuple(runs) for name, runs in found.items()}

    async def run_times(self, name: str, *, limit: int = _TIMED) -> RunTimes | None:
        """Return how long its latest kept runs took, done or failed: percentiles. None: no run is kept."""
        whole(limit, "limit", least=1, most=100_000)
        storage = await self._connection.storage("app.schedules.run_times()")
        return await storage.ledger.run_times(name, limit)

    async def next(
        self,
        name: str,
        n: int = 5,
        *,
        rhythm: RhythmOption | None = None,
        reset: Collection[str] = (),
        **options: Unpack[ScheduleOptions],
    ) -> Instants:
        """Return the next ``n`` due times, in its own zone; for a paused schedule, as if it were not.

        With arguments of ``alter``: as they would be after it. Nothing is changed.
        """
        whole(n, "n", least=1, most=1000)
        sheet = await self._sheet(name, None, "next")
        return upcoming(self._edits.altered(name, sheet, rhythm, reset, options), sheet.now, n)

    async def between(self, name: str, start: datetime, end: datetime) -> Instants:
        """Return the due times from ``start`` to ``end``, in its zone: those ``backfill`` would run."""
        sheet = await self._sheet(name, None, "between")
        zone = self._edits.plan(name, sheet).zone
        return [at.astimezone(zone) for at in self._edits.times(name, sheet, start, end)]

    @listing
    async def runs(self, name: str, *, cursor: str | None = None, limit: int = 50) -> Runs:
        """Return its kept runs, newest first."""
        before = _RUNS.start(cursor, limit)
        storage = await self._connection.storage("app.schedules.runs()")
        return _RUNS.page(await storage.ledger.runs(None, before, limit + 1, name), limit)

    def _view(self, row: Schedule, sheet: Timesheet | None, last_run: RunView | None) -> ScheduleView:
        freezes = () if sheet is None else sheet.freezes
        return viewed(row, freezes, last_run, self._edits.code(row.name))

    async def _sheet(self, name: str, tx: object, call: str) -> Timesheet:
        sheet = await self._read([name], tx, call)
        if not sheet.schedules:
            raise self._edits.unknown(name, await self._read(None, tx, call))
        return sheet

    async def _read(self, stored: Sequence[str] | None, tx: object, call: str) -> Timesheet:
        if tx is None:
            return await (await self._connection.storage(f"app.schedules.{call}()")).timetable.read(stored)
        return await self._transactions.run(tx, self._transactions.operations.timetable.read.script(stored))

    # --- changing ------------------------------------------------------------------------------------------

    async def put(
        self,
        name: str,
        rhythm: RhythmOption = UNGIVEN,
        consumer: object = None,
        payload: object = None,
        *,
        topic: str | None = None,
        new: bool = False,
        by: str = "app",
        tx: Any = None,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleView:
        """Create a schedule at run time, or redefine one made by ``put``; with ``new`` one that exists is a Conflict.

        Its occurrences go to ``consumer`` (the function, its class or its group's name), or to every group of
        ``topic``.
        """
        edit = self._edits.put(name, rhythm, consumer, payload, topic, by, options, new=new)
        return await self._shown(edit, tx, "put")

    async def once(
        self,
        name: str,
        at: datetime,
        consumer: object,
        payload: object = None,
        *,
        past: Past = "raise",
        new: bool = False,
        by: str = "app",
        tx: Any = None,
        **options: Unpack[OnceOptions],
    ) -> ScheduleView:
        """Run a consumer once at a given time, under a name to move, pause and delete it by.

        Any consumer that this app has registered will do: the function, its class, or its name. With ``new`` a
        schedule of this name is a Conflict.
        """
        edit = self._edits.once(name, at, consumer, payload, past, by, options, new=new)
        return await self._shown(edit, tx, "once")

    async def alter(
        self,
        name: str,
        rhythm: RhythmOption | None = None,
        *,
        reset: Collection[str] = (),
        by: str = "app",
        tx: Any = None,
        **options: Unpack[ScheduleOptions],
    ) -> ScheduleView:
        """Set fields at run time, over configuration and code; those in ``reset`` revert to these."""
        return await self._shown(self._edits.alter(name, rhythm, reset, by, options), tx, "alter")

    async def pause(self, name: str, *, reason: str = "", by: str = "app", tx: Any = None) -> ScheduleView:
        """Pause it until ``resume``: restarts and deploys keep it paused.

        Running occurrences continue. Unstarted ones are cancelled, except those triggered or backfilled.
        """
        return await self._shown(self._edits.pause(name, reason, by), tx, "pause")

    async def resume(self, name: str, *, by: str = "app", tx: Any = None) -> ScheduleView:
        """Resume with the first future occurrence; those during the pause are omitted."""
        return await self._shown(self._edits.resume(name, by), tx, "resume")

    async def delete(self, name: str, *, by: str = "app", tx: Any = None) -> None:
        """Delete it; its history and runs stay. Rejects one that is in the code of this app or of a live worker."""
        if tx is None:
            timetable = (await self._connection.storage("app.schedules.delete()")).timetable
            declarers = await timetable.declarers(name)
        else:
            script = self._transactions.operations.timetable.declarers.script(name)
            declarers = await self._transactions.run(tx, script)
        await self._write(self._edits.delete(name, by, declarers), tx, "delete")

    async def trigger(
        self, name: str, *, payload: object = MISSING, local: bool = False, by: str = "app", tx: Any = None
    ) -> Receipt:
        """Run it now, outside its rhythm: the next occurrence is unchanged. Its runs are marked ``manual``.

        With ``local`` it runs in this process, whose worker must serve its consumer.
        """
        if local and tx is not None:
            raise BadOption("local=True runs it at once, before tx= commits: leave out one of them")
        sheet = await self._sheet(name, tx, "trigger")
        made = self._edits.triggered(name, sheet, payload)
        if local and self._connection.stand_in is None:  # in a test there is no other node
            await self._run_here(made, sheet.now, by)
        else:
            await self._publish([made], Note(by, "schedule trigger"), tx, "trigger")
        return Receipt(made.draft.id, "stored")

    async def _run_here(self, made: Occurrence, now: datetime, by: str) -> None:
        draft, group = made.draft, made.draft.group
        worker = next((each for each in self._workers if group is not None and each.serves(group)), None)
        if worker is None or group is None:
            raise BadOption(
                f"no worker of this process serves {group or draft.topic!r}: leave out local=True, "
                "and any worker that does runs it"
            )
        # Due a little later, so that this process can claim it; still due if this process dies first.
        await self._publish(
            [replace(made, due_at=now + _RESERVED)], Note(by, "schedule trigger", "local"), None, "trigger"
        )
        await worker.take(draft.id, group)

    async def backfill(self, name: str, start: datetime, end: datetime, *, by: str = "app", tx: Any = None) -> Instants:
        """Run it for every occurrence from ``start`` to ``end``, as if it had existed; return those instants.

        Sequentially, unless it allows overlaps. Its runs are marked ``manual``.
        """
        occurrences = self._edits.backfilled(name, await self._sheet(name, tx, "backfill"), start, end)
        if occurrences:
            await self._publish(occurrences, Note(by, "schedule backfill", f"{start} to {end}"), tx, "backfill")
        return [each.draft.at for each in occurrences if each.draft.at is not None]

    async def freeze(
        self, *, reason: str = "", app: str | None = None, everywhere: bool = False, by: str = "app"
    ) -> None:
        """Freeze all schedules of an app [this one], or of every app, until ``thaw``."""
        storage = await self._connection.storage("app.schedules.freeze()")
        await storage.timetable.freeze(self._frozen(app, everywhere=everywhere), by, reason)

    async def thaw(self, *, app: str | None = None, everywhere: bool = False, by: str = "app") -> bool:
        """End a freeze; each schedule's misfire policy handles missed occurrences. False: there was none."""
        storage = await self._connection.storage("app.schedules.thaw()")
        thawed = await storage.timetable.thaw(self._frozen(app, everywhere=everywhere), by)
        self._changed()
        return thawed

    def _frozen(self, app: str | None, *, everywhere: bool) -> str:
        if everywhere and app is not None:
            raise BadOption(f"everywhere=True and app={app!r} were both given: pass one of them")
        return "" if everywhere else app or self._edits.app

    def _changed(self) -> None:
        for worker in self._workers:
            worker.reschedule()
            worker.wake()

    async def _shown(self, change: ScheduleEdit, tx: object, call: str) -> ScheduleView:
        row = await self._write(change, tx, call)
        assert row is not None, "only a deletion leaves no row"
        if tx is None and (whole := await self.get(row.name)) is not None:
            return whole
        return self._view(row, None, None)

    async def _publish(self, occurrences: Sequence[Occurrence], note: Note, tx: object, call: str) -> None:
        drafts = [each.draft for each in occurrences]
        with nullcontext(drafts) if self._around is None else self._around(drafts) as wrapped:
            made = [replace(each, draft=draft) for each, draft in zip(occurrences, wrapped, strict=True)]
            if tx is None:
                await (await self._connection.storage(f"app.schedules.{call}()")).timetable.enter(made, note)
            else:
                await self._transactions.run(tx, self._publishing(made, note))
        self._changed()

    def _publishing(self, occurrences: Sequence[Occurrence], note: Note) -> Script[Published]:
        published = yield from self._transactions.operations.timetable.enter.script(occurrences, note)
        self._transactions.stored_occurrences(occurrences, published)
        return published

    async def _write(self, change: ScheduleEdit, tx: object, call: str) -> Schedule | None:
        if tx is None:
            storage = await self._connection.storage(f"app.schedules.{call}()")
            rows = await storage.timetable.rewrite([change.name], change.how, change.note)
        else:
            script = self._transactions.operations.timetable.rewrite.script([change.name], change.how, change.note)
            rows = await self._transactions.run(tx, script)
        if isinstance(change.problem, NoSchedule):
            raise self._edits.unknown(change.name, await self._read(None, tx, call))
        if change.problem is not None:
            raise change.problem
        self._changed()
        return rows[0]


class SyncSchedules(Face[Schedules]):
    """``app.sync.schedules``: as ``app.schedules``, without await."""

    list: Final = blocking(Schedules.list)
    get: Final = blocking(Schedules.get)
    recent: Final = blocking(Schedules.recent)
    next: Final = blocking(Schedules.next)
    between: Final = blocking(Schedules.between)
    runs: Final = blocking(Schedules.runs)
    run_times: Final = blocking(Schedules.run_times)
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
