"""The schema: its version, what the role may do with it, and what may be wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from mainspring.model.errors import SchemaMissing
from mainspring.model.symptom import Symptom, Tolerances
from mainspring.storage import migrate as steps
from mainspring.storage.migrate import Applied, migrations
from mainspring.storage.operation import Gateway
from mainspring.storage.postgres.examining import examine
from mainspring.storage.postgres.migrating import migrate
from mainspring.storage.postgres.names import PACKAGE, Names
from mainspring.storage.postgres.rights import lacking
from mainspring.storage.script import Row, Script, Statement, run_async

if TYPE_CHECKING:
    from mainspring.storage.postgres.driver import Connection
    from mainspring.storage.postgres.gateway import PostgresGateway

_LOOKING = 10.0


class PostgresSchema:
    """``Schema`` for PostgreSQL. Each migration is applied whole or not at all."""

    def __init__(self, gateway: PostgresGateway, names: Names) -> None:
        self._gateway = gateway
        self._names = names

    async def version(self) -> int:
        """See ``Schema.version``."""
        return max((each.number for each in await self._applied()), default=0)

    async def check(self) -> None:
        """See ``Schema.check``."""
        steps.check(migrations(PACKAGE), await self._applied(), self._names.schema)

    async def migrate(self) -> list[str]:
        """See ``Schema.migrate``. The schema itself is created too, where it is missing and the role may."""
        return await migrate(self._gateway, self._names)

    async def lacking(self) -> list[str]:
        """See ``Schema.lacking``."""
        return await self._gateway.run(lacking(self._names), "read")

    async def ahead(self) -> timedelta:
        """See ``Schema.ahead``. The server's clock is its own."""
        return timedelta()

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
        steps.check(migrations(PACKAGE), await self._gateway.run(_applied(self._names), "read"), self._names.schema)

    async def migrate(self) -> list[str]:
        """See ``Schema.migrate``. Only says what is missing."""
        await self.check()
        return []

    async def ahead(self) -> timedelta:
        """See ``Schema.ahead``. The server's clock is its own."""
        return timedelta()

    async def lacking(self) -> list[str]:
        """See ``Schema.lacking``."""
        return await self._gateway.run(lacking(self._names), "read")

    async def examine(self, tolerances: Tolerances, host: Callable[[], datetime]) -> list[Symptom]:
        """See ``Schema.examine``."""
        return await self._gateway.run(examine(self._names, await self.version(), tolerances, host), "read")


def _applied(names: Names) -> Script[list[Applied]]:
    rows = yield Statement(names.sql("schema_applied"))
    return [Applied(*row) for row in rows]
