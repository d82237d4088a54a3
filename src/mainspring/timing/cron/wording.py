"""A cron expression in English."""

from __future__ import annotations

from mainspring.timing.cron.fields import Field
from mainspring.timing.cron.numerals import RUN, joined, nth, pace, runs, spans, values, which
from mainspring.timing.cron.plan import DayMatch, Plan
from mainspring.timing.cron.wording_times import time_of_day

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
    said = f"{time}, {days}" if days else time
    if not months.is_every and (len(named) > 1 or month not in days):
        said = f"{said}{',' if days != 'every day' else ''} {_in_months(months)}"
    if not plan.months:
        said += ", which never comes"
    return said[0].upper() + said[1:]


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
