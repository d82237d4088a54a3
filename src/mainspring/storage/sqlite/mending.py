"""Setting the clock of a file right, after it was used under a clock that was ahead."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta

from mainspring.model.errors import StorageUnavailable
from mainspring.model.schedule import NEVER
from mainspring.model.symptom import AHEAD
from mainspring.storage.script import prefixed
from mainspring.storage.sqlite.connections import primary, translated
from mainspring.storage.sqlite.dialect import host_clock, prefix
from mainspring.storage.sqlite.values import micros

_MOVED = {
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
}
"""What was reckoned from the time that it was: it stands to the right time as it stood to the wrong one."""

_HELD_BACK = {"schedule": ("base_at",), "fanout_cursor": ("completed", "planned")}
"""Up to where something is done: not after now, so that it goes on from here. No occurrence is made up for."""

_BY_IT = " AND published_at > ?2"
_DELIVERIES = (
    # What was asked for later before that, and has not begun, is due when it was asked for.
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
