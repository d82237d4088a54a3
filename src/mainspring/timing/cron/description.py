"""A cron expression in English."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from mainspring.timing.cron.fields import Field
from mainspring.timing.cron.plan import DayMatch, Plan

_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def describe(plan: Plan, day_match: DayMatch) -> str:
    """Describe when ``plan`` is due, and how its two day fields combine if both are restricted."""
    seconds, minutes, hours, dom, months, dow = plan.fields
    time = time_of_day(seconds, minutes, hours)
    named = [_MONTHS[month - 1] for month in values(months.mask)]
    month = named[0] if len(named) == 1 else "the month"
    days = _days(dom, dow, month, either=plan.restricts_both_days and day_match == "or")
    if not days and time.startswith("at ") and "every" not in time:
        days = "every day"
    text = f"{time}, {days}" if days else time
    if not months.is_every and (len(named) > 1 or month not in days):
        text = f"{text}{',' if days != 'every day' else ''} {_in_months(months)}"
    if not plan.months:
        text += ", which never comes"
    return text[0].upper() + text[1:]


def _in_months(months: Field) -> str:
    rows = runs([month - 1 for month in values(months.mask)], len(_MONTHS))
    words = spans(rows, lambda month: _MONTHS[month], len(_MONTHS))
    return f"from {words[0]}" if len(words) == 1 and "through" in words[0] else f"in {joined(words)}"


def _days(dom: Field, dow: Field, month: str, *, either: bool) -> str:
    if dom.is_every:
        return "" if dow.is_every else _on_weekdays(dow, month)
    by_date = _on_dates(dom, month)
    if dow.is_every:
        return by_date
    if either:
        also = _on_weekdays(dow, month, every=True)
        # The month is named with the date, but applies to both.
        return f"{by_date}, and also {also}" + ("" if month in also or month == "the month" else f" in {month}")
    return f"{by_date} and only if that is {_a_weekday(dow, month)}"


def _on_dates(dom: Field, month: str) -> str:
    if dom.from_end is not None:
        count = f"{dom.from_end} day{'s' if dom.from_end > 1 else ''} before " if dom.from_end else ""
        if not dom.nearest:
            return f"{'' if count else 'on '}{count}the last day of {month}"
        if not count:
            return f"on the last weekday (Monday to Friday) of {month}"
        return f"on the weekday (Monday to Friday) nearest to {count}the last day of {month}"
    found = values(dom.mask)
    if dom.nearest:
        return f"on the weekday (Monday to Friday) nearest to day {found[0]} of {month}"
    step = pace(found)
    if step > 1:
        return f"on every {nth(step)} day of {month} from day {found[0]} through day {found[-1]}"
    return f"on day{'s' if len(found) > 1 else ''} {joined(spans(runs(found), str))} of {month}"


def _on_weekdays(dow: Field, month: str, *, every: bool = False) -> str:
    if dow.nth:
        return f"on {_a_weekday(dow, month)}"
    words, long = _weekdays(dow)
    if long:
        return joined(words)
    return f"on every {joined(words)}" if every else f"on {joined([word + 's' for word in words])}"


def _a_weekday(dow: Field, month: str) -> str:
    """Describe the weekday that a day must be, as in: if that is a Friday."""
    words, long = _weekdays(dow)
    if dow.nth:
        return f"the {which(dow.nth)} {words[0]} of {month}"
    return f"a day from {joined(words, 'or')}" if long and len(words) == 1 else f"a {joined(words, 'or')}"


def _weekdays(dow: Field) -> tuple[list[str], bool]:
    """Return the days in words, and whether some are described as a range."""
    rows = runs(values(dow.mask), len(_WEEKDAYS))
    rows.sort(key=lambda row: (row[0] - 1) % 7)  # weeks are described from Monday on
    long = any((high - low) % len(_WEEKDAYS) + 1 >= RUN for low, high in rows)
    return spans(rows, lambda day: _WEEKDAYS[day], len(_WEEKDAYS)), long


_FEW, _SEVERAL = 4, 6
_FULL = {"second": 60, "minute": 60, "hour": 24}


def time_of_day(seconds: Field, minutes: Field, hours: Field) -> str:
    """Describe when within a day: single times if they are few, a rhythm if there is one, lists otherwise."""
    ss, mm, hh = values(seconds.mask), values(minutes.mask), values(hours.mask)
    count = len(ss) * len(mm) * len(hh)
    rhythm = seconds.is_interval or minutes.is_interval or (hours.is_interval and count > _FEW)
    if count <= _SEVERAL and (not rhythm or count == 1):
        return f"at {joined([_clock(h, m, s, exact=any(ss)) for h in hh for m in mm for s in ss])}"
    if len(ss) > 1:
        return _by_second(ss, mm, hh)
    if len(mm) > 1:
        moment = f"at second {ss[0]}, " if ss[0] else ""
        return f"{moment}{_by_minute(mm, hh)}"
    return _by_hour(ss[0], mm[0], hh)


def _by_second(ss: Sequence[int], mm: Sequence[int], hh: Sequence[int]) -> str:
    rhythm = _rhythm("second", ss)
    if len(mm) == _FULL["minute"]:
        if len(hh) == _FULL["hour"]:
            return rhythm if _is_steady("second", ss) else f"{rhythm} of every minute"
        return f"{rhythm}{'' if _is_steady('second', ss) else ' of every minute,'} {_within(hh)}"
    if len(mm) * len(hh) <= _FEW:
        times = [_clock(h, m) for h in hh for m in mm]
        return f"{rhythm} of the minute{'s' if len(times) > 1 else ''} {joined(times)}"
    step = pace(mm)
    if step > 1:
        chosen = f"every {nth(step)} minute from minute {mm[0]} through {mm[-1]}"
    else:
        chosen = f"minute{'s' if len(mm) > 1 else ''} {joined(spans(runs(mm), str))}"
    return f"{rhythm} of {chosen} of every hour{'' if len(hh) == _FULL['hour'] else ' ' + _within(hh)}"


def _by_minute(mm: Sequence[int], hh: Sequence[int]) -> str:
    rhythm = _rhythm("minute", mm)
    if len(hh) == _FULL["hour"]:
        return rhythm if _is_steady("minute", mm) else f"{rhythm} of every hour"
    return f"{rhythm}{'' if _is_steady('minute', mm) else ' of every hour'} {_within(hh)}"


def _by_hour(second: int, minute: int, hh: Sequence[int]) -> str:
    rows = runs(hh, _FULL["hour"])
    step = pace(hh)
    if len(hh) == _FULL["hour"]:
        if not minute and not second:
            return "every hour"
        past = [f"{n} {unit}{'s' if n > 1 else ''}" for n, unit in ((minute, "minute"), (second, "second")) if n]
        return f"at {joined(past)} past every hour"
    if len(rows) == 1:
        return f"every hour from {_clock(rows[0][0], minute, second)} through {_clock(rows[0][1], minute, second)}"
    if step > 1:
        return f"every {step} hours from {_clock(hh[0], minute, second)} through {_clock(hh[-1], minute, second)}"
    return f"at {joined([_clock(hour, minute, second) for hour in hh])}"


def _rhythm(unit: str, found: Sequence[int]) -> str:
    step = found[1] - found[0] if _is_steady(unit, found) else pace(found)
    often = f"every {unit}" if step == 1 else f"every {step} {unit}s"
    if _is_steady(unit, found):
        return often
    if step:
        return f"{often} from {unit} {found[0]} through {found[-1]}"
    return f"at {unit}{'s' if len(found) > 1 else ''} {joined(spans(runs(found), str))}"


def _is_steady(unit: str, found: Sequence[int]) -> bool:
    """Return whether the rhythm continues from one minute or hour to the next without a break."""
    step = found[1] - found[0] if len(found) > 1 else 0
    return bool(step) and list(found) == list(range(0, _FULL[unit], step)) and _FULL[unit] % step == 0


def _within(hh: Sequence[int]) -> str:
    rows = runs(hh, _FULL["hour"])
    if len(rows) <= RUN:
        return joined([f"between {_clock(low, 0)} and {_clock(high, 59)}" for low, high in rows])
    step = pace(hh)
    if step > 1:
        return f"in every {nth(step)} hour from {_clock(hh[0], 0)} through {_clock(hh[-1], 59)}"
    return f"in the hours {joined(spans(rows, lambda hour: f'{hour:02}', _FULL['hour']))}"


def _clock(hour: int, minute: int, second: int = 0, *, exact: bool = False) -> str:
    return f"{hour:02}:{minute:02}:{second:02}" if exact or second else f"{hour:02}:{minute:02}"


RUN = 3
"""From this many on, a run is described by its first and last value."""
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
_TEENS = range(10, 20)


def values(mask: int) -> list[int]:
    """Return the bits that are set."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def runs(found: Sequence[int], size: int = 0) -> list[tuple[int, int]]:
    """Return the first and last of each run; with ``size`` the values are a circle and a run may wrap around."""
    rows: list[tuple[int, int]] = []
    for value in found:
        if rows and rows[-1][1] == value - 1:
            rows[-1] = (rows[-1][0], value)
        else:
            rows.append((value, value))
    if size and len(rows) > 1 and rows[0][0] == 0 and rows[-1][1] == size - 1:
        return [*rows[1:-1], (rows[-1][0], rows[0][1])]
    return rows


def pace(found: Sequence[int]) -> int:
    """Return the step between the values if it is constant and there are enough of them, else 0."""
    if len(found) < RUN:
        return 0
    step = found[1] - found[0]
    return step if all(after - before == step for before, after in pairwise(found)) else 0


def joined(words: Sequence[str], last: str = "and") -> str:
    """Join words: one, one and another; or one, another and a third."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def spans(rows: Sequence[tuple[int, int]], name: Callable[[int], str], size: int = 0) -> list[str]:
    """Describe each run: long ones by their ends, short ones by every value."""
    words: list[str] = []
    for low, high in rows:
        length = (high - low) % size if size else high - low
        if length + 1 >= RUN:
            words.append(f"{name(low)} through {name(high)}")
        else:
            words.extend(name((low + more) % size if size else low + more) for more in range(length + 1))
    return words


def nth(number: int) -> str:
    """Format in figures: 2nd, 3rd, 11th."""
    return f"{number}{'th' if number % 100 in _TEENS else _ENDINGS.get(number % 10, 'th')}"


def which(number: int) -> str:
    """Format in letters: first to fifth, and last for −1."""
    return _ORDINALS.get(number, "last")
