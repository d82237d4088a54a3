"""The schema: applied migration by migration under a lock, so that any number may start at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mainspring.model.errors import SchemaMissing, StorageError
from mainspring.storage import migrate as steps
from mainspring.storage.migrate import Applied, migrations
from mainspring.storage.postgres.faults import DRIVER
from mainspring.storage.postgres.lines import hang_up
from mainspring.storage.postgres.names import PACKAGE, Names
from mainspring.storage.script import Script, Statement

if TYPE_CHECKING:
    from mainspring.storage.postgres.gateway import AsyncpgGateway
    from mainspring.storage.postgres.lines import Connection

_OLDEST = 13
_PATIENCE = 600.0


class PostgresSchema:
    """``Schema`` for PostgreSQL. All that is missing is applied in one transaction, or nothing is."""

    def __init__(self, gateway: AsyncpgGateway, names: Names) -> None:
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
                async with connection.transaction():
                    return await self._migrate(connection)
        except DRIVER as error:
            raise self._gateway.translated(error) from None
        finally:
            await hang_up(connection)

    async def _migrate(self, connection: Connection) -> list[str]:
        version = connection.get_server_version()
        if version.major < _OLDEST:
            raise StorageError(f"PostgreSQL {version.major} is too old: {_OLDEST} is the oldest that can be used")
        # Of the transaction, not of the session: it cannot be left behind, and it works through a pooler.
        await connection.execute("SELECT pg_advisory_xact_lock($1)", self._names.lock)
        names = self._names
        # Looked for before it is made: IF NOT EXISTS asks for the right to create even where nothing is created.
        if not await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", names.schema):
            await connection.execute(f"CREATE SCHEMA {names.quoted}")
        if not await connection.fetchval("SELECT to_regclass($1)::oid", f"{names.quoted}.migration"):
            await connection.execute(names.sql("schema_table"))
        rows = await connection.fetch(names.sql("schema_applied"))
        missing = steps.pending(migrations(PACKAGE), [Applied(*row) for row in rows])
        for step in missing:
            await connection.execute(step.sql(names.quoted))
            await connection.execute(names.sql("schema_record"), step.number, step.name, step.checksum, step.breaking)
        return [step.name for step in missing]

    async def _applied(self) -> list[Applied]:
        try:
            return await self._gateway.run(_applied(self._names), "read")
        except SchemaMissing:
            return []


def _applied(names: Names) -> Script[list[Applied]]:
    rows = yield Statement(names.sql("schema_applied"))
    return [Applied(*row) for row in rows]
