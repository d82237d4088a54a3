"""Publishing in the caller's transaction, beside the same statements raw and beside a minimal outbox by hand.

*Raw* executes the statements of a publish through the same handle without Mainspring: the ratio to it is the share of
the time that the library does not add. *By hand* is a minimal outbox: one message and one delivery, in the same tables
with the same indexes. On PostgreSQL it is one statement with two INSERTs, on SQLite it is two. It does not route, does
not wake workers and does not detect a duplicate id. Both generate the id and encode the payload in Python each time.

All three alternate within each transaction, so that they see the same machine.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple
from uuid import uuid4

from django.db import connections
from sqlalchemy import text

from benchmarks.statements import execute, statements
from mainspring import Mainspring
from tests.integration.handles.alchemists import Alchemist, AsyncAlchemist
from tests.integration.handles.callers import KINDS, Caller, Database, Kind
from tests.integration.handles.djangos import Django
from tests.integration.handles.drivers import Asyncpg, AsyncPsycopg, Psycopg, Sqlite

WANTED = 0.5
ROUND = 25
WARM = 2
PAYLOAD = {"order": 42, "customer": "ada", "text": "x" * 150}

_POSTGRES = """
WITH stored AS (
    INSERT INTO {schema}.message (id, topic, payload, content_type, published_at, copies)
    VALUES (?, ?, ?, 'application/json', now(), 1)
    RETURNING id
)
INSERT INTO {schema}.delivery (message_id, group_name, priority, due_at, scheduled_for, published_at)
SELECT id, 'bench', 2, now(), now(), now() FROM stored
"""
_SQLITE_MESSAGE = """
INSERT INTO mainspring_message (id, topic, payload, content_type, published_at, copies)
VALUES (?, ?, ?, 'application/json', ?, 1)
"""
_SQLITE_DELIVERY = """
INSERT INTO mainspring_delivery (message_id, group_name, priority, due_at, scheduled_for, published_at)
VALUES (?, 'bench', 2, ?, ?, ?)
"""
_OTHER_NAMES = ("pool", "autocommit", "pipeline", "by hand", "scoped", "alias", "connections[")

Statement = tuple[str, tuple[Any, ...]]


class Measured(NamedTuple):
    """Microseconds of one publish, of its statements raw and of one INSERT by hand, through one kind of handle."""

    handle: str
    publish: float
    raw: float
    by_hand: float


async def measure(database: Database, address: str, schema: str, pairs: int) -> list[Measured]:
    """Measure every kind of handle of this database, without those that are the same under another name."""
    app = Mainspring(
        address if database == "PostgreSQL" else f"sqlite:///{address}", name="bench", schema=schema, auto_migrate=True
    )

    @app.consumer("bench.placed", group="bench")
    async def noop(_: dict[str, Any]) -> None: ...

    async with app:
        await app.migrate()
        await app.declare()
    chosen = [kind for kind in KINDS if kind.database == database]
    chosen = [kind for kind in chosen if not any(word in kind.handle for word in _OTHER_NAMES)]
    # In a thread, so that blocking handles meet no loop and the others have their own.
    return [await asyncio.to_thread(kind.run, _take_turns(app, kind, address, schema, pairs)) for kind in chosen]


async def _take_turns(app: Mainspring, kind: Kind, address: str, schema: str, pairs: int) -> Measured:
    took: list[tuple[float, float, float]] = []
    async with kind.open(address) as caller:
        for round_number in range(WARM + pairs // ROUND):
            if round_number == WARM:
                took.clear()
            async with caller.transaction():
                for _ in range(ROUND):
                    began = time.perf_counter()
                    await _publish(app, caller)
                    published = time.perf_counter()
                    for statement in statements(kind.database, schema, PAYLOAD):
                        await execute(caller, statement)
                    executed = time.perf_counter()
                    for insert in _by_hand(kind.database, schema):
                        await _insert(caller, *insert)
                    took.append((published - began, executed - published, time.perf_counter() - executed))
    publish, raw, by_hand = (statistics.median(column) * 1e6 for column in zip(*took, strict=True))
    return Measured(kind.handle, publish, raw, by_hand)


async def _publish(app: Mainspring, caller: Caller) -> None:
    if caller.blocking:
        app.sync.publish("bench.placed", PAYLOAD, tx=caller.tx)
    else:
        await app.publish("bench.placed", PAYLOAD, tx=caller.tx)


def _by_hand(database: Database, schema: str) -> list[Statement]:
    mine, payload = uuid4(), json.dumps(PAYLOAD).encode()
    if database == "PostgreSQL":
        return [(_POSTGRES.format(schema=schema), (mine, "bench.placed", payload))]
    at = time.time_ns() // 1000
    return [
        (_SQLITE_MESSAGE, (mine.bytes, "bench.placed", payload, at)),
        (_SQLITE_DELIVERY, (mine.bytes, at, at, at)),
    ]


@cache
def _spelled(sql: str, style: str, wrap: Callable[[str], Any] = str) -> Any:
    """Return the SQL with this library's parameter style, built once, as in a program."""
    first, *rest = sql.split("?")
    return wrap(first + "".join(style.format(place) + part for place, part in enumerate(rest, 1)))


def _named(args: tuple[Any, ...]) -> dict[str, Any]:
    return {f"p{place}": value for place, value in enumerate(args, 1)}


async def _insert(caller: Caller, sql: str, args: tuple[Any, ...]) -> None:
    """Run a statement through this caller's library."""
    match caller:
        case Asyncpg():
            await caller.tx.execute(_spelled(sql, "${}"), *args)
        case Psycopg():
            caller.tx.execute(_spelled(sql, "%s"), args)
        case AsyncPsycopg():
            await caller.tx.execute(_spelled(sql, "%s"), args)
        case Sqlite():
            caller.tx.execute(sql, args)
        case Alchemist():
            caller.tx.execute(_spelled(sql, ":p{}", text), _named(args))
        case AsyncAlchemist():
            await caller.tx.execute(_spelled(sql, ":p{}", text), _named(args))
        case Django():
            with connections[caller.alias].cursor() as cursor:
                cursor.execute(_spelled(sql, "%s"), args)
