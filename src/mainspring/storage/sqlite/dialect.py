"""The statements under one prefix, the stored clock, and the base class of the operations."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from copy import copy
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from mainspring.model.symptom import AHEAD, stands_still
from mainspring.storage.operation import Clocked, Gateway
from mainspring.storage.portable.dialect import SqlOperations
from mainspring.storage.portable.statements import load
from mainspring.storage.script import Row, Script, Statement
from mainspring.storage.sqlite.values import SqliteValues, micros

_logger = logging.getLogger("mainspring.storage")

_WARN_EVERY = 60.0
_MICROSECOND = timedelta(microseconds=1)
_BEHIND = 100_000
"""Microseconds by which the stored mark may be behind; the same is written in ``clock_mark.sql``."""


PACKAGE = "mainspring.storage.sqlite"
_NO_TABLE = re.compile(r"no such table: (?P<schema>\w+)-(?P<namespace>(?:[^_]|__)+)_(?!_)")
_SIZES = (256, 64, 16, 4, 1)
"""Rows per INSERT: at most three statements of each size, and few texts, so that all stay prepared."""
_ROW = re.compile(r"^VALUES (\(\?1.*\))$", re.MULTILINE)


class Clock:
    """Returns the time in microseconds since 1970, never less than before (invariant 7).

    The mark in the database is at most 100 ms behind the time that a writer has used, for every process and after a
    restart; this object remembers its own last time exactly. A hand-set ``now`` replaces both and
    moves neither.
    """

    def __init__(self, read: str, mark: str, host: Callable[[], int]) -> None:
        self._read = Statement(read)
        self._mark = mark
        self._host = host
        self._highest = 0
        self._warned_at: float | None = None

    def ahead(self, stored: int) -> timedelta:
        """Return how far this mark is ahead of the host's clock, at least zero."""
        return timedelta(microseconds=max(stored - self._host(), 0))

    def read(self, now: datetime | None) -> Script[int]:
        """Return the time; writes nothing."""
        if now is not None:
            return micros(now)
        rows = yield self._read
        return self._raised(rows[0][0])

    def turn(self, now: datetime | None) -> Script[int]:
        """Return the time, for a script that will write: the first statement takes the write lock."""
        yield Statement(self._mark, (self.least_mark(now),))
        if now is not None:
            return micros(now)
        rows = yield self._read
        return self._raised(rows[0][0])

    def estimate(self, now: datetime | None) -> int:
        """Return the time as far as this object knows, for a statement that reads the stored mark too."""
        return micros(now) if now is not None else max(self._host(), self._highest)

    def remember(self, at: int, stored: int, now: datetime | None) -> Script[None]:
        """Remember the time that such a statement returned, and store it if the mark is far enough behind."""
        if now is None:
            self._highest = max(at, self._highest)
            if stored < at - _BEHIND:
                yield Statement(self._mark, (at,))

    def least_mark(self, now: datetime | None) -> int:
        """Return the least mark, for a statement that marks and reads at once."""
        return 0 if now is not None else max(self._host(), self._highest)

    def after_marking(self, stored: int, now: datetime | None) -> int:
        """Return the time, from the result of such a statement."""
        return micros(now) if now is not None else self._raised(stored)

    def mark(self, at: int, now: datetime | None) -> Script[None]:
        """Store ``at`` if the mark is far enough behind it."""
        if now is None:
            yield Statement(self._mark, (at,))

    def _raised(self, stored: int) -> int:
        host = self._host()
        self._highest = at = max(host, stored, self._highest)
        if at - host > AHEAD // _MICROSECOND:
            self._warn(timedelta(microseconds=at - host))
        return at

    def _warn(self, ahead: timedelta) -> None:
        now = time.monotonic()
        if self._warned_at is None or now - self._warned_at >= _WARN_EVERY:
            self._warned_at = now
            _logger.warning("%s", stands_still(ahead))


def host_clock() -> int:
    """The host's wall clock in microseconds since 1970."""
    return time.time_ns() // 1000


