"""Looking a SQLite file over: its clock, its log, its indexes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from mainspring.model.symptom import AHEAD, MEND, Symptom, Tolerances
from mainspring.storage.migrate import indexes, migrations, of_indexes
from mainspring.storage.script import Script
from mainspring.storage.sqlite.dialect import PACKAGE, Dialect
from mainspring.storage.sqlite.values import instant

_MEGABYTE = 1024 * 1024


class Look(NamedTuple):
    """What a script has found in a file."""

    path: str
    marked_at: datetime
    """The latest time that the file has been told."""
    indexes: Sequence[str]


def look(sql: Dialect) -> Script[Look]:
    """Read what there is to read within the database."""
    ((path,),) = yield sql("examine_file")
    ((marked,),) = yield sql("clock_read")
    indexes = yield sql("examine_indexes")
    return Look(path, instant(marked), [name for (name,) in indexes])


def examine(
    found: Look, sql: Dialect, version: int, tolerances: Tolerances, host: Callable[[], datetime]
) -> list[Symptom]:
    """See ``Schema.examine``."""
    missing = of_indexes(migrations(PACKAGE), sql.prefix, found.indexes, version)
    return [
        _of_clock(found, tolerances, host),
        _of_log(found, tolerances),
        *_of_mode(found),
        *(missing or [Symptom("indexes", "ok", f"all {len(indexes(migrations(PACKAGE), sql.prefix))} are there")]),
    ]


def _of_clock(found: Look, tolerances: Tolerances, host: Callable[[], datetime]) -> Symptom:
    """The clock is this host's, but one that was set back does not take the database with it."""
    ahead = found.marked_at - host()
    if ahead <= tolerances.skew:
        return Symptom("clock", "ok", "it is this host's own, and no process has been ahead of it")
    summary = (
        f"this file was used under a clock {ahead.total_seconds():,.1f} s ahead of this host's now: until that time "
        "comes, the time stands still here, and nothing new falls due"
    )
    if ahead <= AHEAD:
        return Symptom("clock", "warning", summary, "it goes on by itself")
    advice = "set this host's clock right if it is behind; else stop all that use the file, and: mainspring doctor"
    return Symptom("clock", "error", summary, f"{advice} {MEND}")


def _of_mode(found: Look) -> list[Symptom]:
    if os.name == "nt" or not Path(found.path).stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
        return []
    summary = f"every user of this machine may read {found.path}, with all payloads"
    return [Symptom("file", "warning", summary, f"chmod o-rwx {found.path}*")]


def _of_log(found: Look, tolerances: Tolerances) -> Symptom:
    log = Path(f"{found.path}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size <= tolerances.log_bytes:
        return Symptom("log", "ok", f"the write-ahead log has {size / _MEGABYTE:,.1f} MB")
    summary = (
        f"the write-ahead log has grown to {size / _MEGABYTE:,.1f} MB: some process has been reading in one "
        "transaction for long, and everything becomes slower"
    )
    return Symptom("log", "warning", summary, f"end it (lsof {log} says who has it open); the log is reused then")
