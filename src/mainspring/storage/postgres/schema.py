"""The schema on PostgreSQL: its version, its migrations, and the rights of the role."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from mainspring.model.errors import SchemaDamaged, SchemaMissing, StorageError, StorageUnavailable
from mainspring.model.roles import Lacking, Role, held
from mainspring.model.symptom import LostObject, Symptom, Tolerances
from mainspring.storage import migrations as steps
from mainspring.storage.migrations import UNKNOWN_STATE, Applied, Migration, Objects, migrations
from mainspring.storage.operation import Gateway
from mainspring.storage.portable.statements import statements
from mainspring.storage.postgres.dialect import PACKAGE, Names
from mainspring.storage.postgres.inspection import examine
from mainspring.storage.postgres.roles import lacking
from mainspring.storage.script import Row, Script, Statement, run_async

if TYPE_CHECKING:
    from mainspring.storage.postgres.driver import Connection
    from mainspring.storage.postgres.gateway import PostgresGateway


_CALL = re.compile(r"\bmainspring\.(\w+)\(")
T = TypeVar("T")
_log = logging.getLogger(__name__)
LOCK_TIMEOUT = 1.0
"""Seconds that a migration waits for a lock, and others behind it, before it steps aside (invariant 31)."""
LOCKED_OUT = 60.0
"""Seconds after which it gives up, and reports the blocking session."""
_LONGEST_PAUSE = 5.0
_OLDEST = 13
PATIENCE = 3600.0
"""Seconds for all of it: an index of a large table takes its time, and blocks no writer."""
_TRY_AGAIN = frozenset({"55P03", "40P01"})
_LOOKING = 10.0


def ddl(names: Names) -> str:
    """Everything a fresh database needs, as one transaction, its bookkeeping included."""
    return "\n".join(
        (
            "BEGIN;",
            f"CREATE SCHEMA IF NOT EXISTS {names.quoted};",
            f"{names.sql('schema_table').rstrip()};",
            *(_step(step, names) for step in migrations(PACKAGE)),
            "COMMIT;",
            "",
        )
    )


def _step(step: Migration, names: Names) -> str:
    # Numbers, checksums and names made of letters, digits and underscores: nothing here needs escaping.
    values = f"{step.number}, '{step.name}', '{step.checksum}', {str(step.breaking).lower()}, statement_timestamp()"
    return (
        f"\n-- {step.name}\n{step.at_once(names.quoted).rstrip()}\n"
        f"INSERT INTO {names.quoted}.migration (number, name, checksum, breaking, applied_at)\nVALUES ({values});"
    )


def _is_needed(lost: LostObject) -> bool:
    return not lost.statements or lost.name.rpartition(".")[2] in _called()


@cache
def _called() -> tuple[str, ...]:
    """The functions that our statements call. Those that publish from SQL are for other roles."""
    return tuple(sorted({name for text in statements(PACKAGE).values() for name in _CALL.findall(text)}))


async def migrate(gateway: PostgresGateway, names: Names) -> list[str]:
    """Apply what is missing, each migration in a transaction of its own; all in one where nothing is there yet.

    One connection holds the advisory lock of the transaction it is in, another applies: so of many starters one
    does it all, also what must be outside of a transaction, and behind a pooler too. The lock ends with its holder.
    """
    opened: list[Connection] = []
    try:
        async with asyncio.timeout(PATIENCE):
            guard = await _dialled(gateway, opened)
            if guard.major() < _OLDEST:
                raise StorageError(f"PostgreSQL {guard.major()} is too old: {_OLDEST} is the oldest that can be used")
            await _locked(guard, names)
            missing, lost = await _missing(guard, names)
            steps.refuse_lost(lost)
            if missing or lost:
                # The last statement keeps its snapshot while the transaction is open: an index would wait for that.
                await guard.execute("SELECT")
                applying = _Applying(gateway, names, await _dialled(gateway, opened))
                await applying.remember_roles()
                await applying.restore(lost)
                await applying.apply(missing)
            return [*map(str, lost), *(step.name for step in missing)]
    except gateway.errors as error:
        raise gateway.translated(error, "migrate") from None
    finally:
        for connection in opened:
            await connection.hang_up()


async def _dialled(gateway: PostgresGateway, opened: list[Connection]) -> Connection:
    opened.append(await gateway.dial({}, unhurried=True))
    return opened[-1]


async def _locked(guard: Connection, names: Names) -> None:
    """Begin a transaction that has the lock. A starter that waits is in none, and takes no session of a pooler."""
    while True:
        await guard.execute("BEGIN")
        ((taken,),) = await guard.fetch("SELECT pg_try_advisory_xact_lock($1)", names.lock)
        if taken:
            return
        await guard.execute("ROLLBACK")
        await asyncio.sleep(random.uniform(0.05, 0.25))


async def _missing(connection: Connection, names: Names) -> tuple[list[Migration], list[LostObject]]:
    """Return the migrations to apply, and what those that were applied created and is not there."""
    known = migrations(PACKAGE)
    there = _there(await connection.fetch(names.sql("schema_objects"), names.schema))
    if ("table", "migration") not in there:
        if steps.objects(known).keys() & there.keys():
            raise SchemaDamaged((f"table {names.schema}.migration",), UNKNOWN_STATE)
        return list(known), []
    applied = [Applied(*row) for row in await connection.fetch(names.sql("schema_applied"))]
    return steps.pending(known, applied), steps.lost(known, applied, names.quoted, there)


class _Applying:
    """Applies migrations on one connection."""

    def __init__(self, gateway: PostgresGateway, names: Names, connection: Connection) -> None:
        self._gateway = gateway
        self._names = names
        self._connection = connection
        self._roles: list[tuple[str, list[Role]]] = []

    async def remember_roles(self) -> None:
        """Note which roles hold all rights of their kind: what is created is granted to them too (invariant 34)."""
        grantees = await self._connection.fetch(self._names.sql("rights_grantees"), self._names.schema)
        self._roles = [(name, held(await self._lacking(name))) for (name,) in grantees]

    async def _lacking(self, grantee: str) -> Lacking:
        return await run_async(_Asked(self._connection), lacking(self._names, grantee))

    async def _keep_roles(self) -> None:
        for grantee, roles in self._roles:
            missing = await self._lacking(grantee) if roles else {}
            for statement in dict.fromkeys(each for role in roles for each in missing[role]):
                await self._connection.execute(statement)

    async def restore(self, lost: list[LostObject]) -> None:
        """Create functions and views again, as the applied migrations left them."""
        if lost:
            await self._soon(", ".join(map(str, lost)), lambda: self._restored(lost))

    async def _restored(self, lost: list[LostObject]) -> None:
        for each in lost:
            for statement in each.statements:
                await self._connection.execute(statement)
        await self._keep_roles()

    async def apply(self, missing: list[Migration]) -> None:
        if missing and missing[0].number == 1:
            await self._soon("the schema", lambda: self._begin(missing))
            return
        for step in missing:
            if step.concurrent:
                await self._index(step)
            await self._soon(f"migration {step.name}", lambda step=step: self._step(step))  # type: ignore[misc]

    async def _begin(self, every: list[Migration]) -> None:
        connection, names = self._connection, self._names
        # Looked for before it is made: IF NOT EXISTS asks for the right to create even where nothing is created.
        if not await connection.fetch("SELECT FROM pg_namespace WHERE nspname = $1", names.schema):
            await connection.execute(f"CREATE SCHEMA {names.quoted}")
        if not await connection.fetch("SELECT WHERE to_regclass($1) IS NOT NULL", f"{names.quoted}.migration"):
            await connection.execute(names.sql("schema_table"))
        for step in every:
            await connection.execute(step.at_once(names.quoted))
            await self._record(step)

    async def _step(self, step: Migration) -> None:
        if not step.concurrent:
            await self._connection.execute(step.sql(self._names.quoted))
            await self._keep_roles()
        await self._record(step)

    async def _record(self, step: Migration) -> None:
        record = (step.number, step.name, step.checksum, step.breaking)
        await self._connection.fetch(self._names.sql("schema_record"), *record)

    async def _index(self, step: Migration) -> None:
        """Create the indexes of a step. Invalid ones are removed first, once no session is building them."""
        for name, statement in steps.indexes((step,), self._names.quoted).items():
            if await self._soon(f"index {name}", lambda name=name: self._cleared(name)):  # type: ignore[misc]
                await self._connection.execute(statement)

    async def _cleared(self, name: str) -> bool:
        """Whether the index has to be made."""
        connection, names = self._connection, self._names
        found = await connection.fetch(names.sql("schema_index"), names.schema, name)
        if not found:
            return True
        ((valid, table),) = found
        if valid:
            return False
        # A session whose client has died may still be building it: that has this lock, and no writer waits for it.
        await connection.execute(f"LOCK TABLE {table} IN SHARE UPDATE EXCLUSIVE MODE")
        ((valid, _),) = await connection.fetch(names.sql("schema_index"), names.schema, name) or [(False, "")]
        if not valid:
            await connection.execute(f"DROP INDEX IF EXISTS {names.quoted}.{name}")
        return not valid

    async def _soon(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        """Run it in a transaction. Where a lock is not granted soon, let others pass and retry, for a while."""
        connection, pause, end = self._connection, 0.25, time.monotonic() + LOCKED_OUT
        while True:
            await connection.execute("BEGIN")
            # Of the transaction, so that it is left to no other client of a pooler.
            await connection.execute(f"SET LOCAL lock_timeout = {int(LOCK_TIMEOUT * 1000)}")
            try:
                done = await work()
                await connection.execute("COMMIT")
            except self._gateway.errors as error:
                await self._give_way(what, error, end)
            else:
                return done
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _give_way(self, what: str, error: Exception, end: float) -> None:
        refusal = self._gateway.refusal(error)
        if refusal is None or refusal.state not in _TRY_AGAIN:
            raise error
        await self._connection.execute("ROLLBACK")
        rows = await self._connection.fetch(self._names.sql("schema_blockers"), self._names.schema)
        blockers = "; ".join(_blocker(*row) for row in rows) or "a session that is gone by now"
        if time.monotonic() > end:
            raise StorageUnavailable(
                f"{what} was not applied: for {LOCKED_OUT:g} s a lock was not to be had, held by {blockers}. End that "
                "transaction and migrate again; nothing is half done, and no publisher waits"
            )
        _log.warning("%s waits for a lock and lets others pass; it is held by %s", what, blockers)


def _blocker(
    pid: int, application: str | None, role: str | None, state: str | None, open_for: float | None, asked: float | None
) -> str:
    ages = f", its transaction open for {open_for:.0f} s" if open_for is not None else ""
    ages += f", its last query begun {asked:.0f} s ago" if asked is not None else ""
    who = f"session {pid} of {role or 'an unknown role'} ({application or 'without application_name'})"
    return f"{who}, {state or 'state unknown'}{ages}: SELECT pg_terminate_backend({pid})"


class EnlistedSchema:
    """``Schema`` within a caller's transaction. It creates no tables: the transaction may be rolled back."""

    def __init__(self, gateway: Gateway, names: Names) -> None:
        self._gateway = gateway
        self._names = names

    async def version(self) -> int:
        return max((each.number for each in await self._applied()), default=0)

    async def check(self) -> None:
        steps.check(migrations(PACKAGE), await self._applied(), self._names.schema)

    async def migrate(self) -> list[str]:
        """See ``Schema.migrate``. Only raises what is missing."""
        await self.check()
        return []

    async def missing(self) -> list[LostObject]:
        applied = await self._applied()
        there = await self._gateway.run(_objects(self._names), "read")
        lost = steps.lost(migrations(PACKAGE), applied, self._names.quoted, there)
        return [replace(each, needed=_is_needed(each)) for each in lost]

    async def lacking(self) -> Lacking:
        return await self._gateway.run(lacking(self._names), "read")

    async def ahead(self) -> timedelta:
        """See ``Schema.ahead``. The server's clock is its own."""
        return timedelta()

    async def examine(self, tolerances: Tolerances, host: Callable[[], datetime]) -> list[Symptom]:
        return await self._gateway.run(examine(self._names, await self.version(), tolerances, host), "read")

    async def _applied(self) -> list[Applied]:
        return await self._gateway.run(_applied(self._names), "read")


class PostgresSchema(EnlistedSchema):
    """``Schema`` for PostgreSQL. Each migration is applied whole or not at all."""

    _gateway: PostgresGateway

    async def migrate(self) -> list[str]:
        """See ``Schema.migrate``. The schema itself is created too, where it is missing and the role may."""
        return await migrate(self._gateway, self._names)

    async def examine(self, tolerances: Tolerances, host: Callable[[], datetime]) -> list[Symptom]:
        """See ``Schema.examine``. On a connection of its own, to detect a pooler."""
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
            return await super()._applied()
        except SchemaMissing:
            return []


class _Asked:
    """A connection that runs the statements of a script."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def execute(self, statement: Statement) -> Sequence[Row]:
        rows: Sequence[Row] = await self._connection.fetch(statement.sql, *statement.args)
        return rows


def _objects(names: Names) -> Script[Objects]:
    return _there((yield names("schema_objects", names.schema)))


def _there(rows: Sequence[Row]) -> Objects:
    return {(kind, name): count for kind, name, count in rows}


def _applied(names: Names) -> Script[list[Applied]]:
    rows = yield names("schema_applied")
    return [Applied(*row) for row in rows]
