"""``app.sync.schedules``: schedules for blocking callers, in their transaction or on a loop in the background."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Unpack

from mainspring.app.changes import Change
from mainspring.app.envelope import MISSING
from mainspring.app.schedule_reading import Instants, Runs, RunsByName, Views
from mainspring.app.schedule_view import ScheduleView
from mainspring.app.schedules import Schedules
from mainspring.app.sync_desk import Running
from mainspring.app.timings import RhythmOption, TimingOptions
from mainspring.app.wishes import Past, Wishes
from mainspring.model.message import Receipt
from mainspring.model.schedule import Note, Occurrence


class SyncSchedules:
    """As ``app.schedules``, without await."""

    def __init__(self, schedules: Schedules, wishes: Wishes, run: Running) -> None:
        self._schedules = schedules
        self._wishes = wishes
        self._run = run

    def list(self, *, app: str | None = None) -> Views:
        """Every schedule of this namespace, or those of one app, by name."""
        return self._run(lambda: self._schedules.list(app=app), "schedules.list()")

    def get(self, name: str) -> ScheduleView | None:
        """One schedule; None when there is no such schedule."""
        return self._run(lambda: self._schedules.get(name), "schedules.get(…)")

    def next(self, name: str, n: int = 5) -> Instants:
        """The next ``n`` times at which it is due, in its own zone."""
        return self._run(lambda: self._schedules.next(name, n), "schedules.next(…)")

    def between(self, name: str, start: datetime, end: datetime) -> Instants:
        """The times from ``start`` to ``end`` at which it is due, in its own zone."""
        return self._run(lambda: self._schedules.between(name, start, end), "schedules.between(…)")

    def runs(self, name: str, *, before: int | None = None, limit: int = 50) -> Runs:
        """Its kept runs, newest first; ``before`` is the id of the last row of the page before."""
        return self._run(lambda: self._schedules.runs(name, before=before, limit=limit), "schedules.runs(…)")

    def recent(self, limit: int = 20) -> RunsByName:
        """The latest kept runs of every schedule of this namespace, newest first; one without any is left out."""
        return self._run(lambda: self._schedules.recent(limit), "schedules.recent()")

    def put(
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
        """Make a schedule at run time, or define anew one that was made so."""
        return self._shown(
            lambda: self._wishes.putting(name, rhythm, consumer, payload, topic, by, options), tx, "schedules.put(…)"
        )

    def once(
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
        return self._shown(
            lambda: self._wishes.putting_once(name, at, consumer, payload, past, by), tx, "schedules.once(…)"
        )

    def alter(
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
        return self._shown(lambda: self._wishes.altering(name, rhythm, reset, by, options), tx, "schedules.alter(…)")

    def pause(self, name: str, *, reason: str = "", by: str = "app", tx: Any = None) -> ScheduleView:
        """Let it stand still until someone resumes it."""
        return self._shown(lambda: self._wishes.changes.pause(name, reason, by), tx, "schedules.pause(…)")

    def resume(self, name: str, *, by: str = "app", tx: Any = None) -> ScheduleView:
        """Let it go on with the first occurrence still to come."""
        return self._shown(lambda: self._wishes.changes.resume(name, by), tx, "schedules.resume(…)")

    def delete(self, name: str, *, by: str = "app", tx: Any = None) -> None:
        """Remove it; its history stays."""
        self._changed(lambda: self._wishes.changes.delete(name, by), tx, "schedules.delete(…)")

    def trigger(
        self, name: str, *, payload: object = MISSING, local: bool = False, by: str = "app", tx: Any = None
    ) -> Receipt:
        """Run it now, outside of its rhythm; with ``local`` in this process."""
        if tx is None or local:
            return self._run(
                lambda: self._schedules.trigger(name, payload=payload, local=local, by=by, tx=tx),
                "schedules.trigger(…)",
            )
        draft = self._wishes.triggered(name, self._schedules.join_sheet(name, tx), payload)
        self._schedules.join_enter([Occurrence(draft)], Note(by, "schedule trigger"), tx)
        return Receipt(draft.id, "stored")

    def backfill(self, name: str, start: datetime, end: datetime, *, by: str = "app", tx: Any = None) -> Instants:
        """Run it for every occurrence from ``start`` to ``end``; returns those instants."""
        if tx is None:
            return self._run(lambda: self._schedules.backfill(name, start, end, by=by), "schedules.backfill(…)")
        occurrences = self._wishes.backfilled(name, self._schedules.join_sheet(name, tx), start, end)
        if occurrences:
            self._schedules.join_enter(occurrences, Note(by, "schedule backfill", f"{start} to {end}"), tx)
        return [each.draft.at for each in occurrences if each.draft.at is not None]

    def freeze(self, *, reason: str = "", app: str | None = None, everywhere: bool = False, by: str = "app") -> None:
        """Let all schedules of an app [this one] stand still, or those of every app on this database."""
        self._run(
            lambda: self._schedules.freeze(reason=reason, app=app, everywhere=everywhere, by=by), "schedules.freeze()"
        )

    def thaw(self, *, app: str | None = None, everywhere: bool = False, by: str = "app") -> bool:
        """End a freeze. False: there was none."""
        return self._run(lambda: self._schedules.thaw(app=app, everywhere=everywhere, by=by), "schedules.thaw()")

    def _shown(self, change: Callable[[], Change], tx: object, call: str) -> ScheduleView:
        view = self._changed(change, tx, call)
        assert view is not None, "only a deletion leaves nothing to show"
        return view

    def _changed(self, change: Callable[[], Change], tx: object, call: str) -> ScheduleView | None:
        if tx is None:
            return self._run(lambda: self._schedules.write(change()), call)
        return self._schedules.join(change(), tx)