def prefix(tables: str) -> str:
    """What goes before the underscore and the name of each table and index, as in ``mainspring-staging_delivery``.

    An underscore of a namespace is doubled: no index of ``a`` is called what a table of ``a_delivery`` is.
    """
    schema, dash, namespace = tables.partition("-")
    return f"{schema}{dash}{namespace.replace('_', '__')}"


def named(error: str) -> str:
    """Whose table it is that SQLite does not find: the schema and the namespace, as ``prefix`` was given them."""
    found = _NO_TABLE.search(error)
    return "mainspring" if found is None else f"{found['schema']}-{found['namespace'].replace('__', '_')}"


class Dialect:
    """Makes statements by name, and reads the stored clock."""

    def __init__(self, tables: str, host: Callable[[], int] = host_clock, *, hand_clock: Clocked | None = None) -> None:
        self.tables: str = tables
        self.prefix: str = prefix(tables)
        self._hand_clock = hand_clock
        self.clock: Clock = Clock(self("clock_read").sql, self("clock_mark").sql, host)

    def __call__(self, name: str, *args: Any) -> Statement:
        """The statement of this name with these parameters."""
        return Statement(load(PACKAGE, name, self.prefix), args)

    opening = __call__
    """A script is a transaction in any case."""

    def many(self, name: str, rows: Sequence[tuple[Any, ...]]) -> Script[list[Row]]:
        """Run a one-row INSERT for many rows, hundreds at a time, and return what they return.

        Every statement gives up the interpreter lock and has to get it back from a busy event loop, so a
        statement per row would cost far more than its row.
        """
        if len(rows) == 1:
            return list((yield self(name, *rows[0])))
        returned: list[Row] = []
        start = 0
        for size in _SIZES:
            while len(rows) - start >= size:
                args = tuple(value for row in rows[start : start + size] for value in row)
                start += size
                returned += yield Statement(_repeated(load(PACKAGE, name, self.prefix), size), args)
        return returned

    def by(self, hand_clock: Clocked) -> Dialect:
        """The same statements and the same stored clock, with another hand-set one in its place."""
        other = copy(self)
        other._hand_clock = hand_clock  # noqa: SLF001 - of the same class
        return other

    @property
    def now(self) -> datetime | None:
        """The hand-set clock of tests. None in production, which uses the stored clock."""
        return None if self._hand_clock is None else self._hand_clock.now

    def read_clock(self) -> Script[int]:
        """Return the time in microseconds; writes nothing."""
        return self.clock.read(self.now)

    def turn_clock(self) -> Script[int]:
        """Return the time in microseconds, from the first statement of a script that will write."""
        return self.clock.turn(self.now)

    def mark_clock(self, at: int) -> Script[None]:
        """Store ``at``, which ``read_clock`` returned, because something will be written after all."""
        return self.clock.mark(at, self.now)


@cache
def _repeated(sql: str, times: int) -> str:
    if times == 1:
        return sql
    row = _ROW.search(sql)
    assert row is not None, "a one-row INSERT has its VALUES on a line of their own"
    width = row[1].count("?")
    rows = ", ".join(
        "(" + ", ".join(f"?{number}" for number in range(first, first + width)) + ")"
        for first in range(1, times * width + 1, width)
    )
    return f"{sql[: row.start(1)]}{rows}{sql[row.end(1) :]}"


class SqliteOperations(SqlOperations):
    """Operations on SQLite, with the statements and the clock of one prefix."""

    _values = SqliteValues()

    def __init__(self, sql: Dialect, gateway: Gateway) -> None:
        super().__init__(gateway, sql)
        self._sql: Dialect = sql

    def _read_clock(self) -> Script[int]:
        return self._sql.read_clock()

    def _turn_clock(self) -> Script[int]:
        return self._sql.turn_clock()

    def _mark_clock(self, at: int) -> Script[None]:
        return self._sql.mark_clock(at)

    def _ring(self) -> Statement:
        return self._sql("bell_ring")
