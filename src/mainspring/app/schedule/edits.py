"""Edits of schedules by operators and programs: argument parsing, and pure functions that rewrite one row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from mainspring.app.consume.consumers import Consumers
from mainspring.app.message.envelope import MISSING, Envelope, instant
from mainspring.app.names import check_schedule, check_topic
from mainspring.app.options import choice, closest, given, refuse_unknown
from mainspring.app.schedule.occurrence import OCCURRENCE, OPTIONS, OccurrenceReader, target
from mainspring.app.schedule.recurring import Recurrences
from mainspring.app.schedule.timing import check_has_occurrences, read_timing
from mainspring.model.errors import BadOption, BadPayload, Conflict, Misuse
from mainspring.model.schedule import NEVER, ONCE, Note, Occurrence, Schedule, Timesheet
from mainspring.model.worker import Declarer
from mainspring.runtime.schedules.decisions import followed, message
from mainspring.runtime.schedules.declarations import changes_due_time, rescheduled
from mainspring.runtime.schedules.plan import CannotPlan, Code, Plan, read_plan
from mainspring.timing.rhythm import Once

Past = Literal["raise", "run"]
_INSTANT = timedelta(microseconds=1)
_MOST_BACKFILLED = 1_000

RowRewrite = Callable[[Schedule | None, datetime], Schedule | None]
"""Return the new row; raises Misuse."""


@dataclass(slots=True)
class ScheduleEdit:
    """A change to one schedule: rewrites its row, and keeps the error until the lock is released."""

    name: str
    """As stored."""
    rewrite: RowRewrite
    note: Note
    problem: Misuse | BadPayload | None = field(default=None, init=False)

    def how(self, _name: str, row: Schedule | None, now: datetime) -> Schedule | None:
        """See ``model.schedule.Rewrite``."""
        try:
            return self.rewrite(row, now)
        except CannotPlan as error:
            self.problem = BadOption(str(error))
        except (Misuse, BadPayload) as error:
            self.problem = error
        return row


class ScheduleEdits:
    """Reads the arguments of ``app.schedules``, and makes edits of them. Names are as the user wrote them.

    Every error is raised here, or under the row's lock.
    """

    def __init__(
        self,
        envelope: Envelope,
        consumers: Consumers,
        recurrences: Recurrences,
        elsewhere: Callable[[], Collection[str]],
        app: str,
    ) -> None:
        self.app: str = app
        self._envelope = envelope
        self._occurrences = OccurrenceReader(envelope, consumers)
        self._recurrences = recurrences
        self._elsewhere = elsewhere

    def code(self, name: str) -> Code | None:
        """Return the functions for this schedule's days."""
        return self._recurrences.code(name)

    def put(
        self,
        name: str,
        rhythm: object,
        consumer: object,
        payload: object,
        topic: str | None,
        by: str,
        options: Mapping[str, Any],
        *,
        new: bool = False,
    ) -> ScheduleEdit:
        """Create a schedule, or redefine one made by ``put`` unless it must be new."""
        if rhythm is None:
            raise BadOption(
                f"schedules.put({name!r}, …) needs a rhythm, the second argument: write schedules.put({name!r}, "
                "'0 9 * * mon-fri', consumer), or every('90s') in its place"
            )
        refuse_unknown(options, (*OPTIONS, "payload", "topic"), "schedules.put(…)")
        fields, code = read_timing(rhythm, options)
        _refuse_code(code)
        aim = self._target(check_schedule(name), consumer, payload, topic)
        definition = {**self._recurrences.defaults, **fields, **aim, **self._occurrences.read(options, aim)}

        def rewrite(row: Schedule | None, now: datetime) -> Schedule:
            check_has_occurrences(read_plan(definition), f"the schedule {name!r}", now)
            if row is None:
                fresh = Schedule(name, self.app, "api", definition, now, now, now)
                return rescheduled(fresh, now)
            if row.origin != "api":
                raise BadOption(
                    f"the schedule {name!r} is defined by code: change it by schedules.alter({name!r}, …), or choose "
                    "another name"
                )
            if row.app != self.app:
                raise BadOption(f"the schedule {name!r} belongs to the app {row.app!r}")
            fresh = replace(row, definition=definition, edits={})
            if fresh == row:
                return row
            # A due occurrence that has not fired yet survives any change that keeps the times.
            return rescheduled(fresh, now) if row.next_at is None or changes_due_time(row, fresh) else fresh

        return _edit(name, _first(name, rewrite) if new else rewrite, by, "put", str(fields.get("rhythm", "")))

    def once(
        self,
        name: str,
        at: datetime,
        consumer: object,
        payload: object,
        past: Past,
        by: str,
        options: Mapping[str, Any],
        *,
        new: bool = False,
    ) -> ScheduleEdit:
        """Create a schedule of one occurrence, or move one unless it must be new."""
        refuse_unknown(options, (*OCCURRENCE, "payload"), "schedules.once(…)")
        choice(past, get_args(Past), "past")
        moment = instant(at, "at")
        definition = {"rhythm": str(Once(moment)), "misfire": "all", "overlap": "allow"}
        aim = self._target(check_schedule(name), consumer, payload, None)
        definition |= {**aim, **self._occurrences.read(options, aim)}

        def rewrite(row: Schedule | None, now: datetime) -> Schedule:
            if moment <= now and past == "raise":
                raise BadOption(f"at={moment.isoformat()} has passed: give a later time, or past='run' to run it now")
            if row is not None and not (row.origin == "api" and row.app == self.app and _is_once(row)):
                rhythm = str(row.layers.get("rhythm"))
                raise BadOption(f"there is a schedule {name!r} already, due by {rhythm!r}: choose another name")
            fresh = row or Schedule(name, self.app, "api", definition, now, now, now)
            # Not planned: a past instant is due now.
            return replace(fresh, definition=definition, edits={}, base_at=now, next_at=moment)

        return _edit(name, _first(name, rewrite) if new else rewrite, by, "once", moment.isoformat())

    def alter(
        self, name: str, rhythm: object, reset: Collection[str], by: str, options: Mapping[str, Any]
    ) -> ScheduleEdit:
        """Set fields at run time, or reset them to configuration and code."""
        refuse_unknown(options, ("rhythm", *OPTIONS), "schedules.alter(…)")
        undone = _undone(reset)
        changed = sorted(given(options))
        if rhythm is None and not undone and not changed:
            raise BadOption(f"schedules.alter({name!r}) changes nothing: give a rhythm, an option or reset=['rhythm']")

        def rewrite(row: Schedule | None, now: datetime) -> Schedule:
            found = _found(name, row)
            edits = self._edited(name, found, rhythm, undone, options)
            if edits == dict(found.edits):
                return found
            altered = replace(found, edits=edits)
            if not changes_due_time(found, altered):
                return altered
            check_has_occurrences(read_plan(altered.layers, self.code(name)), f"the schedule {name!r}", now)
            return rescheduled(altered, now, self.code(name))

        details = [*([] if rhythm is None else [f"rhythm {rhythm}"]), *changed, *(f"{each} reset" for each in undone)]
        return _edit(name, rewrite, by, "alter", ", ".join(details))

    def _edited(
        self, name: str, row: Schedule, rhythm: object, undone: Collection[str], options: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the row's edits after these arguments of ``alter``. Raises BadOption."""
        kept = {field: value for field, value in row.edits.items() if field not in undone}
        beneath = {**row.definition, **row.overrides, **kept}
        fields, code = read_timing(rhythm, options, beneath, self.code(name))
        _refuse_code(code)
        return {**kept, **fields, **self._occurrences.read(options, beneath)}

    def altered(
        self, name: str, sheet: Timesheet, rhythm: object, reset: Collection[str], options: Mapping[str, Any]
    ) -> Plan:
        """Return the plan as it would be after ``alter`` with these arguments, if any. Raises BadOption."""
        refuse_unknown(options, ("rhythm", *OPTIONS), "schedules.next(…)")
        if rhythm is None and not reset and not given(options):
            return self.plan(name, sheet)
        row = sheet.schedules[0]
        edits = self._edited(name, row, rhythm, _undone(reset), options)
        plan = self.plan(name, replace(sheet, schedules=(replace(row, edits=edits),)))
        check_has_occurrences(plan, f"the schedule {name!r}", sheet.now)
        return plan

    def pause(self, name: str, reason: str, by: str) -> ScheduleEdit:
        """Pause it; running ones continue."""

        def rewrite(row: Schedule | None, now: datetime) -> Schedule:
            found = _found(name, row)
            if found.paused_at is not None or (found.next_at is None and _is_once(found)):
                # A past single occurrence is over: a pause would cancel its run, and resume not restore it.
                return found
            return replace(found, paused_at=now, paused_by=by, pause_reason=reason)

        return _edit(name, rewrite, by, "pause", reason)

    def resume(self, name: str, by: str) -> ScheduleEdit:
        """Resume with the first future occurrence."""

        def rewrite(row: Schedule | None, now: datetime) -> Schedule:
            found = _found(name, row)
            if found.paused_at is None:
                return found
            going = replace(found, paused_at=None, paused_by=None, pause_reason=None)
            if _is_once(found):
                return going  # however late it is, it runs once
            return rescheduled(going, now, self.code(name))

        return _edit(name, rewrite, by, "resume", "")

    def delete(self, name: str, by: str, declarers: Sequence[Declarer]) -> ScheduleEdit:
        """Delete it, unless code that these processes or this one have would declare it again; its history stays."""
        running = sorted(each.worker for each in declarers if each.start_id)

        def rewrite(row: Schedule | None, _now: datetime) -> None:
            found = _found(name, row)
            if found.origin != "code" or found.retired_at is not None:
                return
            if running or name in [each.name for each in self._recurrences]:
                where = f"the code of worker {running[0]}" if running else "the code of this app"
                raise BadOption(
                    f"the schedule {name!r} is in {where}, which would declare it again: remove it there and restart "
                    "the worker, or pause it"
                )
            if declarers:
                raise BadOption(
                    f"the schedule {name!r} was in the code that declared it by hand in the last minutes: run "
                    "`mainspring declare` with the code that no longer has it, or pause it"
                )

        return _edit(name, rewrite, by, "delete", "")

    def triggered(self, name: str, sheet: Timesheet, payload: object) -> Occurrence:
        """Build a manual run's message."""
        plan = self.plan(name, sheet, holidays=(), workdays=())  # on any day
        draft = message(plan, name, None, self._envelope.identity(), manual=True)
        if payload is not MISSING:
            remedy = f"trigger {name!r} with another payload"
            body, content_type = self._envelope.fitting(payload, draft.topic, draft.group, remedy)
            draft = replace(draft, payload=body, content_type=content_type)
        return followed(plan, draft)

    def backfilled(self, name: str, sheet: Timesheet, start: datetime, end: datetime) -> list[Occurrence]:
        """Return the messages of the occurrences in a span."""
        plan = self.plan(name, sheet)
        waits = None if plan.fields.overlap == "allow" else NEVER
        times = self.times(name, sheet, start, end)
        drafts = (message(plan, name, at, self._envelope.identity(), manual=True) for at in times)
        return [followed(plan, draft, waits) for draft in drafts]

    def times(self, name: str, sheet: Timesheet, start: datetime, end: datetime) -> list[datetime]:
        """Return the occurrences in a span."""
        first, last = instant(start, "start"), instant(end, "end")
        if last <= first:
            raise BadOption(f"end={end} is not after start={start}")
        plan = self.plan(name, sheet)
        times: list[datetime] = []
        moment = plan.next(first - _INSTANT)
        while moment is not None and moment <= last:
            times.append(moment)
            if len(times) > _MOST_BACKFILLED:
                raise BadOption(
                    f"{name!r} has more than {_MOST_BACKFILLED:,} occurrences from {start} to {end}: backfill a "
                    "shorter span, then the rest"
                )
            moment = plan.next(moment)
        return times

    def plan(self, name: str, sheet: Timesheet, **instead: object) -> Plan:
        """Return the schedule's plan; raises BadOption if it cannot be followed here."""
        try:
            return read_plan(sheet.schedules[0].layers | instead, self.code(name))
        except CannotPlan as error:
            raise BadOption(f"the schedule {name!r} cannot be followed here: {error}") from None

    def unknown(self, name: str, everything: Timesheet) -> BadOption:
        """Return the error for a schedule that is not stored, with what to do about it."""
        stored, in_code = [row.name for row in everything.schedules], [each.name for each in self._recurrences]
        if name in self._elsewhere():
            return BadOption(
                f"the schedule {name!r} has scope='fleet' and is only in the database that is the home of the fleet: "
                f"take that one, as in fleet['acme'].schedules"
            )
        if name in in_code:
            return BadOption(
                f"the schedule {name!r} is in the code and not declared yet: start a worker, call "
                "app.declare() or run `mainspring declare`"
            )
        if not stored and not in_code:
            return BadOption(f"there is no schedule {name!r}, nor any other: a worker declares its own when it starts")
        hint = closest(name, {*stored, *in_code})
        return BadOption(f"there is no schedule {name!r}.{hint} `mainspring schedules list` shows all")

    def _target(self, name: str, consumer: object, payload: object, topic: str | None) -> dict[str, Any]:
        """Return the plan fields of its target: one consumer's group, or every group of a topic."""
        if (consumer is None) == (topic is None):
            raise BadOption(f"the schedule {name!r} needs a consumer, or topic=…, and not both")
        if topic is not None:
            remedy = f"change the payload of the schedule {name!r}"
            return target("publish", topic, None, *self._envelope.fitting(payload, check_topic(topic), None, remedy))
        return self._occurrences.target(name, consumer, payload)


class NoSchedule(BadOption):
    """Unknown schedule. ``ScheduleEdits.unknown`` builds the message with a suggestion, after the lock is released."""


def _edit(name: str, rewrite: RowRewrite, by: str, action: str, detail: str) -> ScheduleEdit:
    return ScheduleEdit(name, rewrite, Note(by, f"schedule {action}", detail))


def _first(name: str, rewrite: RowRewrite) -> RowRewrite:
    """Return the rewrite for a name that must be new: it is decided under the row's lock, of two at once for one."""

    def create(row: Schedule | None, now: datetime) -> Schedule | None:
        if row is not None:
            raise Conflict(f"there is a schedule {name!r} already: edit that one, or choose another name")
        return rewrite(row, now)

    return create


def _found(name: str, row: Schedule | None) -> Schedule:
    if row is None:
        raise NoSchedule(f"there is no schedule {name!r}")
    return row


def _undone(reset: Collection[str]) -> list[str]:
    undone = [reset] if isinstance(reset, str) else list(reset)
    refuse_unknown(undone, ("rhythm", *OPTIONS), "reset=")
    return undone


def _refuse_code(code: Mapping[str, Collection[Any]]) -> None:
    """Raise BadOption for what code decides: at run time only data is stored."""
    for option, functions in code.items():
        if functions:
            instead = "'queue empty'" if option == "only_if" else "days or dates"
            raise BadOption(f"{option}= with a function belongs to @app.recurring(…): at run time write {instead}")


def _is_once(row: Schedule) -> bool:
    return str(row.layers.get("rhythm")).startswith(ONCE)
