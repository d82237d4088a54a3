"""What operators and programs do to schedules, each as a pure rewriting of one row."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from mainspring.app.options import closest
from mainspring.app.timings import check_has_occurrences, read_timing
from mainspring.model.errors import BadOption, Misuse
from mainspring.model.schedule import Layer, Note, Schedule
from mainspring.runtime.schedules.plan import CannotPlan, Code, read_plan
from mainspring.runtime.schedules.reconciliation import is_due_otherwise, scheduled_anew
from mainspring.timing.rhythm import Once

Wish = Callable[[Schedule | None, datetime], Schedule | None]
"""The row as it shall be; raises Misuse."""


@dataclass(slots=True)
class Change:
    """A change to one schedule: a rewriting that keeps what went wrong until nothing is locked any more."""

    name: str
    """As it is stored."""
    wish: Wish
    note: Note
    problem: Misuse | None = field(default=None, init=False)

    def how(self, _name: str, row: Schedule | None, now: datetime) -> Schedule | None:
        """See ``model.schedule.Rewrite``."""
        try:
            return self.wish(row, now)
        except CannotPlan as error:
            self.problem = BadOption(str(error))
        except Misuse as error:
            self.problem = error
        return row

    def outcome(self, rows: list[Schedule | None]) -> Schedule | None:
        """What is stored now; raises what went wrong."""
        if self.problem is not None:
            raise self.problem
        return rows[0]


@dataclass(frozen=True, slots=True)
class Target:
    """Where the occurrences go: one consumer's group, or every group of a topic. Names as they are stored."""

    topic: str
    group: str | None
    body: bytes
    content_type: str

    def layer(self) -> dict[str, Any]:
        """The fields of a plan that say so."""
        return {
            "mode": "publish" if self.group is None else "direct",
            "topic": self.topic,
            "group": self.group,
            "payload": b64encode(self.body).decode(),
            "content_type": self.content_type,
        }


