"""Edits of schedules by operators and programs: argument parsing, and pure functions that rewrite one row."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from mainspring.app.consume.consumer import Registration, registration_of
from mainspring.app.consume.consumers import Consumers
from mainspring.app.message.envelope import MISSING, Envelope, instant
from mainspring.app.names import check_schedule, check_topic
from mainspring.app.options import choice, closest, refuse_unknown
from mainspring.app.schedule.timing import TIMING, check_has_occurrences, read_timing
from mainspring.model.errors import BadOption, Misuse, Unreadable
from mainspring.model.message import Draft
from mainspring.model.schedule import NEVER, Layer, Note, Occurrence, Schedule, Timesheet
from mainspring.runtime.schedules.decisions import message
from mainspring.runtime.schedules.declarations import changes_due_time, rescheduled
from mainspring.runtime.schedules.plan import CannotPlan, Code, Plan, read_plan
from mainspring.timing.rhythm import Once

if TYPE_CHECKING:
    from mainspring.app.schedule.recurring import Recurrences

RowRewrite = Callable[[Schedule | None, datetime], Schedule | None]
"""Return the new row; raises Misuse."""


@dataclass(slots=True)
class ScheduleEdit:
    """A change to one schedule: rewrites its row, and keeps the error until the lock is released."""

    name: str
    """As stored."""
    rewrite: RowRewrite
    note: Note
    problem: Misuse | None = field(default=None, init=False)

    def how(self, _name: str, row: Schedule | None, now: datetime) -> Schedule | None:
        """See ``model.schedule.Rewrite``."""
        try:
            return self.rewrite(row, now)
        except CannotPlan as error:
            self.problem = BadOption(str(error))
        except Misuse as error:
            self.problem = error
        return row

    def outcome(self, rows: list[Schedule | None]) -> Schedule | None:
        """Return the stored row, or raise the error."""
        if self.problem is not None:
            raise self.problem
        return rows[0]


@dataclass(frozen=True, slots=True)
class Target:
    """The target of occurrences: one consumer's group, or every group of a topic. Names as stored."""

    topic: str
    group: str | None
    body: bytes
    content_type: str

    def layer(self) -> dict[str, Any]:
        """Return the target's plan fields."""
        return {
            "mode": "publish" if self.group is None else "direct",
            "topic": self.topic,
            "group": self.group,
            "payload": b64encode(self.body).decode(),
            "content_type": self.content_type,
        }


