"""Inspection of a SQLite file: its clock, its log, its indexes; and the repair of its clock."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from mainspring.model.errors import StorageUnavailable
from mainspring.model.schedule import NEVER
from mainspring.model.symptom import AHEAD, MEND, Symptom, Tolerances
from mainspring.storage.migrations import indexes, migrations, of_indexes
from mainspring.storage.script import Script, prefixed
from mainspring.storage.sqlite.connection import primary, translated
from mainspring.storage.sqlite.dialect import PACKAGE, Dialect, host_clock, prefix
from mainspring.storage.sqlite.values import instant, micros

_MEGABYTE = 1024 * 1024


_MOVED = {
    "delivery": ("claimed_at",),
    "dead": ("scheduled_for", "published_at", "buried_at"),
    "parked": ("parked_at",),
    "run": ("started_at", "finished_at", "scheduled_for"),
    "ended": ("at",),
    "groups": ("declared_at", "served_at", "paused_at"),
    "worker": ("started_at", "beat_at", "draining_at"),
    "declaration": ("seen_at", "since"),
    "audit": ("at",),
    "schedule": ("created_at", "declared_at", "paused_at", "retired_at"),
    "freeze": ("at",),
    "joint": ("opened_at",),
    "inbox": ("first_seen_at", "changed_at", "mismatched_at"),
    "lease": ("acquired_at", "renewed_at", "expires_at"),
    "likeness": ("published_at", "until"),
    "progress": ("at",),
    "spent": ("until",),
    "fanout_cursor": ("completed_at", "planned_at", "seen_at"),
    "fanout_policy": ("edited_at",),
    "move": ("began_at", "changed_at"),
}
"""Instants relative to the time of their writing: they keep their distance to the corrected time."""
_HELD_BACK = {"schedule": ("base_at",), "fanout_cursor": ("completed", "planned")}
"""Up to where something is done: not after now, so that it goes on from here. No occurrence is made up for."""
_BY_IT = " AND published_at > ?2"
_DELIVERIES = (
    # A delayed delivery that was published earlier, and has not begun, is due when it was scheduled.
    ("delivery", "due_at", " AND (held_by IS NOT NULL OR attempt > 0 OR published_at > ?2)"),
    ("delivery", "scheduled_for", _BY_IT),
    ("parked", "due_at", _BY_IT),
    ("parked", "scheduled_for", _BY_IT),
    ("message", "expires_at", _BY_IT),
    # Last, since by it the others are known.
    ("delivery", "published_at", ""),
    ("parked", "published_at", ""),
    ("message", "published_at", ""),
)
"""Of messages only what was published by the wrong clock, is held, or has failed."""


class Findings(NamedTuple):
    """What a script has found in a file."""

    path: str
    marked_at: datetime
    """The latest time stored in the file."""
    indexes: Sequence[str]


def inspect(sql: Dialect) -> Script[Findings]:
    """Read what there is to read within the database."""
    ((path,),) = yield sql("examine_file")
    ((marked,),) = yield sql("clock_read")
    indexes = yield sql("examine_indexes")
    return Findings(path, instant(marked), [name for (name,) in indexes])


def examine(
    found: Findings, sql: Dialect, version: int, tolerances: Tolerances, host: Callable[[], datetime]
) -> list[Symptom]:
    missing = of_indexes(migrations(PACKAGE), sql.prefix, found.indexes, version)
    return [
        _of_clock(found, tolerances, host),
        _of_log(found, tolerances),
        *_of_mode(found),
        *(missing or [Symptom("indexes", "ok", f"all {len(indexes(migrations(PACKAGE), sql.prefix))} are there")]),
    ]


def _of_clock(found: Findings, tolerances: Tolerances, host: Callable[[], datetime]) -> Symptom:
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


def _of_mode(found: Findings) -> list[Symptom]:
    if os.name == "nt" or not Path(found.path).stat().st_mode & (stat.S_IROTH | stat.S_IWOTH):
        return []
    summary = f"every user of this machine may read {found.path}, with all payloads"
    return [Symptom("file", "warning", summary, f"chmod o-rwx {found.path}*")]


def _of_log(found: Findings, tolerances: Tolerances) -> Symptom:
    log = Path(f"{found.path}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size <= tolerances.log_bytes:
        return Symptom("log", "ok", f"the write-ahead log has {size / _MEGABYTE:,.1f} MB")
    summary = (
        f"the write-ahead log has grown to {size / _MEGABYTE:,.1f} MB: some process has been reading in one "
        "transaction for long, and everything becomes slower"
    )
    return Symptom("log", "warning", summary, f"end it (lsof {log} says who has it open); the log is reused then")


def mend(path: str, tables: str, host: Callable[[], int] = host_clock) -> timedelta:
    """Set the clock of these tables to the host's, and bring back by as much what was reckoned from it; returns that.

    No other process may have the file open: one that has heard the wrong time would tell it again, and a claim that
    is moved must not be at work. Zero where the mark is not ahead, or not by more than goes by itself.
    """
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            _take(connection, path)
            ahead = _mend(connection, prefix(tables), host())
            connection.execute("COMMIT")
            return ahead
    except sqlite3.Error as error:
        raise translated(error, path, tables) from None


def _take(connection: sqlite3.Connection, path: str) -> None:
    """Have the file alone until the connection is closed; refused while another one is open."""
    try:
        # With a write-ahead log each open connection has a lock on the file, which an exclusive one does not go with.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if primary(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        raise StorageUnavailable(
            f"{path} is in use: stop every worker and every other process that has it open, and type it again ({error})"
        ) from None
    ((mode,),) = connection.execute("PRAGMA journal_mode")
    if mode != "wal":
        raise StorageUnavailable(
            f"{path} has no write-ahead log, so that it cannot be known whether another process has it open: "
            "start a worker on it and stop it, and type it again"
        )


def _mend(connection: sqlite3.Connection, prefix: str, now: int) -> timedelta:
    def run(sql: str, *values: object) -> list[tuple[int]]:
        return connection.execute(prefixed(sql, prefix), values).fetchall()

    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?1", (f"{prefix}_clock",)).fetchall():
        return timedelta()
    ((mark,),) = run("SELECT at FROM mainspring_clock")
    ahead = timedelta(microseconds=mark - now)
    if ahead <= AHEAD:
        return timedelta()
    moved = [(table, column, "") for table, columns in _MOVED.items() for column in columns]
    for table, column, also in (*_DELIVERIES, *moved):
        run(_moving(table, column) + also, mark - now, now, micros(NEVER))
    for table, columns in _HELD_BACK.items():
        for column in columns:
            run(f"UPDATE mainspring_{table} SET {column} = ?1 WHERE {column} > ?1", now)  # noqa: S608
    run("DELETE FROM mainspring_measure WHERE at > ?1", now)
    run("UPDATE mainspring_clock SET at = ?1", now)
    return ahead


def _moving(table: str, column: str) -> str:
    where = f"WHERE {column} > ?2 AND {column} < ?3"
    return f"UPDATE OR REPLACE mainspring_{table} SET {column} = {column} - ?1 {where}"  # noqa: S608
