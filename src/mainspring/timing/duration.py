"""Durations: ``timedelta`` or text like ``"15m"`` in the public API, ``timedelta`` inside."""

from __future__ import annotations

import re
from datetime import timedelta

Duration = timedelta | str
"""The type of a public option for a length of time."""

UNITS = {
    "us": timedelta(microseconds=1),
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d|w)\s*")
_LONGEST = timedelta(days=365 * 100)


class DurationError(ValueError):
    """Raised for text that is not a length of time."""


def duration(value: Duration, *, of: str = "duration") -> timedelta:
    """Parse ``value`` as a length of time; ``of`` names the option in the error.

    Plain numbers are rejected: 5 could mean seconds or milliseconds.
    """
    if isinstance(value, timedelta):
        length = value
    elif isinstance(value, str):
        length = _parse(value, of)
    else:
        raise DurationError(f"{of}={value!r} has no unit: write a timedelta or text like '30s', '15m', '1h30m', '2d'")
    if length < timedelta():
        raise DurationError(f"{of}={value!r} is negative: the least is 0s")
    if length > _LONGEST:
        raise DurationError(f"{of}={value!r} is longer than a hundred years")
    return length


def _parse(text: str, of: str) -> timedelta:
    rest = text.strip()
    sign = -1 if rest.startswith("-") else 1  # reported as negative, not as malformed
    rest = rest.removeprefix("-").lstrip()
    total = timedelta()
    position = 0
    while position < len(rest):
        part = _PART.match(rest, position)
        if part is None:
            break
        try:
            total += float(part[1]) * UNITS[part[2]]
        except OverflowError:
            raise DurationError(f"{of}={text!r} is longer than a hundred years") from None
        position = part.end()
    if not rest or position < len(rest):
        raise DurationError(f"{of}={text!r} is not a duration: write text like '30s', '15m', '1h30m', '500ms', '2d'")
    return sign * total


def exactly(length: timedelta) -> str:
    """Format ``length`` so that ``duration`` parses the same value; ``spell`` is for people, and rounds."""
    words: list[str] = []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, length = divmod(length, UNITS[unit])
        if count:
            words.append(f"{count}{unit}")
    return "".join(words) or "0s"


def spell(length: timedelta) -> str:
    """Format ``length`` briefly, in at most two units: ``"1h 30m"``, ``"250ms"``."""
    if length < timedelta():
        return "-" + spell(-length)
    if length < timedelta(seconds=1):
        return f"{length / timedelta(milliseconds=1):.3g}ms" if length else "0s"
    words: list[str] = []
    for unit in ("d", "h", "m", "s"):
        count = length // UNITS[unit]
        if count:
            words.append(f"{count}{unit}")
            length -= count * UNITS[unit]
        if len(words) == 2:  # noqa: PLR2004
            break
    return " ".join(words)
