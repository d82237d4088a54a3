"""Likely meanings of invalid cron expressions."""

from __future__ import annotations

import difflib

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
