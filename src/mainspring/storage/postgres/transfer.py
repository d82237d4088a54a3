"""Brings the content of one PostgreSQL database to another; and the fence, a trigger before each write."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from mainspring.model.move import Batch, Fence, Sum
from mainspring.storage.operation import HandSet, Lane, operation
from mainspring.storage.portable.moves import SqlMoves, read_fence, refuse_other, tables
from mainspring.storage.postgres.dialect import PACKAGE, Names, Opening, PostgresOperations
from mainspring.storage.postgres.gateway import Line, PostgresGateway
from mainspring.storage.postgres.schema import LOCK_TIMEOUT, PATIENCE
from mainspring.storage.script import Script, Statement

T = TypeVar("T")
_ROWS = 500
"""Rows of a batch at the most."""
_BYTES = 4_000_000
"""Their size, but for the last one."""
_LOCKED_WITHIN = "300ms"
_EPOCHS = "lease_epoch"


class UnhurriedGateway:
    """One connection, opened when it is used, on which a statement may take as long as a migration may."""

    def __init__(self, gateway: PostgresGateway) -> None:
        self._gateway = gateway
        self._line = Line(partial(gateway.dial, {}, unhurried=True), gateway.refusal)

    async def run(self, script: Script[T], lane: Lane) -> T:  # noqa: ARG002 - one for all
        """See ``Gateway.run``."""
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._line.run(script)
        except self._gateway.errors as error:
            raise self._gateway.translated(error, "migrate") from None

    async def close(self) -> None:
        """End the connection."""
        await self._line.close()


class PostgresMoves(SqlMoves, PostgresOperations):
    """``Moves`` on PostgreSQL."""


class PostgresTransfer(PostgresOperations):
    """``Transfer`` on PostgreSQL. Rows are JSON, since that is alike under all settings of a session."""

    tables: tuple[str, ...] = tables(PACKAGE)

    def __init__(self, names: Names, gateway: UnhurriedGateway) -> None:
        super().__init__(names, gateway, HandSet())
        self._unhurried = gateway

    async def close(self) -> None:
        """See ``Transfer.close``."""
        await self._unhurried.close()

    @operation("read")
    def whereabouts(self) -> Script[str]:
        ((found,),) = yield self._sql("transfer_whereabouts")
        return str(found)

    @operation("write")
    def raise_fence(self, fence: Fence) -> Script[None]:
        yield self._begin(fence.epoch)
        there = read_fence((yield self._sql("fence_read")))
        refuse_other(fence, there)
        if there is None:
            yield from self._lock()
        if not (yield self._sql("fence_put", fence.epoch, fence.is_over, fence.name, fence.target)):
            refuse_other(fence, read_fence((yield self._sql("fence_read"))))
        if there is None:
            yield self._sql("lease_epochs_away")
            known = {each for (each,) in (yield self._sql("transfer_triggers", self._sql.schema))}
            for each in self.tables:
                if each in known:
                    yield Statement(f"ALTER TABLE {self._named(each)} ENABLE TRIGGER fence")
                    continue
                yield Statement(
                    f"CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {self._named(each)} "
                    f"FOR EACH STATEMENT EXECUTE FUNCTION {self._named('refuse_write')}()"
                )

    @operation("write")
    def lift_fence(self, epoch: int) -> Script[bool]:
        yield self._begin(epoch)
        if not (yield self._sql("fence_lift", epoch)):
            return False
        # Disabled, not dropped, since that waits for no reader, such as a backup.
        yield from self._lock()
        for each in self.tables:
            yield Statement(f"ALTER TABLE {self._named(each)} DISABLE TRIGGER fence")
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
        yield self._begin(0)
        columns = yield self._sql("transfer_columns", self._sql.schema, table)
        key = [(name, type) for name, type, _ in sorted((each for each in columns if each[2] is not None), key=_place)]
        names = ", ".join(name for name, _ in key)
        past = ", ".join(f"${place}::text::{type}" for place, (_, type) in enumerate(key, 1))
        where = "" if after is None else f"WHERE ({names}) > ({past})"
        rows = yield Statement(
            f"""
            SELECT to_json(found.line)::text, {", ".join(f"((found.line).{name})::text" for name, _ in key)}
            FROM (
                SELECT each AS line, sum(pg_column_size(each)) OVER (ORDER BY {names}) - pg_column_size(each) AS before
                FROM (
                    SELECT * FROM {self._named(table)} {where} ORDER BY {names} LIMIT {_ROWS}
                ) AS each
            ) AS found
            WHERE found.before < {_BYTES}
            ORDER BY {", ".join(f"(found.line).{name}" for name, _ in key)}
            """,  # noqa: S608 - names from the catalog
            () if after is None else tuple(after),
        )
        return Batch([row[0] for row in rows], rows[-1][1:] if rows else None)

    @operation("write")
    def write(self, table: str, rows: Sequence[Any], epoch: int) -> Script[bool]:
        yield self._begin(epoch)
        if not (yield self._sql("transfer_held", epoch)):
            return False
        columns = yield self._sql("transfer_columns", self._sql.schema, table)
        names, named = [name for name, *_ in columns], self._named(table)
        yield Statement(
            f"""
            INSERT INTO {named} ({", ".join(names)}) OVERRIDING SYSTEM VALUE
            SELECT {", ".join(f"r.{name}" for name in names)}
            FROM unnest($1::text[]) AS said (text)
            CROSS JOIN LATERAL json_populate_record(NULL::{named}, said.text::json) AS r
            """,  # noqa: S608 - names from the catalog
            (list(rows),),
        )
        return True

    @operation("write")
    def clear(self, table: str, epoch: int) -> Script[bool]:
        yield self._begin(epoch)
        if not (yield self._sql("transfer_held", epoch)):
            return False
        yield Statement(f"TRUNCATE {self._named(table)}")
        return True

    @operation("read")
    def sum(self, table: str) -> Script[Sum]:
        yield self._begin(0)
        ((rows, checksum),) = yield Statement(
            f"""
            SELECT count(*), coalesce(sum(('x' || encode(substr(digest, 1, 8), 'hex'))::bit(64)::bigint), 0)::text
            FROM {self._named(table)} AS each
            CROSS JOIN LATERAL sha256(convert_to(to_json(each)::text, 'UTF8')) AS digest
            """  # noqa: S608 - of our own tables
        )
        return Sum(rows, checksum)

    @operation("read")
    def marks(self) -> Script[Mapping[str, int]]:
        yield self._begin(0)
        rows = yield self._sql("transfer_marks", self._sql.schema)
        found = {name: last for name, last in rows if last is not None and name.partition(".")[0] in self.tables}
        ((epoch,),) = yield self._sql("transfer_next_epoch")
        return {**found, _EPOCHS: epoch}

    @operation("write")
    def set_marks(self, marks: Mapping[str, int], epoch: int) -> Script[bool]:
        yield self._begin(epoch)
        if not (yield self._sql("transfer_held", epoch)):
            return False
        for name, last in marks.items():
            table, _, column = name.partition(".")
            if column:
                yield self._sql("transfer_set_mark", self._named(table), column, last)
            else:
                yield self._sql("transfer_set_epoch", last)
        return True

    def _lock(self) -> Script[None]:
        """Wait for all who write, or fail before the server looks for deadlocks, and ends one of the others."""
        yield self._sql("transfer_hurry", _LOCKED_WITHIN)
        yield Statement(f"LOCK TABLE {', '.join(map(self._named, self.tables))} IN SHARE ROW EXCLUSIVE MODE")
        yield self._sql("transfer_hurry", "0")

    def _begin(self, epoch: int) -> Opening:
        return self._sql.opening("transfer_begin", str(epoch), f"{LOCK_TIMEOUT:g}s")

    def _named(self, table: str) -> str:
        return f"{self._sql.quoted}.{table}"


def _place(column: Sequence[Any]) -> int:
    place: int = column[2]
    return place
