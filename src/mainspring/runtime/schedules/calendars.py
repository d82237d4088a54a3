"""Days off by country, from the ``holidays`` package where the user has it."""

from __future__ import annotations

from datetime import date
from functools import lru_cache
from typing import Any

from mainspring.model.errors import BadOption, MissingExtra
from mainspring.timing.days import Tells

COUNTRY = "country:"
"""How a country is written down: ``country:DE``, ``country:DE-BY``."""
CODE = "code:"
"""How days are written down that only code can tell; the rest of it is for people."""


@lru_cache(maxsize=64)
def country_days(place: str) -> Tells:
    """Whether a day is a public holiday of ``"DE"``, or of its subdivision ``"DE-BY"``."""
    try:
        import holidays
    except ImportError as error:
        raise MissingExtra("holidays", "holidays", f"holidays={place!r}") from error
    country, _, subdivision = place.upper().partition("-")
    try:
        known: Any = holidays.country_holidays(country, subdiv=subdivision or None)
    except NotImplementedError as error:
        raise BadOption(
            f"holidays={place!r}: the holidays package knows no such country or subdivision ({error})"
        ) from error

    def tells(day: date) -> bool:
        return day in known

    return tells
