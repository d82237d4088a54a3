"""Brings the content of one SQLite file to another; and the fence, triggers before each row that is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from mainspring.model.move import Batch, Fence, Sum
from mainspring.storage.operation import Gateway, operation
from mainspring.storage.portable.moves import SqlMoves, read_fence, refuse_other, tables
from mainspring.storage.script import Script, Statement
from mainspring.storage.sqlite.dialect import PACKAGE, Dialect, SqliteOperations

_ROWS = 500
_PARAMETERS = 900
"""The most parameters of a statement that every SQLite takes."""
_HIGHEST = {"clock": "at", "lease_epoch": "last"}
"""Tables of one number that never goes back."""
_WRITES = ("INSERT", "UPDATE", "DELETE")


class SqliteMoves(SqlMoves, SqliteOperations):
    """``Moves`` on SQLite."""


class SqliteTransfer(SqliteOperations):
    """``Transfer`` on SQLite. A script that writes has the lock of the file: no other sees what it lifts for itself."""

    tables: tuple[str, ...] = tables(PACKAGE)

    def __init__(self, sql: Dialect, gateway: Gateway, path: str) -> None:
        super().__init__(sql, gateway)
        self._path = path

    async def close(self) -> None:
        """See ``Transfer.close``. It has no connection of its own."""

    @operation("read")
    def whereabouts(self) -> Script[str]:
        yield from ()
        return self._path

    @operation("write")
    def raise_fence(self, fence: Fence) -> Script[None]:
        there = read_fence((yield self._sql("fence_read")))
        refuse_other(fence, there)
        yield self._sql("fence_put", fence.epoch, int(fence.is_over), fence.name, fence.target)
        yield from self._drop(self.tables)
        if there is None:
            yield self._sql("lease_epochs_away")
        yield from self._create(self.tables, fence)

    @operation("write")
    def lift_fence(self, epoch: int) -> Script[bool]:
        if not (yield self._sql("fence_lift", epoch)):
            return False
        yield from self._drop(self.tables)
        yield self._sql("lease_epochs_back")
        return True

    @operation("read")
    def filled(self) -> Script[list[str]]:
        found = []
        for each in self.tables:
            found += [each] * len((yield Statement(f"SELECT 1 FROM {self._named(each)} LIMIT 1")))  # noqa: S608 - ours
        return found

    @operation("read")
    def read(self, table: str, after: Any = None) -> Script[Batch]:
        return (yield from self._page(table, after))

    @operation("write")
    def write(self, table: str, rows: Sequence[Any], epoch: int) -> Script[bool]:
        fence = yield from self._held(epoch)
        if fence is None:
            return False
        yield from self._drop((table,))
        columns, _ = yield from self._columns(table)
        row, at_once = f"({', '.join('?' for _ in columns)})", max(_PARAMETERS // len(columns), 1)
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            yield Statement(
                f"INSERT INTO {self._named(table)} ({', '.join(columns)}) VALUES {', '.join([row] * len(part))}",  # noqa: S608
                tuple(value for each in part for value in each),
            )
        yield from self._create((table,), fence)
        return True

    @operation("write")
    def clear(self, table: str, epoch: int) -> Script[bool]:
        fence = yield from self._held(epoch)
        if fence is None:
            return False
        yield from self._drop((table,))
        yield Statement(f"DELETE FROM {self._named(table)}")  # noqa: S608 - of our own tables
        yield from self._create((table,), fence)
        return True

    @operation("read")
    def sum(self, table: str) -> Script[Sum]:
        """See ``Transfer.sum``. SQLite has no digest, so the rows are added up here."""
        count, total, after = 0, 0, None
        while (page := (yield from self._page(table, after))).rows:
            for row in page.rows:
                total += int.from_bytes(blake2b(repr(row).encode(), digest_size=8).digest(), "big")
            count, after = count + len(page.rows), page.last
        return Sum(count, str(total))

    @operation("read")
    def marks(self) -> Script[Mapping[str, int]]:
        found = {row[0]: row[1] for row in (yield Statement("SELECT name, seq FROM sqlite_sequence"))}
        marks = {each: int(found[full]) for each in self.tables if (full := self._full(each)) in found}
        for each, column in _HIGHEST.items():
            ((marks[each],),) = yield Statement(f"SELECT {column} FROM {self._named(each)}")  # noqa: S608 - ours
        return marks

    @operation("write")
    def set_marks(self, marks: Mapping[str, int], epoch: int) -> Script[bool]:
        if (yield from self._held(epoch)) is None:
            return False
        for each, last in marks.items():
            if (column := _HIGHEST.get(each)) is not None:
                yield Statement(f"UPDATE {self._named(each)} SET {column} = max({column}, ?1)", (last,))  # noqa: S608 - ours
            else:
                full = self._full(each)
                yield Statement("DELETE FROM sqlite_sequence WHERE name = ?1", (full,))
                yield Statement("INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)", (full, last))
        return True

    def _held(self, epoch: int) -> Script[Fence | None]:
        fence = read_fence((yield self._sql("fence_read")))
        return fence if fence is not None and fence.epoch == epoch else None

    def _page(self, table: str, after: Any) -> Script[Batch]:
        columns, key = yield from self._columns(table)
        order = ", ".join(key)
        past = "" if after is None else f"WHERE ({order}) > ({', '.join('?' for _ in key)})"
        rows = yield Statement(
            f"SELECT {order}, {', '.join(columns)} FROM {self._named(table)} {past} ORDER BY {order} LIMIT {_ROWS}",  # noqa: S608
            () if after is None else tuple(after),
        )
        width = len(key)
        return Batch([tuple(row[width:]) for row in rows], rows[-1][:width] if rows else None)

    def _columns(self, table: str) -> Script[tuple[list[str], list[str]]]:
        """Return the columns of a table, and those of its key."""
        found = yield Statement("SELECT name, pk FROM pragma_table_info(?1) ORDER BY cid", (self._full(table),))
        key = [name for name, place in sorted(found, key=lambda each: int(each[1])) if place]
        return [name for name, _ in found], key or ["rowid"]

    def _create(self, tables: Iterable[str], fence: Fence) -> Script[None]:
        said = str(fence).replace("'", "''")
        for each in tables:
            for write in _WRITES:
                yield Statement(
                    f"CREATE TRIGGER {self._trigger(each, write)} BEFORE {write} ON {self._named(each)} "
                    f"BEGIN SELECT RAISE(ABORT, '{said}'); END"
                )

    def _drop(self, tables: Iterable[str]) -> Script[None]:
        for each in tables:
            for write in _WRITES:
                yield Statement(f"DROP TRIGGER IF EXISTS {self._trigger(each, write)}")

    def _trigger(self, table: str, write: str) -> str:
        return f'"{self._full(table)}_fence_{write.lower()}"'

    def _full(self, table: str) -> str:
        return f"{self._sql.prefix}_{table}"

    def _named(self, table: str) -> str:
        return f'"{self._full(table)}"'
