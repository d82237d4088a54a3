"""Possible problems of a reachable database, and their remedies."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

MEND = "--mend-clock"
"""The option of ``mainspring doctor`` that repairs the clock of a file."""

AHEAD = timedelta(seconds=60)
"""How far the clock of a file may be ahead of its host's unreported: smaller differences are corrections of the clock,
during which the time stands still. Beyond it one of the two is wrong."""

Grade = Literal["ok", "note", "warning", "error"]
"""Only an error prevents work."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """The result of one check."""

    about: str
    grade: Grade
    summary: str
    advice: str = ""
    """The remedy."""


@dataclass(frozen=True, slots=True)
class LostObject:
    """A table, sequence, view or function that an applied migration created, and that is not there any more."""

    kind: Literal["table", "sequence", "view", "function"]
    name: str
    """With its schema or prefix."""
    remedy: str
    statements: tuple[str, ...] = ()
    """What creates it again, where that loses nothing: of a table and a sequence the content is lost."""
    needed: bool = True
    """Whether Mainspring itself uses it: views, and functions that publish from SQL, are for other programs."""

    def __str__(self) -> str:
        """For people, as ``table mainspring.delivery``."""
        return f"{self.kind} {self.name}"

    @property
    def problem(self) -> str:
        """Describe it."""
        return f"{self} is missing, although the migration that creates it was applied"


@dataclass(frozen=True, slots=True)
class Tolerances:
    """The thresholds of the checks."""

    snapshot: timedelta = timedelta(minutes=10)
    """How long a transaction may prevent that settled rows are removed."""
    transactions: int = 1_000_000
    """The same for a standby and its slot, which count transactions begun since."""
    skew: timedelta = timedelta(seconds=2)
    """How far the clocks of this host and of the database may differ."""
    dead_rows: int = 50_000
    """How many rows beyond autovacuum's threshold may wait to be removed from a table."""
    log_bytes: int = 256 * 1024 * 1024
    """The maximum size of the write-ahead log of a SQLite file."""


def stands_still(ahead: timedelta) -> str:
    """Describe the clock of a file that is so far ahead of its host's, and the remedy."""
    return (
        f"the time stands still: the file was used under a clock {ahead.total_seconds():,.0f} s ahead of this host's, "
        "and until then no delay, retry, schedule or lease ends. Set this host's clock if it is behind; else stop "
        f"all processes that use the file, and run: mainspring doctor {MEND}"
    )


def of_clocks(ahead: timedelta, tolerances: Tolerances) -> Symptom:
    """Describe a database whose clock is ahead of this host's by ``ahead``."""
    seconds = abs(ahead).total_seconds()
    if abs(ahead) <= tolerances.skew:
        return Symptom("clock", "ok", f"this host and the database agree within {tolerances.skew.total_seconds():g} s")
    side = "behind" if ahead > timedelta() else "ahead of"
    return Symptom(
        "clock",
        "warning",
        f"the clock of this host is {seconds:,.1f} s {side} that of the database: the database decides what is due, "
        "and at=… computed here is off by as much",
        "synchronise both hosts by NTP (timedatectl status, chronyc tracking)",
    )