class ScheduleEdits:
    """Factory of edits to the schedules of one app. Names are as the user wrote them."""

    def __init__(self, app: str, code: Callable[[str], Code | None]) -> None:
        self._app = app
        self._code = code

    def put(self, name: str, fields: Layer, target: Target, by: str) -> ScheduleEdit:
        """Create a schedule, or redefine one made by ``put``."""
        definition = {**fields, **target.layer()}

        def rewrite(row: Schedule | None, now: datetime) -> Schedule:
            check_has_occurrences(read_plan(definition), f"the schedule {name!r}", now)
            if row is None:
                fresh = Schedule(name, self._app, "api", definition, now, now, now)
                return rescheduled(fresh, now)
            if row.origin != "api":
                raise BadOption(
                    f"the schedule {name!r} is defined by code: change it by schedules.alter({name!r}, …), or choose "
                    "another name"
                )
            if row.app != self._app:
                raise BadOption(f"the schedule {name!r} belongs to the app {row.app!r}")
            fresh = replace(row, definition=definition, edits={})
            if fresh == row:
                return row
            # A due occurrence that has not fired yet survives any change that keeps the times.
            return rescheduled(fresh, now) if row.next_at is None or changes_due_time(row, fresh) else fresh

        return self._change(name, rewrite, by, "put", str(fields.get("rhythm", "")))

    def once(self, name: str, at: datetime, target: Target, by: str, *, runs_if_past: bool) -> ScheduleEdit:
        """Create a schedule of one occurrence, or move one."""
        definition = {"rhythm": str(Once(at)), "misfire": "all", "overlap": "allow", **target.layer()}

        def rewrite(row: Schedule | None, now: datetime) -> Schedule:
            if at <= now and not runs_if_past:
                raise BadOption(f"at={at.isoformat()} has passed: give a later time, or past='run' to run it now")
            if row is not None:
                self._refuse_another(name, row)
            fresh = row or Schedule(name, self._app, "api", definition, now, now, now)
            # Not planned: a past instant is due now.
            return replace(fresh, definition=definition, edits={}, base_at=now, next_at=at)

        return self._change(name, rewrite, by, "once", at.isoformat())

    def _refuse_another(self, name: str, row: Schedule) -> None:
        rhythm = str(row.layers.get("rhythm"))
        if row.origin != "api" or row.app != self._app or not rhythm.startswith("at "):
            raise BadOption(f"there is a schedule {name!r} already, due by {rhythm!r}: choose another name")

    def alter(
        self, name: str, rhythm: object, options: Mapping[str, Any], reset: Collection[str], by: str
    ) -> ScheduleEdit:
        """Set fields at run time, or reset them to configuration and code."""

        def rewrite(row: Schedule | None, now: datetime) -> Schedule:
            found = self._found(name, row)
            kept = {field: value for field, value in found.edits.items() if field not in reset}
            beneath = {**found.definition, **found.overrides, **kept}
            fields, code = read_timing(rhythm, options, beneath, self._code(name))
            refuse_code(code)
            edits = {**kept, **fields}
            if edits == dict(found.edits):
                return found
            altered = replace(found, edits=edits)
            if not changes_due_time(found, altered):
                return altered
            check_has_occurrences(read_plan(altered.layers, self._code(name)), f"the schedule {name!r}", now)
            return rescheduled(altered, now, self._code(name))

        changed = ", ".join(sorted({each for each in options if options[each] is not None}))
        detail = f"rhythm {rhythm}" if rhythm is not None else ""
        return self._change(
            name, rewrite, by, "alter", ", ".join(filter(None, (detail, changed, *map(_undone, reset))))
        )

    def pause(self, name: str, reason: str, by: str) -> ScheduleEdit:
        """Pause it; running ones continue."""

        def rewrite(row: Schedule | None, now: datetime) -> Schedule:
            found = self._found(name, row)
            if found.paused_at is not None or (found.next_at is None and _is_once(found)):
                return (
                    found  # a past single occurrence is over: a pause would cancel its run, and resume not restore it
                )
            return replace(found, paused_at=now, paused_by=by, pause_reason=reason)

        return self._change(name, rewrite, by, "pause", reason)

    def resume(self, name: str, by: str) -> ScheduleEdit:
        """Resume with the first future occurrence."""

        def rewrite(row: Schedule | None, now: datetime) -> Schedule:
            found = self._found(name, row)
            if found.paused_at is None:
                return found
            going = replace(found, paused_at=None, paused_by=None, pause_reason=None)
            if _is_once(found):
                return going  # however late it is, it runs once
            return rescheduled(going, now, self._code(name))

        return self._change(name, rewrite, by, "resume", "")

    def delete(self, name: str, by: str) -> ScheduleEdit:
        """Delete it; its history stays."""

        def rewrite(row: Schedule | None, _now: datetime) -> None:
            found = self._found(name, row)
            if found.origin == "code" and found.retired_at is None:
                raise BadOption(
                    f"the schedule {name!r} is defined by code, which would declare it again: remove it there, or "
                    "pause it"
                )

        return self._change(name, rewrite, by, "delete", "")

    def _found(self, name: str, row: Schedule | None) -> Schedule:
        if row is None:
            raise NoSchedule(name)
        return row

    def _change(self, name: str, rewrite: RowRewrite, by: str, action: str, detail: str) -> ScheduleEdit:
        return ScheduleEdit(name, rewrite, Note(by, f"schedule {action}", detail))


