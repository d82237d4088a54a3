"""The statements of this dialect under one prefix, and the clock that its scripts share."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from copy import copy
from datetime import datetime
from functools import cache
from typing import Any

from mainspring.storage.operation import Clocked
from mainspring.storage.script import Row, Script, Statement, load
from mainspring.storage.sqlite.clock import Clock

PACKAGE = "mainspring.storage.sqlite"
_NO_TABLE = re.compile(r"no such table: (?P<schema>\w+)-(?P<namespace>(?:[^_]|__)+)_(?!_)")
_SIZES = (256, 64, 16, 4, 1)
"""Rows per INSERT: at most three statements of each size, and few texts, so that all stay prepared."""
_ROW = re.compile(r"^VALUES (\(\?1.*\))$", re.MULTILINE)


def host_clock() -> int:
    """The host's wall clock in microseconds since 1970."""
    return time.time_ns() // 1000


def prefix(tables: str) -> str:
    """What goes before the underscore and the name of each table and index, as in ``mainspring-staging_delivery``.

    An underscore of a namespace is doubled: no index of ``a`` is called what a table of ``a_delivery`` is.
    """
    schema, dash, namespace = tables.partition("-")
    return f"{schema}{dash}{namespace.replace('_', '__')}"


def named(said: str) -> str:
    """Whose table it is that SQLite does not find: the schema and the namespace, as ``prefix`` was given them."""
    found = _NO_TABLE.search(said)
    return "mainspring" if found is None else f"{found['schema']}-{found['namespace'].replace('__', '_')}"


class Dialect:
    """Names statements by their files, and tells the time by the stored clock."""

    def __init__(self, tables: str, host: Callable[[], int] = host_clock, *, hand_clock: Clocked | None = None) -> None:
        self.tables: str = tables
        self.prefix: str = prefix(tables)
        self._hand_clock = hand_clock
        self.clock: Clock = Clock(self("clock_read").sql, self("clock_mark").sql, host)

    def __call__(self, name: str, *args: Any) -> Statement:
        """The statement of this name with these parameters."""
        return Statement(load(PACKAGE, name, self.prefix), args)

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
        """The hand-set clock of tests. None in production: the stored clock tells the time."""
        return None if self._hand_clock is None else self._hand_clock.now

    def read_clock(self) -> Script[int]:
        """What time it is, in microseconds; writes nothing."""
        return self.clock.read(self.now)

    def turn_clock(self) -> Script[int]:
        """What time it is, in microseconds, from the first statement of a script that will write."""
        return self.clock.turn(self.now)

    def mark_clock(self, at: int) -> Script[None]:
        """Remember ``at``, which ``read_clock`` has said, because something will be written after all."""
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
