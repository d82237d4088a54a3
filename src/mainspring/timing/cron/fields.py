"""Parses a cron expression into its fields: what each may contain, and what an invalid one may mean."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import NoReturn

_SPACE = re.compile(r"\s")


class CronError(ValueError):
    """Raised for text that is not a cron expression.

    ``column`` counts from 1 in the text as it was given; ``field`` is the name of the wrong field, or None for the
    expression as a whole. The message ends with the expression and a caret below the column.
    """

    def __init__(self, expression: str, column: int, field: str | None, problem: str) -> None:
        super().__init__(expression, column, field, problem)  # the arguments themselves, so that it can be pickled
        self.expression: str = expression
        self.column: int = column
        self.field: str | None = field
        self.problem: str = problem

    def __str__(self) -> str:
        """Format the field, what was found and what is allowed there, then show the position."""
        where = f"{self.field}: " if self.field else ""
        # A tab or a line break would misplace the caret.
        shown = _SPACE.sub(" ", self.expression)
        return f"bad cron expression: {where}{self.problem}\n  {shown}\n  {' ' * (self.column - 1)}^"


_REST = {
    "L": {
        "days of month": "; L stands alone, as L-3 or as LW, not in a list or a range",
        "days of week": "; L follows a single day, as in FRIL; the last day of the week is SAT",
    },
    "W": {
        "days of month": "; W follows a single day, as in 15W or LW",
        "days of week": "; W belongs to the days of month, and Monday to Friday is MON-FRI",
    },
    "#": {"days of week": "; # follows a single day, as in MON#1"},
}
_LARGER = {
    "seconds": "; for once a minute write one second, such as 0",
    "minutes": "; for once an hour write one minute, such as 0",
    "hours": "; for once a day write one hour, such as 0",
    "days of month": "; for once a month write one day, such as 1",
    "months": "; for once a year write one month, such as JAN",
    "days of week": "; for once a week write one day, such as MON",
}
_ELSEWHERE = dict.fromkeys(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), "; days of week are the last field")
_NEXT = {("minutes", "60"): "; write 0", ("seconds", "60"): "; write 0", ("hours", "24"): "; midnight is 0"}


def hint(about: str, field: str = "", found: str = "", names: tuple[str, ...] = ()) -> str:
    """Return advice to end a message with, empty if there is none."""
    if about == "step":
        return "; a step is at least 1" if found.strip("0") == "" else _LARGER[field]
    if about == "value":
        return _NEXT.get((field, found), "")
    if about == "name":
        meant = _meant(found.upper(), names)
        if meant:
            return f"; did you mean {meant}?"
        if found.upper() == "H":
            return "; the H of Jenkins is not supported, and jitter= spreads starts"
        if len(found) > len("LW"):
            return _ELSEWHERE.get(found[:3].upper(), "")
    return _REST.get(found[:1].upper(), {}).get(field, "")


def _meant(found: str, names: tuple[str, ...]) -> str:
    for name in names:
        if found.startswith(name) or sorted(found) == sorted(name):
            return name
    return next(iter(difflib.get_close_matches(found, names, 1, 0.6)), "")


def nearest_macro(found: str, known: tuple[str, ...]) -> str:
    """Return the macro that was most likely meant, as a question, or nothing."""
    if found.lower() == "@reboot":
        return "; a schedule follows the clock, not the start of a process"
    word = found.lower().removeprefix("@every_").removeprefix("@every").lstrip("@")
    alike = {"hour": "@hourly", "day": "@daily", "week": "@weekly", "month": "@monthly", "year": "@yearly"}
    near = [alike[word]] if word in alike else difflib.get_close_matches(found.lower(), known, 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


_NUMBER = re.compile(r"[0-9]+")
_NAME = re.compile(r"[A-Za-z]+")
_LONG = 6
"""Longer numbers are shortened in messages, and are too large in any case."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field may contain. ``last`` of the days of week is 7, which is Sunday again."""

    name: str
    first: int
    last: int
    size: int
    names: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The values, for messages."""
        words = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.first}-{self.last}{words}"


_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

SECONDS = Kind("seconds", 0, 59, 60)
MINUTES = Kind("minutes", 0, 59, 60)
HOURS = Kind("hours", 0, 23, 24)
DAYS = Kind("days of month", 1, 31, 31)
MONTHS = Kind("months", 1, 12, 12, _MONTH_NAMES)
WEEKDAYS = Kind("days of week", 0, 7, 7, _DAY_NAMES)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a list: ``low`` to ``high`` by ``step``; it wraps around if ``high`` is the lower."""

    low: int
    high: int
    step: int = 1
    spans: bool = False
    """Whether it was written as ``*``, a range or a step, not as a single value."""


