"""The statements of one publish, executed raw through a database library."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from functools import cache
from typing import Any
from uuid import UUID, uuid4

from django.db import connections

from mainspring.model.message import Draft
from mainspring.storage.enlisted.sqlalchemy import named
from mainspring.storage.operation import HandSet, Nowhere
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.postgres.mailbox import PostgresMailbox
from mainspring.storage.script import Statement
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.mailbox import SqliteMailbox
from tests.integration.handles.alchemists import Alchemist, AsyncAlchemist
from tests.integration.handles.callers import Caller, Database
from tests.integration.handles.djangos import Django
from tests.integration.handles.drivers import Asyncpg, AsyncPsycopg, Psycopg, Sqlite

_ID = UUID(int=7)
_PAYLOAD = b"payload"
_PARAMETER = re.compile(r"[?$](\d+)")
_COMMENT = re.compile(r"--[^\n]*")


def recorded(database: Database, schema: str) -> tuple[Statement, ...]:
    """Return the statements of our script for one message to one group, with markers for the id and the payload."""
    draft = Draft(_ID, "bench.placed", _PAYLOAD)
    if database == "PostgreSQL":
        return (next(PostgresMailbox(Names(schema), Nowhere(), HandSet()).publish.script([draft])),)
    at = time.time_ns() // 1000
    script = SqliteMailbox(Dialect(schema, lambda: at), Nowhere()).publish.script([draft])
    return next(script), script.send([(at, at, 1)])


def statements(database: Database, schema: str, payload: object) -> Iterator[Statement]:
    """Yield them for another message; the id and the payload are generated each time, as in a program."""
    mine, body = uuid4(), json.dumps(payload).encode()
    identity = mine if database == "PostgreSQL" else mine.bytes
    for sql, args, at_id, at_payload in _templates(database, schema):
        filled = args.copy()
        filled[at_id] = identity
        if at_payload is not None:
            filled[at_payload] = body
        yield Statement(sql, tuple(filled))


@cache
def _templates(database: Database, schema: str) -> list[tuple[str, list[Any], int, int | None]]:
    """Return each statement, its arguments, and the positions of the id and the payload."""
    mark = _ID if database == "PostgreSQL" else _ID.bytes
    return [
        (sql, list(args), args.index(mark), args.index(_PAYLOAD) if _PAYLOAD in args else None)
        for sql, args in recorded(database, schema)
    ]


async def execute(caller: Caller, statement: Statement) -> None:
    """Run it through this caller's library, and fetch its rows."""
    sql, args = statement
    match caller:
        case Asyncpg():
            await caller.tx.fetch(sql, *args)
        case Psycopg():
            _fetch(caller.tx.execute(*named(statement)))
        case AsyncPsycopg():
            await (await caller.tx.execute(*named(statement))).fetchall()
        case Sqlite():
            _fetch(caller.tx.execute(sql, args))
        case Alchemist():
            _drive(caller.tx, statement)
        case AsyncAlchemist():
            await caller.tx.run_sync(_drive, statement)
        case Django():
            text, places = _positional(sql)
            with connections[caller.alias].cursor() as cursor:
                cursor.execute(text, [args[place] for place in places])
                _fetch(cursor)


def _fetch(cursor: Any) -> None:
    if cursor.description:
        cursor.fetchall()


def _drive(handle: Any, statement: Statement) -> None:
    connection = handle if hasattr(handle, "exec_driver_sql") else handle.connection()
    sql, args = named(statement) if connection.dialect.driver == "psycopg" else statement
    result = connection.exec_driver_sql(sql, args)
    if result.returns_rows:
        result.fetchall()


@cache
def _positional(sql: str) -> tuple[str, tuple[int, ...]]:
    """Return the SQL with ``%s`` for each parameter, and the index of each."""
    bare = _COMMENT.sub("", sql).strip().replace("%", "%%")
    return _PARAMETER.sub("%s", bare), tuple(int(number) - 1 for number in _PARAMETER.findall(bare))
