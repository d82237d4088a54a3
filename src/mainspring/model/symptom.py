"""What may be wrong with a database although it answers, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

MEND = "--mend-clock"
"""The option of ``mainspring doctor`` that sets the clock of a file right."""

AHEAD = timedelta(seconds=60)
"""How far the clock of a file may be ahead of its host's without a word: by less than that clocks are corrected, and
the time stands still for as long. Beyond it one of the two is wrong."""

Grade = Literal["ok", "note", "warning", "error"]
"""Only an error keeps work from being done."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """One thing that was looked at."""

    about: str
    grade: Grade
    summary: str
    advice: str = ""
    """What to do about it."""


@dataclass(frozen=True, slots=True)
class Tolerances:
    """From where on something is a symptom."""

    snapshot: timedelta = timedelta(minutes=10)
    """How long a transaction may keep what is settled from being removed."""
    transactions: int = 1_000_000
    """The same for a standby and its slot, which count in transactions that were begun since."""
    skew: timedelta = timedelta(seconds=2)
    """How far the clocks of this host and of the database may be apart."""
    dead_rows: int = 50_000
    """How many rows more than autovacuum waits for may be left to be removed from a table."""
    log_bytes: int = 256 * 1024 * 1024
    """How long the write-ahead log of a SQLite file may be."""


def stands_still(ahead: timedelta) -> str:
    """What it means that the clock of a file is so far ahead of its host's, and what to do."""
    return (
        f"the time stands still: the file was used under a clock {ahead.total_seconds():,.0f} s ahead of this host's, "
        "and until that time comes no delay, retry, schedule or lease comes to its end. Set this host's clock right if "
        f"it is behind; else stop all that use the file, and: mainspring doctor {MEND}"
    )


def of_clocks(apart: timedelta, tolerances: Tolerances) -> Symptom:
    """What it means that the clock of the database is ahead of this host's by ``apart``."""
    seconds = abs(apart).total_seconds()
    if abs(apart) <= tolerances.skew:
        return Symptom("clock", "ok", f"this host and the database agree within {tolerances.skew.total_seconds():g} s")
    side = "behind" if apart > timedelta() else "ahead of"
    return Symptom(
        "clock",
        "warning",
        f"the clock of this host is {seconds:,.1f} s {side} that of the database: what is due is decided by the "
        "database, and at=… that was reckoned here is off by as much",
        "let both hosts keep time by NTP (timedatectl status, chronyc tracking)",
    )
