"""The schema: applied migration by migration under a lock, so that any number may start at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from mainspring.model.errors import SchemaMissing, StorageError
from mainspring.model.symptom import Symptom, Tolerances
from mainspring.storage import migrate as steps
from mainspring.storage.migrate import Applied, migrations
from mainspring.storage.postgres.examining import examine
from mainspring.storage.postgres.names import PACKAGE, Names
from mainspring.storage.script import Row, Script, Statement, run_async
from mainspring.storage.sql import Gateway

if TYPE_CHECKING:
    from mainspring.storage.postgres.driver import Connection
    from mainspring.storage.postgres.gateway import PostgresGateway

_OLDEST = 13
_PATIENCE = 600.0
_LOOKING = 10.0


class PostgresSchema:
    """``Schema`` for PostgreSQL. All that is missing is applied in one transaction, or nothing is."""

    def __init__(self, gateway: PostgresGateway, names: Names) -> None:
        self._gateway = gateway
        self._names = names

    async def version(self) -> int:
        """See ``Schema.version``."""
        return max((each.number for each in await self._applied()), default=0)

    async def check(self) -> None:
        """See ``Schema.check``."""
        steps.check(migrations(PACKAGE), await self._applied())

    async def migrate(self) -> list[str]:
        """See ``Schema.migrate``. The schema itself is created too, where it is missing and the role may."""
        connection: Connection | None = None
        try:
            async with asyncio.timeout(_PATIENCE):
                connection = await self._gateway.dial({}, unhurried=True)
                await connection.execute("BEGIN")
                applied = await self._migrate(connection)
                await connection.execute("COMMIT")
        except self._gateway.errors as error:
            raise self._gateway.translated(error) from None
        finally:
            if connection is not None:  # without COMMIT it undoes everything
                await connection.hang_up()
        return applied

    async def _migrate(self, connection: Connection) -> list[str]:
        if connection.major() < _OLDEST:
            raise StorageError(f"PostgreSQL {connection.major()} is too old: {_OLDEST} is the oldest that can be used")
        # Of the transaction, not of the session: it cannot be left behind, and it works through a pooler.
        await connection.fetch("SELECT pg_advisory_xact_lock($1)", self._names.lock)
        names = self._names
        # Looked for before it is made: IF NOT EXISTS asks for the right to create even where nothing is created.
        if not await connection.fetch("SELECT FROM pg_namespace WHERE nspname = $1", names.schema):
            await connection.execute(f"CREATE SCHEMA {names.quoted}")
        if not await connection.fetch("SELECT WHERE to_regclass($1) IS NOT NULL", f"{names.quoted}.migration"):
            await connection.execute(names.sql("schema_table"))
        rows = await connection.fetch(names.sql("schema_applied"))
        missing = steps.pending(migrations(PACKAGE), [Applied(*row) for row in rows])
        for step in missing:
            await connection.execute(step.sql(names.quoted))
            await connection.fetch(names.sql("schema_record"), step.number, step.name, step.checksum, step.breaking)
        return [step.name for step in missing]

    async def examine(self, tolerances: Tolerances, host: Callable[[], datetime]) -> list[Symptom]:
        """See ``Schema.examine``. On a connection of its own, which is told from that of a pooler."""
        version = await self.version()
        connection: Connection | None = None
        try:
            async with asyncio.timeout(_LOOKING):
                connection = await self._gateway.dial({})
                served_by = connection.server_pid()
                return await run_async(_Asked(connection), examine(self._names, version, tolerances, host, served_by))
        except self._gateway.errors as error:
            raise self._gateway.translated(error) from None
        finally:
            if connection is not None:
                await connection.hang_up()

    async def _applied(self) -> list[Applied]:
        try:
            return await self._gateway.run(_applied(self._names), "read")
        except SchemaMissing:
            return []


class _Asked:
    """A connection that runs the statements of a script."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def execute(self, statement: Statement) -> Sequence[Row]:
        rows: Sequence[Row] = await self._connection.fetch(statement.sql, *statement.args)
        return rows


class JoinedSchema:
    """``Schema`` as a transaction of somebody else's sees it. Tables are not made there: it will be rolled back."""

    def __init__(self, gateway: Gateway, names: Names) -> None:
        self._gateway = gateway
        self._names = names

    async def version(self) -> int:
        """See ``Schema.version``."""
        return max(each.number for each in await self._gateway.run(_applied(self._names), "read"))

    async def check(self) -> None:
        """See ``Schema.check``."""
        steps.check(migrations(PACKAGE), await self._gateway.run(_applied(self._names), "read"))

    async def migrate(self) -> list[str]:
        """See ``Schema.migrate``. Only says what is missing."""
        await self.check()
        return []

    async def examine(self, tolerances: Tolerances, host: Callable[[], datetime]) -> list[Symptom]:
        """See ``Schema.examine``."""
        return await self._gateway.run(examine(self._names, await self.version(), tolerances, host), "read")


def _applied(names: Names) -> Script[list[Applied]]:
    rows = yield Statement(names.sql("schema_applied"))
    return [Applied(*row) for row in rows]
