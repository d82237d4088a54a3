"""Cron expressions: when they are due, in which zone, and their description in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, Literal, NoReturn
from zoneinfo import ZoneInfo

from mainspring.timing.cron.description import describe
from mainspring.timing.cron.fields import CronError
from mainspring.timing.cron.plan import (
    DayMatch,
    Plan,
    at_or_after,
    at_or_before,
    following,
    plan,
    preceding,
    refuse_zone,
)

__all__ = ["Cron", "CronError"]

OnGap = Literal["fire", "skip"]
"""What happens to a wall time that a zone skips: due at the end of the gap, or left out."""


class Cron:
    """The times of a recurring event: 5 fields, or 6 with seconds first, or a macro such as ``@daily``.

    An immutable value; two are equal if their texts are, but for case and white space, and their options, too.
    ``day_match="and"``: a day must match both the day of month and the day of week; ``"or"``: one is enough if both
    are restricted, as in Vixie cron (a field that begins with ``*`` or ``?`` does not restrict).

    It works on the wall clock of the zone of the given datetime. A wall time that the zone skips is due once, at the
    end of the gap (``on_gap="skip"`` leaves it out). One that occurs twice is due in its first pass, and also in the
    second if the seconds, minutes or hours have a ``*``, a range or a step.
    """

    __slots__ = ("_plan", "day_match", "expression", "on_gap")

    expression: str
    """As it was given, without surrounding white space."""
    day_match: DayMatch
    on_gap: OnGap
    _plan: Plan

    def __init__(self, expression: str, *, day_match: DayMatch = "and", on_gap: OnGap = "fire") -> None:
        if not isinstance(expression, str):
            raise CronError(repr(expression), 1, None, "it is not text; write it as in '0 9 * * MON-FRI'")
        if day_match not in {"and", "or"}:
            raise ValueError(
                f"day_match={day_match!r}: write 'and' (both day fields must match) or 'or' (one is enough)"
            )
        if on_gap not in {"fire", "skip"}:
            raise ValueError(f"on_gap={on_gap!r}: write 'fire' (at the end of the gap) or 'skip' (not at all)")
        keep = object.__setattr__
        keep(self, "_plan", plan(expression, day_match))
        keep(self, "expression", expression.strip())
        keep(self, "day_match", day_match)
        keep(self, "on_gap", on_gap)

    @property
    def has_seconds(self) -> bool:
        """Whether it has six fields."""
        return self._plan.has_seconds

    @property
    def restricts_both_days(self) -> bool:
        """Whether day of month and day of week are both restricted, so that ``day_match`` makes a difference."""
        return self._plan.restricts_both_days

    def next(self, after: datetime, *, inclusive: bool = False) -> datetime | None:
        """Return the first occurrence after ``after``, in the same zone; None if there is none.

        With ``inclusive``, ``after`` itself is returned if its own wall time matches. The end of a gap is not returned
        for a skipped time then: the gap is before it.
        """
        zone = _zone(after, "after")
        inclusive = inclusive and not after.microsecond
        wall = after.replace(tzinfo=None, microsecond=0, fold=0)
        if type(zone) is timezone:
            found = at_or_after(self._plan, wall, inclusive=inclusive)
            return None if found is None else found.replace(tzinfo=zone)
        return following(self._plan, zone, wall, after.fold, inclusive=inclusive, fires=self.on_gap == "fire")

    def previous(self, before: datetime, *, inclusive: bool = False) -> datetime | None:
        """Return the last occurrence before ``before``, or ``before`` itself with ``inclusive``; else None."""
        zone = _zone(before, "before")
        # Occurrences are whole seconds, so the second that contains ``before`` starts before it.
        inclusive = inclusive or before.microsecond > 0
        wall = before.replace(tzinfo=None, microsecond=0, fold=0)
        if type(zone) is timezone:
            found = at_or_before(self._plan, wall, inclusive=inclusive)
            return None if found is None else found.replace(tzinfo=zone)
        return preceding(self._plan, zone, wall, before.fold, inclusive=inclusive, fires=self.on_gap == "fire")

    def after(self, start: datetime, *, inclusive: bool = False) -> Iterator[datetime]:
        """Yield every occurrence after ``start``, in order; ``inclusive`` begins with ``start`` if it is one."""
        _zone(start, "start")
        return self._after(start, inclusive=inclusive)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield every occurrence from ``start``, inclusive, to ``end``, exclusive: adjacent spans can be joined."""
        _zone(start, "start")
        _zone(end, "end")
        return self._between(start, end)

    def describe(self) -> str:
        """Describe in words when it is due: ``"At 09:00, Monday through Friday"``."""
        return describe(self._plan, self.day_match)

    def _after(self, start: datetime, *, inclusive: bool) -> Iterator[datetime]:
        # Searched backwards, so that the end of a gap counts: between() must lose nothing where two spans meet.
        first = self.previous(start, inclusive=True) if inclusive and not start.microsecond else None
        if first is not None and _instant(first) == _instant(start):
            yield first
        found = self.next(start)
        while found is not None:
            yield found
            found = self.next(found)

    def _between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        last = _instant(end)
        for found in self._after(start, inclusive=True):
            if _instant(found) >= last:
                return
            yield found

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Raise: a Cron is immutable."""
        raise AttributeError(f"a Cron is immutable: create another one with a different {name}")

    def __delattr__(self, name: str) -> NoReturn:
        """Raise: a Cron is immutable."""
        raise AttributeError(f"a Cron is immutable: {name} cannot be deleted")

    def _key(self) -> tuple[str, str, str]:
        return self._plan.normal, self.day_match, self.on_gap

    def __eq__(self, other: object) -> bool:
        """Return whether both texts are equal but for case and white space, and the options are."""
        return self._key() == other._key() if isinstance(other, Cron) else NotImplemented

    def __hash__(self) -> int:
        """Return a hash consistent with equality."""
        return hash(self._key())

    def __str__(self) -> str:
        """Return the expression as it was given."""
        return self.expression

    def __repr__(self) -> str:
        """Return the call that creates it."""
        day_match = "" if self.day_match == "and" else f", day_match={self.day_match!r}"
        on_gap = "" if self.on_gap == "fire" else f", on_gap={self.on_gap!r}"
        return f"Cron({self.expression!r}{day_match}{on_gap})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments; unpickling parses them again, or finds them in the cache."""
        return _make, (self.expression, self.day_match, self.on_gap)


def _make(expression: str, day_match: DayMatch, on_gap: OnGap) -> Cron:
    return Cron(expression, day_match=day_match, on_gap=on_gap)


def _instant(when: datetime) -> timedelta:
    """Return a value to compare: datetimes of one zone ignore the fold, and conversion to UTC may overflow."""
    offset = when.utcoffset()
    assert offset is not None
    return when.replace(tzinfo=None) - datetime.min - offset  # noqa: DTZ901


def _zone(when: datetime, name: str) -> tzinfo:
    if not isinstance(when, datetime):
        raise TypeError(f"{name}={when!r} is not a datetime: write one with a zone, such as datetime.now(UTC)")
    zone = when.tzinfo
    if type(zone) is timezone or type(zone) is ZoneInfo:
        return zone
    if zone is None or when.utcoffset() is None:
        raise ValueError(
            f"{name}={when!r} has no zone, and cron needs one: write {name}.replace(tzinfo=UTC) or "
            f"{name}.replace(tzinfo=ZoneInfo('Europe/Paris'))"
        )
    refuse_zone(zone)
    return zone
