"""A schedule's plan: when it is due, and its policies for being late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import msgspec

from mainspring.model.errors import BadOption, MissingExtra
from mainspring.model.interrupts import is_interrupt
from mainspring.model.message import Priority
from mainspring.model.schedule import MISFIRE_AFTER, DeadLetters, Misfire, Mode, Overlap
from mainspring.model.text import described
from mainspring.runtime.verdicts import refuse_unawaited
from mainspring.timing.calendar import Days, DayTest, read_days, zone
from mainspring.timing.rhythm import Rhythm, read_rhythm

COUNTRY = "country:"
"""The prefix of a stored country: ``country:DE``, ``country:DE-BY``."""
CODE = "code:"
"""The prefix of days, and of a condition, that only code can decide; the rest is for people."""


@lru_cache(maxsize=64)
def country_days(place: str, option: str) -> DayTest:
    """Return a test for public holidays of ``"DE"``, or of its subdivision ``"DE-BY"``; errors name ``option``."""
    try:
        import holidays
    except ImportError as error:
        raise MissingExtra(
            "holidays", "holidays", f"{option}={place!r}, which is no weekday and so a country,"
        ) from error
    country, _, subdivision = place.upper().partition("-")
    try:
        known: Any = holidays.country_holidays(country, subdiv=subdivision or None)
    except NotImplementedError:
        parts = holidays.list_supported_countries().get(country)
        raise BadOption(f"{option}={place!r} {_unknown(country, parts)}") from None

    def test(day: date) -> bool:
        return day in known

    return test


def _unknown(country: str, parts: Sequence[str] | None) -> str:
    if parts is None:
        return (
            "is neither a weekday ('sat', 'mon-fri'), a date ('2026-12-25') nor a country that the holidays package "
            "knows: those are written by their codes, as in 'DE' or 'US'"
        )
    written = ", ".join(each for each in parts if each.isupper() or each.isdigit())
    if not written:
        return f"is no part of {country} that the holidays package knows: write {country!r}"
    return f"is no part of {country} that the holidays package knows: write {country}- and one of {written}"


_CLOSED_DAYS = 4000
"""How many closed days in a row are searched: more than ten years of them count as for ever."""
_INSTANT = timedelta(microseconds=1)
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=timedelta(days=366).total_seconds())]
_Instant = Annotated[datetime, msgspec.Meta(tz=True)]


class Following(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What follows an occurrence that has ended: a message to one consumer's group."""

    topic: str
    group: str
    payload: bytes = b"null"
    content_type: str = "application/json"


class Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a plan as they are stored, with their defaults."""

    rhythm: str
    timezone: str = "UTC"
    day_match: Literal["and", "or"] = "and"
    on_gap: Literal["fire", "skip"] = "fire"
    misfire: Misfire = "latest"
    misfire_after: _Seconds = MISFIRE_AFTER.total_seconds()
    catch_up: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 100
    overlap: Overlap = "skip"
    jitter: _Seconds = 0.0
    start: _Instant | None = None
    end: _Instant | None = None
    holidays: tuple[str, ...] = ()
    workdays: tuple[str, ...] = ()
    only_if: str | None = None
    mode: Mode = "direct"
    topic: str = ""
    group: str | None = None
    payload: bytes = b"null"
    content_type: str = "application/json"
    priority: Annotated[int, msgspec.Meta(ge=int(min(Priority)), le=int(max(Priority)))] = Priority.NORMAL
    headers: dict[str, str] = {}
    key: str | None = None
    correlation_id: str | None = None
    # Read where it is used: a policy of a later release is no reason not to run.
    retry: str | dict[str, Any] | None = None
    timeout: Annotated[float, msgspec.Meta(gt=0)] | Literal["none"] | None = None
    dead: DeadLetters | None = None
    then: Following | None = None
    failed: Following | None = None


class CannotPlan(ValueError):
    """Raised for a stored plan that this node cannot follow: it is left to a node that can."""


@dataclass(frozen=True, slots=True)
class Plan:
    """When a schedule is due, in UTC, and its policies."""

    fields: Fields
    rhythm: Rhythm
    zone: ZoneInfo
    holidays: Days | None
    workdays: Days | None

    def next(self, after: datetime) -> datetime | None:
        """Return the first occurrence after this instant, None if there is none."""
        start, end = self.fields.start, self.fields.end
        moment = after if start is None or start <= after else start - _INSTANT
        for _ in range(_CLOSED_DAYS):
            found = self.rhythm.next(moment.astimezone(self.zone))
            if found is None or (end is not None and found > end):
                return None
            if self._is_open(found):
                return found.astimezone(UTC)
            # Skip the whole closed day.
            day = found.astimezone(self.zone).date()
            morning = datetime.combine(day + timedelta(days=1), time(), self.zone).astimezone(UTC) - _INSTANT
            # Never backwards: clocks set back just after midnight reach it twice.
            moment = max(morning, found.astimezone(UTC))
        return None

    def previous(self, before: datetime) -> datetime | None:
        """Return the last occurrence at or before this instant."""
        start, end = self.fields.start, self.fields.end
        moment = (before if end is None else min(before, end)) + _INSTANT
        for _ in range(_CLOSED_DAYS):
            found = self.rhythm.previous(moment.astimezone(self.zone))
            if found is None or (start is not None and found < start):
                return None
            if self._is_open(found):
                return found.astimezone(UTC)
            day = found.astimezone(self.zone).date()
            moment = datetime.combine(day, time(), self.zone).astimezone(UTC)
        return None

    def _is_open(self, found: datetime) -> bool:
        if self.holidays is None and self.workdays is None:
            return True
        day = found.astimezone(self.zone).date()
        return (self.workdays is None or day in self.workdays) and (self.holidays is None or day not in self.holidays)


Code = Mapping[str, tuple[Callable[..., Any], ...]]
"""By field, the callables and containers that decide on days, and the function of ``only_if``."""


def read_plan(layers: Mapping[str, Any], code: Code | None = None) -> Plan:
    """Return the plan of these fields. Raises CannotPlan, naming the field that is invalid here."""
    try:
        fields = msgspec.convert(dict(layers), Fields, strict=False)
    except (msgspec.ValidationError, TypeError) as error:
        raise CannotPlan(str(error)) from error
    try:
        return Plan(
            fields,
            read_rhythm(fields.rhythm, day_match=fields.day_match, on_gap=fields.on_gap, anchor=fields.start),
            zone(fields.timezone),
            _days("holidays", fields.holidays, code),
            _days("workdays", fields.workdays, code),
        )
    except (ValueError, ImportError) as error:
        raise CannotPlan(str(error)) from error


def _days(field: str, written: tuple[str, ...], code: Code | None) -> Days | None:
    if not written:
        return None
    by_code = iter((code or {}).get(field, ()))

    def read_other(text: str) -> DayTest:
        if text.startswith(COUNTRY):
            return country_days(text[len(COUNTRY) :], field)
        if text.startswith(CODE) and (found := next(by_code, None)) is not None:
            return _guarded(found, f"{field}: {text[len(CODE) :]}")
        if text.startswith(CODE):
            raise CannotPlan(f"{field} is decided by {text[len(CODE) :]}, which this process does not have")
        raise CannotPlan(f"{field}={text!r} is neither a weekday, a date nor country:…")

    return read_days(written, read_other)


def _guarded(test: DayTest, what: str) -> DayTest:
    # A user's function that fails stops only this schedule.
    def guarded(day: date) -> bool:
        try:
            result = test(day)
            refuse_unawaited(result, "it")
            return bool(result)
        except BaseException as error:
            if is_interrupt(error):
                raise
            raise CannotPlan(f"{what} failed for {day}: {described(error)}") from error

    return guarded