@dataclass(frozen=True, slots=True)
class Field:
    """One parsed field. ``mask`` has a bit for every value; 7 of the days of week is bit 0."""

    kind: Kind
    mask: int
    parts: tuple[Part, ...]
    star: bool = False
    """Written with a leading ``*`` or ``?``: such a day field does not restrict, as in every cron."""
    from_end: int | None = None
    """``L`` and ``L-n``: so many days before the last of the month."""
    nearest: bool = False
    """``W``: the weekday that is nearest to the day."""
    nth: int = 0
    """``#k`` is k, ``L`` after a day of week is −1."""

    @property
    def is_every(self) -> bool:
        """Whether it matches every value."""
        return self.star and self.parts[0].step == 1

    @property
    def is_interval(self) -> bool:
        """Whether a part of it is ``*``, a range or a step."""
        return any(part.spans for part in self.parts)


def read(kind: Kind, text: str, whole: str, start: int) -> Field:
    """Parse ``text``, the field that begins at index ``start`` of the ``whole`` expression."""
    return _Reader(kind, text, whole, start).field()


class _Reader:
    """Parses one field from left to right; every error has its column."""

    def __init__(self, kind: Kind, text: str, whole: str, start: int) -> None:
        self.kind, self.text, self.whole, self.start = kind, text, whole, start
        self.at = 0

    def field(self) -> Field:
        kind = self.kind
        if self._accept("*?"):
            part = Part(kind.first, kind.last, self._step(), spans=True)
            if self._peek() == ",":
                every = f"{kind.first}-{kind.last}"
                self._refuse(f"{self.text[0]!r} cannot be in a list; write {every} or {every}/n in its place there")
            return self._finish(Field(kind, _mask(kind, part), (part,), star=True))
        if kind is DAYS and self._peek() == "L":
            return self._finish(self._from_end())
        parts = [self._part()]
        special = None if parts[0].spans else self._special(parts[0])
        if special is not None:
            return self._finish(special)
        while self._accept(","):
            parts.append(self._part())
        mask = 0
        for part in parts:
            mask |= _mask(kind, part)
        return self._finish(Field(kind, mask, tuple(parts)))

    def _part(self) -> Part:
        low = self._value()
        if self._accept("-"):
            high = self._value()
            return Part(low, high, self._step(), spans=True)
        if self._peek() == "/":
            return Part(low, self.kind.last, self._step(), spans=True)
        return Part(low, low)

    def _special(self, part: Part) -> Field | None:
        if self.kind is DAYS and self._accept("W"):
            return Field(DAYS, 1 << part.low, (part,), nearest=True)
        if self.kind is not WEEKDAYS:
            return None
        mask = _mask(WEEKDAYS, part)
        if self._accept("L"):
            return Field(WEEKDAYS, mask, (part,), nth=-1)
        if self._accept("#"):
            return Field(WEEKDAYS, mask, (part,), nth=self._number(1, 5, "1-5, which one in the month"))
        return None

    def _from_end(self) -> Field:
        self._accept("L")
        days = self._number(0, 30, "0-30, the days before the last") if self._accept("-") else 0
        return Field(DAYS, 0, (), from_end=days, nearest=self._accept("W"))

    def _step(self) -> int:
        if not self._accept("/"):
            return 1
        return self._number(1, self.kind.last, f"a step of 1-{self.kind.last}", "step")

    def _value(self) -> int:
        name = _NAME.match(self.text, self.at)
        if name is None:
            return self._number(self.kind.first, self.kind.last, self.kind.allowed)
        known = self.kind.names.index(name[0][:3].upper()) if name[0][:3].upper() in self.kind.names else None
        end = name[0][3:].upper()
        # A day of week may have an L after it; any other suffix makes it part of a longer word.
        if known is None or end not in {"", "L"} or (end and self.kind is not WEEKDAYS):
            advice = hint("name", self.kind.name, name[0], self.kind.names)
            self._refuse(f"found {name[0]!r}, allowed: {self._allowed()}{advice}")
        self.at += 3
        return self.kind.first + known

    def _number(self, low: int, high: int, allowed: str, what: str = "value") -> int:
        digits = _NUMBER.match(self.text, self.at)
        if digits is None:
            behind, ahead = self.text[: self.at], self.text[self.at :]
            after = f" after {behind!r}" if behind else ""
            found = f"found {ahead!r}{after}" if ahead else f"nothing follows {behind!r}"
            self._refuse(f"{found}, allowed: {allowed}")
        number = int(digits[0]) if len(digits[0]) <= _LONG else high + 1
        if not low <= number <= high:
            shown = digits[0] if len(digits[0]) <= _LONG else f"{digits[0][:_LONG]}…"
            self._refuse(f"found {shown}, allowed: {allowed}{hint(what, self.kind.name, shown)}")
        self.at = digits.end()
        return number

    def _finish(self, field: Field) -> Field:
        if self.at < len(self.text):
            rest = self.text[self.at :]
            after = f" after {self.text[: self.at]!r}" if self.at else ""
            # In `L,15` and `MON#1,TUE` the list is the error, but the L or # is what forbids it.
            near = rest if rest[0].upper() in "LW#" else self.text[self.at - 1] if "#" not in self.text else "#"
            advice = hint("rest", self.kind.name, near)
            self._refuse(f"found {rest!r}{after}, allowed: {self._allowed()}{advice}")
        return field

    def _allowed(self) -> str:
        more = {DAYS.name: ", L, W", WEEKDAYS.name: ", L or # after one day"}.get(self.kind.name, "")
        return f"{self.kind.allowed}, and * ? , - /{more}"

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1].upper()

    def _accept(self, characters: str) -> bool:
        found = self._peek()
        if not found or found not in characters:
            return False
        self.at += 1
        return True

    def _refuse(self, problem: str) -> NoReturn:
        # What is missing at the end is marked at the last character.
        at = min(self.at, len(self.text) - 1)
        raise CronError(self.whole, self.start + at + 1, self.kind.name, problem)


