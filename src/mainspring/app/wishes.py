"""What callers mean by their arguments: changes to schedules, and messages outside of a rhythm."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from mainspring.app.changes import Change, Changes, NoSchedule, Target, refuse_code, unknown
from mainspring.app.consumed import registration_of
from mainspring.app.consumers import Consumers
from mainspring.app.envelope import MISSING, Envelope, instant
from mainspring.app.names import check_schedule, check_topic
from mainspring.app.options import choice, closest, refuse_unknown
from mainspring.app.registration import Registration
from mainspring.app.timings import TIMING, read_timing
from mainspring.model.errors import BadOption, Unreadable
from mainspring.model.message import Draft
from mainspring.model.schedule import NEVER, Occurrence, Timesheet
from mainspring.runtime.schedules.decisions import message
from mainspring.runtime.schedules.plan import CannotPlan, Plan, read_plan

if TYPE_CHECKING:
    from mainspring.app.recurring import Recurrences

Past = Literal["raise", "run"]
_INSTANT = timedelta(microseconds=1)
_MOST_BACKFILLED = 1_000


class Wishes:
    """Reads what is asked of schedules. Everything that can be wrong with it is found here, or under the row's lock."""

    def __init__(
        self,
        envelope: Envelope,
        consumers: Consumers,
        recurrences: Recurrences,
        app: str,
    ) -> None:
        self.changes: Changes = Changes(app, recurrences.code)
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
    ) -> Change:
        """The change that ``put`` makes."""
        refuse_unknown(options, TIMING, "schedules.put(…)")
        if rhythm is None:
            raise BadOption("schedules.put(name, rhythm, …) needs a rhythm: '0 9 * * mon-fri' or every('90s')")
        fields, code = read_timing(rhythm, options)
        refuse_code(code)
        return self.changes.put(check_schedule(name), fields, self._target(name, consumer, payload, topic), by)

    def putting_once(self, name: str, at: datetime, consumer: object, payload: object, past: Past, by: str) -> Change:
        """The change that ``once`` makes."""
        choice(past, ("raise", "run"), "past")
        moment = instant(at, "at")
        target = self._target(check_schedule(name), consumer, payload, None)
        return self.changes.once(name, moment, target, by, runs_if_past=past == "run")

    def altering(
        self, name: str, rhythm: object, reset: Collection[str], by: str, options: Mapping[str, Any]
    ) -> Change:
        """The change that ``alter`` makes."""
        refuse_unknown(options, TIMING, "schedules.alter(…)")
        fields = [reset] if isinstance(reset, str) else list(reset)
        refuse_unknown(fields, ("rhythm", *TIMING), "reset=")
        if rhythm is None and not fields and not any(value is not None for value in options.values()):
            raise BadOption(f"schedules.alter({name!r}) changes nothing: give a rhythm, an option or reset=['rhythm']")
        return self.changes.alter(name, rhythm, options, fields, by)

    def triggered(self, name: str, sheet: Timesheet, payload: object) -> Draft:
        """The message of a run by hand."""
        plan = self.plan(name, sheet, holidays=(), workdays=())  # whatever day it is
        draft = message(plan, name, None, self._envelope.identity(), manual=True)
        if payload is MISSING:
            return draft
        body, content_type = self._envelope.encode(payload, draft.topic)
        return replace(draft, payload=body, content_type=content_type)

    def backfilled(self, name: str, sheet: Timesheet, start: datetime, end: datetime) -> list[Occurrence]:
        """The messages of the occurrences in a span of time."""
        plan = self.plan(name, sheet)
        waits = None if plan.fields.overlap == "allow" else NEVER
        times = self.times(name, sheet, start, end)
        drafts = (message(plan, name, at, self._envelope.identity(), manual=True) for at in times)
        return [Occurrence(draft, waits) for draft in drafts]

    def times(self, name: str, sheet: Timesheet, start: datetime, end: datetime) -> list[datetime]:
        """The occurrences in a span of time."""
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
                    "shorter time, and the rest after it"
                )
            moment = plan.next(moment)
        return times

    def plan(self, name: str, sheet: Timesheet, **instead: object) -> Plan:
        """The plan of the schedule that was read; raises BadOption where there is none to follow."""
        if not sheet.schedules:
            raise NoSchedule(name)
        try:
            return read_plan(sheet.schedules[0].layers | instead, self._recurrences.code(name))
        except CannotPlan as error:
            raise BadOption(f"the schedule {name!r} cannot be followed here: {error}") from None

    def unknown(self, name: str, everything: Timesheet) -> BadOption:
        """There is no such schedule among all that were read, nor perhaps in the code."""
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
        """By name it must be one that this process has: nothing but the registry says what may run (invariant 9)."""
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