class NoSchedule(BadOption):
    """Unknown schedule. ``unknown`` builds the message with a suggestion, after the row lock is released."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no schedule {name!r}")


def unknown(name: str, stored: Collection[str], in_code: Collection[str] = ()) -> BadOption:
    """Return the error for an unknown schedule, with what to do about it."""
    if name in in_code:
        return BadOption(
            f"the schedule {name!r} is in the code and not declared yet: start a worker, call "
            "app.declare() or run `mainspring declare`"
        )
    if not stored and not in_code:
        return BadOption(f"there is no schedule {name!r}, nor any other: a worker declares its own when it starts")
    hint = closest(name, {*stored, *in_code})
    return BadOption(f"there is no schedule {name!r}.{hint} `mainspring schedules list` shows all")


def refuse_code(code: Mapping[str, Collection[Any]]) -> None:
    """Raise BadOption for days computed by code: at run time only data is stored."""
    for option, functions in code.items():
        if functions:
            raise BadOption(f"{option}= with a function belongs to @app.recurring(…): at run time write days or dates")


def _is_once(row: Schedule) -> bool:
    return str(row.layers.get("rhythm")).startswith("at ")


def _undone(field: str) -> str:
    return f"{field} reset"


Past = Literal["raise", "run"]
_INSTANT = timedelta(microseconds=1)
_MOST_BACKFILLED = 1_000


class ScheduleArguments:
    """Parser of the arguments of ``app.schedules``. Every error is raised here, or under the row's lock."""

    def __init__(
        self,
        envelope: Envelope,
        consumers: Consumers,
        recurrences: Recurrences,
        app: str,
    ) -> None:
        self.changes: ScheduleEdits = ScheduleEdits(app, recurrences.code)
        self._envelope = envelope
        self._consumers = consumers
        self._recurrences = recurrences

    def putting(
        self,
        name: str,
        rhythm: object,
        consumer: object,
        payload: object,
        topic: str | None,
        by: str,
        options: Mapping[str, Any],
    ) -> ScheduleEdit:
        """Return the edit of ``put``."""
        refuse_unknown(options, TIMING, "schedules.put(…)")
        if rhythm is None:
            raise BadOption("schedules.put(name, rhythm, …) needs a rhythm: '0 9 * * mon-fri' or every('90s')")
        fields, code = read_timing(rhythm, options)
        refuse_code(code)
        return self.changes.put(check_schedule(name), fields, self._target(name, consumer, payload, topic), by)

    def putting_once(
        self, name: str, at: datetime, consumer: object, payload: object, past: Past, by: str
    ) -> ScheduleEdit:
        """Return the edit of ``once``."""
        choice(past, ("raise", "run"), "past")
        moment = instant(at, "at")
        target = self._target(check_schedule(name), consumer, payload, None)
        return self.changes.once(name, moment, target, by, runs_if_past=past == "run")

    def altering(
        self, name: str, rhythm: object, reset: Collection[str], by: str, options: Mapping[str, Any]
    ) -> ScheduleEdit:
        """Return the edit of ``alter``."""
        refuse_unknown(options, TIMING, "schedules.alter(…)")
        fields = [reset] if isinstance(reset, str) else list(reset)
        refuse_unknown(fields, ("rhythm", *TIMING), "reset=")
        if rhythm is None and not fields and not any(value is not None for value in options.values()):
            raise BadOption(f"schedules.alter({name!r}) changes nothing: give a rhythm, an option or reset=['rhythm']")
        return self.changes.alter(name, rhythm, options, fields, by)

    def triggered(self, name: str, sheet: Timesheet, payload: object) -> Draft:
        """Build a manual run's message."""
        plan = self.plan(name, sheet, holidays=(), workdays=())  # on any day
        draft = message(plan, name, None, self._envelope.identity(), manual=True)
        if payload is MISSING:
            return draft
        body, content_type = self._envelope.encode(payload, draft.topic)
        return replace(draft, payload=body, content_type=content_type)

    def backfilled(self, name: str, sheet: Timesheet, start: datetime, end: datetime) -> list[Occurrence]:
        """Return the messages of the occurrences in a span."""
        plan = self.plan(name, sheet)
        waits = None if plan.fields.overlap == "allow" else NEVER
        times = self.times(name, sheet, start, end)
        drafts = (message(plan, name, at, self._envelope.identity(), manual=True) for at in times)
        return [Occurrence(draft, waits) for draft in drafts]

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
        if not sheet.schedules:
            raise NoSchedule(name)
        try:
            return read_plan(sheet.schedules[0].layers | instead, self._recurrences.code(name))
        except CannotPlan as error:
            raise BadOption(f"the schedule {name!r} cannot be followed here: {error}") from None

    def unknown(self, name: str, everything: Timesheet) -> BadOption:
        """Return the error for a schedule that is not stored, with the closest name."""
        stored = [row.name for row in everything.schedules]
        return unknown(name, stored, [each.name for each in self._recurrences])

    def _target(self, name: str, consumer: object, payload: object, topic: str | None) -> Target:
        if (consumer is None) == (topic is None):
            raise BadOption(f"the schedule {name!r} needs a consumer, or topic=…, and not both")
        if topic is not None:
            body, content_type = self._envelope.encode(payload, check_topic(topic))
            return Target(topic, None, body, content_type)
        registration = self._registration(consumer)
        body, content_type = self._envelope.encode(payload, name)
        if registration.decode is not None:
            try:
                registration.decode(body, content_type)
            except Unreadable as error:
                raise BadOption(
                    f"the schedule {name!r} of {registration.name}, payload={payload!r}: {error}"
                ) from error
        return Target(name, registration.group, body, content_type)

    def _registration(self, consumer: object) -> Registration:
        """Return a consumer of this process: only the registry decides what may run (invariant 9)."""
        registration = registration_of(consumer)
        if registration is not None:
            return registration
        known = {each.group: each for each in self._consumers}
        if isinstance(consumer, str) and consumer in known:
            return known[consumer]
        hint = closest(consumer, known) if isinstance(consumer, str) else ""
        raise BadOption(
            f"{consumer!r} is no consumer of this app: pass the decorated function or its group's name.{hint}"
        )
