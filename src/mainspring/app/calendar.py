"""``holidays=`` and ``workdays=``: what is accepted as a set of days, and how it is written down."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime
from typing import Any

from mainspring.app.functions import handler_name
from mainspring.model.errors import BadOption
from mainspring.runtime.schedules.calendars import CODE, COUNTRY, country_days
from mainspring.timing.days import Tells, weekdays_of

DaysOption = str | date | Callable[[date], bool] | Iterable["str | date | Callable[[date], bool]"]
"""Weekdays ("sat,sun", "mon-fri"), a country ("DE", "DE-BY"; as holidays only), dates, a function of a date, or several
of these. What answers ``date in days``, as the calendars of the ``holidays`` package do, is accepted too."""

_PLACE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,3})?")


def read_days_option(value: Any, option: str) -> tuple[tuple[str, ...], tuple[Tells, ...]]:
    """What is stored of it, and what only code can tell, in the same order. Raises BadOption."""
    written: list[str] = []
    code: list[Tells] = []
    for each in _members(value, option):
        if isinstance(each, str):
            written.append(_text(each, option))
        elif isinstance(each, datetime):
            raise BadOption(f"{option}={each!r} is an instant: write its date, as in date(2026, 12, 25)")
        elif isinstance(each, date):
            written.append(each.isoformat())
        elif callable(each):
            written.append(CODE + handler_name(each))
            code.append(each)
        elif hasattr(type(each), "__contains__"):
            written.append(CODE + type(each).__qualname__)
            code.append(_contained(each))
        else:
            raise _no_days(option, each)
    return tuple(written), tuple(code)


def named_days(stored: Iterable[str]) -> str:
    """What is stored as people write it, without the marks that say how it is read."""
    return ", ".join(each.removeprefix(COUNTRY).removeprefix(CODE) for each in stored)


def _members(value: Any, option: str) -> Iterable[Any]:
    if isinstance(value, str):
        return [part for part in value.split(",") if part.strip()]
    if isinstance(value, date) or callable(value):
        return [value]
    if hasattr(type(value), "country") and hasattr(type(value), "__contains__"):
        return [value]  # a calendar of the holidays package: a dict that fills itself when it is asked
    try:
        # A set has an order of its own in every process, and what is stored must be the same.
        return sorted(value, key=_spelled) if isinstance(value, set | frozenset) else list(value)
    except TypeError:
        raise _no_days(option, value) from None


def _text(text: str, option: str) -> str:
    text = text.strip()
    if weekdays_of(text):
        return text.lower()
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    place = text.removeprefix(COUNTRY)
    if option == "workdays":
        # What is known of a country are its days off, and to be due on those alone is hardly ever meant.
        instead = f"; the working days of a country are workdays='mon-fri' and holidays={place.upper()!r}"
        raise BadOption(
            f"workdays={text!r} is neither a weekday ('sat', 'mon-fri') nor a date ('2026-12-24')"
            f"{instead if _PLACE.fullmatch(place) else _meant(text)}"
        )
    if not _PLACE.fullmatch(place):
        raise BadOption(
            f"{option}={text!r} is neither a weekday ('sat', 'mon-fri'), a date ('2026-12-25') nor a country ('DE', "
            f"'DE-BY'){_meant(text)}"
        )
    country_days(place, option)  # raises what is wrong with it
    return COUNTRY + place.upper()


def _meant(text: str) -> str:
    """The weekday that is written out here, as it is written here."""
    short = text.lower()[:3]
    return f". Did you mean {short!r}?" if weekdays_of(short) and text.isalpha() else ""


def _no_days(option: str, value: object) -> BadOption:
    country = "" if option == "workdays" else "a country ('DE', 'DE-BY'), "
    return BadOption(
        f"{option}={value!r} is no set of days: write weekdays ('sat,sun'), {country}dates, or a function that is "
        "given a date"
    )


def _spelled(each: Any) -> str:
    return handler_name(each) if callable(each) else str(each)


def _contained(days: Any) -> Tells:
    def tells(day: date) -> bool:
        return day in days

    return tells
