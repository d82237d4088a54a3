"""The time of day of a cron expression in English."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.timing.cron.fields import Field
from mainspring.timing.cron.numerals import RUN, joined, nth, pace, runs, spans, values

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