def _mask(kind: Kind, part: Part) -> int:
    high = part.high if part.high >= part.low else part.high + kind.size
    mask = 0
    for value in range(part.low, high + 1, part.step):
        mask |= 1 << (value - kind.size if value >= kind.first + kind.size else value)
    return mask


MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@every_minute": "* * * * *",
    "@every_second": "* * * * * *",
}
_KINDS = (SECONDS, MINUTES, HOURS, DAYS, MONTHS, WEEKDAYS)
_WORD = re.compile(r"\S+")
_FIVE, _SIX = 5, 6


def read_fields(expression: str) -> tuple[str, tuple[Field, ...]]:
    """Return the expression in capitals, with single spaces and macros expanded, and its six fields."""
    words = [(found.start(), found[0]) for found in _WORD.finditer(expression)]
    if not words:
        raise CronError(expression, 1, None, f"it is empty; {_fields_wanted()}")
    start, first = words[0]
    if first.upper().startswith(("TZ=", "CRON_TZ=")):
        problem = f"found {first!r}, but the zone is not part of an expression: pass it as timezone="
        raise CronError(expression, start + 1, None, problem)
    whole = expression
    if first.startswith("@"):
        whole = _macro(expression, words)
        words = [(found.start(), found[0]) for found in _WORD.finditer(whole)]
    _check_count(whole, words)
    kinds = _KINDS[-len(words) :]
    fields = [read(kind, text, whole, start) for kind, (start, text) in zip(kinds, words, strict=True)]
    if len(words) == _FIVE:
        fields.insert(0, read(SECONDS, "0", "0", 0))
    return " ".join(text for _, text in words).upper(), tuple(fields)


def _macro(expression: str, words: list[tuple[int, str]]) -> str:
    start, name = words[0]
    meaning = MACROS.get(name.lower())
    if meaning is None:
        near = nearest_macro(name, tuple(MACROS))
        raise CronError(expression, start + 1, None, f"found {name!r}, allowed: {', '.join(MACROS)}{near}")
    if len(words) > 1:
        raise CronError(expression, words[1][0] + 1, None, f"found {words[1][1]!r}, but {name} stands alone")
    return meaning


def _check_count(expression: str, words: list[tuple[int, str]]) -> None:
    if _FIVE <= len(words) <= _SIX:
        return
    if len(words) == 1:
        start, word = words[0]
        near = nearest_macro("@" + word, tuple(MACROS))
        raise CronError(expression, start + 1, None, f"found only {word!r}; {_fields_wanted()}{near}")
    if len(words) < _FIVE:
        raise CronError(expression, words[-1][0] + 1, None, f"it ends after {len(words)} fields; {_fields_wanted()}")
    start, word = words[_SIX]
    year = "; a year field is not supported" if len(words) == _SIX + 1 else ""
    raise CronError(expression, start + 1, None, f"found {word!r} as one field too many{year}; {_fields_wanted()}")


def _fields_wanted() -> str:
    names = [kind.name for kind in _KINDS]
    return f"write 5 fields ({', '.join(names[1:])}), or 6 with {names[0]} first, or a macro such as @daily"