class Changes:
    """Makes the changes to the schedules of one app. Names are as the user wrote them."""

    def __init__(self, app: str, code: Callable[[str], Code | None]) -> None:
        self._app = app
        self._code = code

    def put(self, name: str, fields: Layer, target: Target, by: str) -> Change:
        """Make a schedule, or define anew one that was made so."""
        definition = {**fields, **target.layer()}

        def wish(row: Schedule | None, now: datetime) -> Schedule:
            check_has_occurrences(read_plan(definition), f"the schedule {name!r}", now)
            if row is None:
                fresh = Schedule(name, self._app, "api", definition, now, now, now)
                return scheduled_anew(fresh, now)
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
            # An occurrence that is due and has not fired yet is lost by no change that leaves the times as they are.
            return scheduled_anew(fresh, now) if row.next_at is None or is_due_otherwise(row, fresh) else fresh

        return self._change(name, wish, by, "put", str(fields.get("rhythm", "")))

    def once(self, name: str, at: datetime, target: Target, by: str, *, runs_if_past: bool) -> Change:
        """Make a schedule of one occurrence, or move one that was made so."""
        definition = {"rhythm": str(Once(at)), "misfire": "all", "overlap": "allow", **target.layer()}

        def wish(row: Schedule | None, now: datetime) -> Schedule:
            if at <= now and not runs_if_past:
                raise BadOption(f"at={at.isoformat()} has passed: give a later time, or past='run' to run it now")
            if row is not None:
                self._refuse_another(name, row)
            fresh = row or Schedule(name, self._app, "api", definition, now, now, now)
            # Not reckoned: what has passed already is due now.
            return replace(fresh, definition=definition, edits={}, base_at=now, next_at=at)

        return self._change(name, wish, by, "once", at.isoformat())

    def _refuse_another(self, name: str, row: Schedule) -> None:
        rhythm = str(row.layers.get("rhythm"))
        if row.origin != "api" or row.app != self._app or not rhythm.startswith("at "):
            raise BadOption(f"there is a schedule {name!r} already, due by {rhythm!r}: choose another name")

    def alter(self, name: str, rhythm: object, options: Mapping[str, Any], reset: Collection[str], by: str) -> Change:
        """Set fields at run time, or leave them to configuration and code again."""

        def wish(row: Schedule | None, now: datetime) -> Schedule:
            found = self._found(name, row)
            kept = {field: value for field, value in found.edits.items() if field not in reset}
            beneath = {**found.definition, **found.overrides, **kept}
            fields, code = read_timing(rhythm, options, beneath, self._code(name))
            refuse_code(code)
            edits = {**kept, **fields}
            if edits == dict(found.edits):
                return found
            altered = replace(found, edits=edits)
            if not is_due_otherwise(found, altered):
                return altered
            check_has_occurrences(read_plan(altered.layers, self._code(name)), f"the schedule {name!r}", now)
            return scheduled_anew(altered, now, self._code(name))

        changed = ", ".join(sorted({each for each in options if options[each] is not None}))
        detail = f"rhythm {rhythm}" if rhythm is not None else ""
        return self._change(name, wish, by, "alter", ", ".join(filter(None, (detail, changed, *map(_undone, reset)))))

    def pause(self, name: str, reason: str, by: str) -> Change:
        """Let it stand still; what runs goes on."""

        def wish(row: Schedule | None, now: datetime) -> Schedule:
            found = self._found(name, row)
            if found.paused_at is not None or (found.next_at is None and _is_once(found)):
                return (
                    found  # a single time that has come is over: a pause would take its run, and nothing bring it back
                )
            return replace(found, paused_at=now, paused_by=by, pause_reason=reason)

        return self._change(name, wish, by, "pause", reason)

    def resume(self, name: str, by: str) -> Change:
        """Let it go on with the first occurrence that is still to come."""

        def wish(row: Schedule | None, now: datetime) -> Schedule:
            found = self._found(name, row)
            if found.paused_at is None:
                return found
            going = replace(found, paused_at=None, paused_by=None, pause_reason=None)
            if _is_once(found):
                return going  # however late it is, it runs once
            return scheduled_anew(going, now, self._code(name))

        return self._change(name, wish, by, "resume", "")

    def delete(self, name: str, by: str) -> Change:
        """Remove it; its history stays."""

        def wish(row: Schedule | None, _now: datetime) -> None:
            found = self._found(name, row)
            if found.origin == "code" and found.retired_at is None:
                raise BadOption(
                    f"the schedule {name!r} is defined by code, which would declare it again: remove it there, or "
                    "pause it"
                )

        return self._change(name, wish, by, "delete", "")

    def _found(self, name: str, row: Schedule | None) -> Schedule:
        if row is None:
            raise NoSchedule(name)
        return row

    def _change(self, name: str, wish: Wish, by: str, action: str, detail: str) -> Change:
        return Change(name, wish, Note(by, f"schedule {action}", detail))


class NoSchedule(BadOption):
    """There is no such schedule. It is told by ``unknown``: under a lock nobody looks for the name that was meant."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no schedule {name!r}")


def unknown(name: str, stored: Collection[str], in_code: Collection[str] = ()) -> BadOption:
    """There is no such schedule: which one may be meant, or what makes it known."""
    if name in in_code:
        return BadOption(
            f"the schedule {name!r} is in the code and not declared yet: a worker does that when it starts, and so do "
            "app.declare() and `mainspring declare`"
        )
    if not stored and not in_code:
        return BadOption(f"there is no schedule {name!r}, nor any other: a worker declares its own when it starts")
    hint = closest(name, {*stored, *in_code})
    return BadOption(f"there is no schedule {name!r}.{hint} `mainspring schedules list` shows all")


def refuse_code(code: Mapping[str, Collection[Any]]) -> None:
    """Raise BadOption for days that only code can tell: at run time nothing but data is stored."""
    for option, told in code.items():
        if told:
            raise BadOption(f"{option}= with a function belongs to @app.recurring(…): at run time write days or dates")


def _is_once(row: Schedule) -> bool:
    return str(row.layers.get("rhythm")).startswith("at ")


def _undone(field: str) -> str:
    return f"{field} reset"
