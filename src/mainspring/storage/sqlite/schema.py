"""The tables of SQLite and their version."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from mainspring.model.errors import SchemaDamaged
from mainspring.model.roles import Lacking
from mainspring.model.symptom import LostObject, Symptom, Tolerances
from mainspring.storage.migrations import (
    UNKNOWN_STATE,
    Applied,
    Migration,
    Objects,
    check,
    lost,
    migrations,
    objects,
    pending,
    refuse_lost,
)
from mainspring.storage.operation import Gateway
from mainspring.storage.script import Script, Statement, prefixed
from mainspring.storage.sqlite.dialect import PACKAGE, Dialect, host_clock
from mainspring.storage.sqlite.inspection import examine, inspect

_NOW = "CAST((julianday('now') - 2440587.5) * 86400000000 AS integer)"


class SqliteSchema:
    """``Schema`` for SQLite. Migrating is one transaction under the write lock, so many starters are safe."""

    def __init__(self, gateway: Gateway, sql: Dialect) -> None:
        self._gateway = gateway
        self._sql = sql

    async def version(self) -> int:
        applied = await self._gateway.run(self._applied(), "read")
        return max((each.number for each in applied), default=0)

    async def check(self) -> None:
        check(migrations(PACKAGE), await self._gateway.run(self._applied(), "read"), self._sql.tables)

    async def migrate(self) -> list[str]:
        return await self._gateway.run(self._migrate(), "write")

    async def missing(self) -> list[LostObject]:
        return await self._gateway.run(self._missing(), "read")

    async def lacking(self) -> Lacking:
        return {}

    async def examine(self, tolerances: Tolerances, host: Callable[[], datetime]) -> list[Symptom]:
        found = await self._gateway.run(inspect(self._sql), "read")
        return examine(found, self._sql, await self.version(), tolerances, host)

    async def ahead(self) -> timedelta:
        return await self._gateway.run(self._ahead(), "read")

    def _ahead(self) -> Script[timedelta]:
        ((mark,),) = yield self._sql("clock_read")
        return self._sql.clock.ahead(mark)

    def _applied(self) -> Script[list[Applied]]:
        if not (yield self._sql("schema_there")):
            return []
        rows = yield self._sql("schema_applied")
        return [Applied(number, checksum, bool(breaking)) for number, checksum, breaking in rows]

    def _missing(self) -> Script[list[LostObject]]:
        applied = yield from self._applied()
        return self._lost(applied, (yield from self._objects()))

    def _lost(self, applied: list[Applied], there: Objects) -> list[LostObject]:
        return lost(migrations(PACKAGE), applied, self._sql.prefix, there)

    def _objects(self) -> Script[Objects]:
        start = f"{self._sql.prefix}_"
        rows = yield self._sql("schema_objects")
        return {("table", name.removeprefix(start)): 1 for (name,) in rows if name.startswith(start)}

    def _migrate(self) -> Script[list[str]]:
        applied, there = (yield from self._applied()), (yield from self._objects())
        if not applied and objects(migrations(PACKAGE)).keys() & there.keys():
            raise SchemaDamaged((f"table {self._sql.prefix}_migration",), UNKNOWN_STATE)
        refuse_lost(self._lost(applied, there))
        missing = pending(migrations(PACKAGE), applied)
        for each in missing:
            for text in statements(each.sql(self._sql.prefix)):
                yield Statement(text)
            known = (each.number, each.name, each.checksum, int(each.breaking))
            yield self._sql("schema_record", *known, host_clock())
        return [each.name for each in missing]


def ddl(prefix: str) -> str:
    """Every migration as one script for ``sqlite3``, with the bookkeeping that lets this release recognise them."""
    steps = [f"-- {each.name}\n{each.sql(prefix).strip()}\n\n{_record(each, prefix)}" for each in migrations(PACKAGE)]
    return "\n\n".join(["BEGIN IMMEDIATE;", *steps, "COMMIT;"]) + "\n"


def statements(text: str) -> Iterator[str]:
    """Split a migration: the driver takes one statement at a time, and only SQLite knows where one ends."""
    gathered = ""
    for line in text.splitlines(keepends=True):
        gathered += line
        if sqlite3.complete_statement(gathered):
            yield gathered.strip()
            gathered = ""


def _record(each: Migration, prefix: str) -> str:
    values = f"{each.number}, '{each.name}', '{each.checksum}', {int(each.breaking)}, {_NOW}"
    columns = "number, name, checksum, breaking, applied_at"
    return prefixed(f"INSERT INTO mainspring_migration ({columns})\nVALUES ({values});", prefix)
