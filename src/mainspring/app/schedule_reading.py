"""What there is to read of schedules: those that are stored, their times, their runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mainspring.app.door import Door
from mainspring.app.options import whole
from mainspring.app.preview import upcoming
from mainspring.app.schedule_view import ScheduleView, viewed
from mainspring.app.transactions import Transactions
from mainspring.app.wishes import Wishes
from mainspring.model.schedule import Schedule, Timesheet
from mainspring.model.views import RunView

if TYPE_CHECKING:
    from mainspring.app.recurring import Recurrences
    from mainspring.runtime.worker import Worker

# Named here, since inside the class ``list`` is its own verb.
Runs = list[RunView]
RunsByName = dict[str, tuple[RunView, ...]]
Views = list[ScheduleView]
Instants = list[datetime]


class ScheduleReading:
    """The part of ``app.schedules`` that changes nothing."""

    def __init__(
        self,
        door: Door,
        transactions: Transactions,
        wishes: Wishes,
        recurrences: Recurrences,
        app: str,
        workers: Sequence[Worker],
    ) -> None:
        self._door = door
        self._transactions = transactions
        self._wishes = wishes
        self._recurrences = recurrences
        self._app = app
        self._workers = workers

    async def list(self, *, app: str | None = None) -> Views:
        """Every schedule of this namespace, or those of one app, by name."""
        storage = await self._door.storage("app.schedules.list()")
        sheet = await storage.timetable.read(app=app)
        rows = sheet.schedules
        latest = await storage.ledger.recent([row.name for row in rows], 1)
        return [self._view(row, sheet, *latest.get(row.name, (None,))) for row in rows]

    async def get(self, name: str) -> ScheduleView | None:
        """One schedule; None when there is no such schedule."""
        storage = await self._door.storage("app.schedules.get()")
        sheet = await storage.timetable.read([name])
        if not sheet.schedules:
            return None
        latest = await storage.ledger.recent([name], 1)
        return self._view(sheet.schedules[0], sheet, *latest.get(name, (None,)))

    async def recent(self, limit: int = 20) -> RunsByName:
        """The latest kept runs of every schedule of this namespace, newest first; one without any is left out."""
        storage = await self._door.storage("app.schedules.recent()")
        sheet = await storage.timetable.read()
        found = await storage.ledger.recent([row.name for row in sheet.schedules], limit)
        return {name: tuple(runs) for name, runs in found.items()}

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
        return await storage.ledger.runs(None, before, limit, name)

    def _view(self, row: Schedule, sheet: Timesheet | None, last_run: RunView | None) -> ScheduleView:
        freezes = () if sheet is None else sheet.freezes
        return viewed(row, freezes, last_run, self._recurrences.code(row.name))

    async def _sheet(self, name: str, tx: object, call: str) -> Timesheet:
        sheet = await self._read([name], tx, call)
        if not sheet.schedules:
            raise self._wishes.unknown(name, await self._read(None, tx, call))
        return sheet

    async def _read(self, stored: Sequence[str] | None, tx: object, call: str) -> Timesheet:
        if tx is None:
            return await (await self._door.storage(f"app.schedules.{call}()")).timetable.read(stored)
        return await self._transactions.run(tx, self._transactions.rooms.timetable.read.script(stored))
