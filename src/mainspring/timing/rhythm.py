"""The rhythm of a schedule: a cron expression, an interval, or one instant; and how each is stored as text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from mainspring.timing.cron import Cron
from mainspring.timing.duration import UNITS, Duration, duration, exactly, spell

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST = timedelta(milliseconds=100)
_EVERY = "every "
_AT = "at "


@dataclass(frozen=True, slots=True)
class Every:
    """Instants that are always ``period`` apart: days are 24 hours, even when the clocks change.

    They are counted from ``anchor``, so that all nodes and restarts agree on them.
    """

    period: timedelta
    anchor: datetime = EPOCH

    def next(self, after: datetime, *, inclusive: bool = False) -> datetime | None:
        """Return the first one after this instant, or at it if ``inclusive``."""
        passed = after - self.anchor
        steps = passed // self.period if not inclusive else -(-passed // self.period) - 1
        return self._at(steps + 1, after)

    def previous(self, before: datetime, *, inclusive: bool = False) -> datetime | None:
        """Return the last one before this instant, or at it if ``inclusive``."""
        passed = before - self.anchor
        steps = -(-passed // self.period) if not inclusive else passed // self.period + 1
        return self._at(steps - 1, before)

    def describe(self) -> str:
        """Describe it in words: in one unit if that is easily read, else in several."""
        return f"Every {_worded(self.period)}"

    def __str__(self) -> str:
        """Format it as it is stored."""
        return f"{_EVERY}{exactly(self.period)}"

    def _at(self, steps: int, given: datetime) -> datetime | None:
        try:
            return (self.anchor + steps * self.period).astimezone(given.tzinfo)
        except OverflowError:  # before the first year, or after the last
            return None


@dataclass(frozen=True, slots=True)
class Once:
    """One instant."""

    at: datetime

    def next(self, after: datetime, *, inclusive: bool = False) -> datetime | None:
        """Return the instant, if it is still to come."""
        return self.at if self.at > after or (inclusive and self.at == after) else None

    def previous(self, before: datetime, *, inclusive: bool = False) -> datetime | None:
        """Return the instant, if it has passed."""
        return self.at if self.at < before or (inclusive and self.at == before) else None

    def describe(self) -> str:
        """Describe it in words."""
        return f"Once, at {self.at.isoformat(sep=' ')}"

    def __str__(self) -> str:
        """Format it as it is stored."""
        return f"{_AT}{self.at.isoformat()}"


Rhythm = Cron | Every | Once

_NOUNS = {"h": "hour", "m": "minute", "s": "second", "ms": "millisecond", "us": "microsecond"}
_READABLE = 120
"""The most of a unit that is not split: 90 seconds, but 2 minutes 5 seconds."""


def every(period: Duration) -> Every:
    """Return an interval as a schedule's rhythm, as in ``every("90s")``."""
    length = duration(period, of="every")
    if length < SHORTEST:
        raise ValueError(f"every({period!r}) is too often: the least is {spell(SHORTEST)}")
    return Every(length)


def read_rhythm(
    text: str,
    *,
    day_match: Literal["and", "or"] = "and",
    on_gap: Literal["fire", "skip"] = "fire",
    anchor: datetime | None = None,
) -> Rhythm:
    """Parse a stored rhythm. Raises ValueError, for a cron expression CronError.

    ``anchor`` is the origin of an interval, ``day_match`` and ``on_gap`` belong to a cron expression.
    """
    written = text.strip()
    if written.lower().startswith(_EVERY):
        return Every(every(written[len(_EVERY) :]).period, anchor or EPOCH)
    if written.lower().startswith(_AT):
        at = datetime.fromisoformat(written[len(_AT) :])
        if at.tzinfo is None:
            raise ValueError(f"{text!r} has no time zone: write its offset too, as in 'at 2030-01-01T09:00:00+00:00'")
        return Once(at)
    return Cron(written, day_match=day_match, on_gap=on_gap)


def _worded(length: timedelta) -> str:
    if length % timedelta(days=1) == timedelta() and length > timedelta(days=1):
        # Not calendar days, whose length varies.
        return f"{length // timedelta(days=1)} days of 24 hours"
    for unit, noun in _NOUNS.items():
        count, rest = divmod(length, UNITS[unit])
        if not rest and count <= _READABLE:
            return noun if count == 1 else f"{count} {noun}s"
    words = []
    for unit, noun in _NOUNS.items():
        count, length = divmod(length, UNITS[unit])
        if count:
            words.append(f"{count} {noun}{'' if count == 1 else 's'}")
    return " ".join(words)
