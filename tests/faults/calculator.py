"""When schedules are due, reckoned naively: every tenth of a second there is, asked by predicates written by hand.

Nothing of the library is used here. What it says and what this says are compared.
"""

from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

from tests.faults.plan import Entry

MICROS = 1_000_000
_STEP = MICROS // 10

EVERY = {
    "every 1s": 1_000_000,
    "every 2s": 2_000_000,
    "every 3s": 3_000_000,
    "every 1500ms": 1_500_000,
}
"""Intervals by what the library reads, in microseconds."""

CRON: dict[str, Callable[[datetime], bool]] = {
    "* * * * * *": lambda wall: True,
    "*/2 * * * * *": lambda wall: wall.second in range(0, 60, 2),
    "1-59/2 * * * * *": lambda wall: wall.second in range(1, 60, 2),
    "0,7,13,20,26,31,44,58 * * * * *": lambda wall: wall.second in {0, 7, 13, 20, 26, 31, 44, 58},
    "*/3 */2 * * * *": lambda wall: wall.second % 3 == 0 and wall.minute % 2 == 0,
    "*/2 0-29 * * * *": lambda wall: wall.second % 2 == 0 and wall.minute <= 29,
    "*/2 * 0-11 * * *": lambda wall: wall.second % 2 == 0 and wall.hour <= 11,
    "*/2 * 12-23 * * *": lambda wall: wall.second % 2 == 0 and wall.hour >= 12,
    "*/5 * * * * mon-fri": lambda wall: wall.second % 5 == 0 and wall.strftime("%a") not in {"Sat", "Sun"},
    "*/5 * * 1-15 * *": lambda wall: wall.second % 5 == 0 and wall.day <= 15,
}
"""Expressions by what the library reads, each as a question about the clock on the wall of its zone."""

ZONES = ("UTC", "America/New_York", "Asia/Kathmandu", "Pacific/Chatham", "Asia/Tokyo", "America/St_Johns")
"""Among them are offsets of half hours and of quarters."""


def due_times(entry: Entry, after: int, until: int) -> set[int]:
    """The due times after one instant until another, all in microseconds of the epoch."""
    if entry.start is not None:
        after = max(after, round(entry.start * MICROS) - 1)
    if entry.end is not None:
        until = min(until, round(entry.end * MICROS))
    first = after // _STEP + 1
    return {tick * _STEP for tick in range(first, until // _STEP + 1) if _is_due(entry, tick * _STEP)}


def _is_due(entry: Entry, at: int) -> bool:
    if entry.rhythm in EVERY:
        anchor = 0 if entry.start is None else round(entry.start * MICROS)
        return (at - anchor) % EVERY[entry.rhythm] == 0
    return at % MICROS == 0 and CRON[entry.rhythm](datetime.fromtimestamp(at // MICROS, ZoneInfo(entry.timezone)))


def mixed(count: int, start: int = 0, groups: int = 10) -> list[Entry]:
    """So many schedules of every kind, numbered on: intervals, and expressions in every zone."""
    return [_nth(n, f"occur-{n % groups}") for n in range(start, start + count)]


def _nth(n: int, group: str) -> Entry:
    name = f"nr-{n:04}"
    if n % 2 == 0:
        rhythm = tuple(EVERY)[n // 2 % len(EVERY)]
        return Entry(name, rhythm, group=group)
    # Every expression in every zone before one comes again.
    turn = n // 2
    rhythm = tuple(CRON)[turn % len(CRON)]
    return Entry(name, rhythm, ZONES[turn // len(CRON) % len(ZONES)], group=group)
