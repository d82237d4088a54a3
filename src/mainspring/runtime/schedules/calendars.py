"""Public holidays by country, from the ``holidays`` package if it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from typing import Any

from mainspring.model.errors import BadOption, MissingExtra
from mainspring.timing.days import Tells

COUNTRY = "country:"
"""The prefix of a stored country: ``country:DE``, ``country:DE-BY``."""
CODE = "code:"
"""The prefix of days that only code can decide; the rest is for people."""


@lru_cache(maxsize=64)
def country_days(place: str, option: str) -> Tells:
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

    def tells(day: date) -> bool:
        return day in known

    return tells


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
