"""How long a claim takes among millions of rows that are not for it."""

from __future__ import annotations

import time
from datetime import timedelta

import asyncpg

from mainspring.model.message import ALL_LEVELS, Want
from mainspring.storage.postgres import PostgresStorage

GROUP, OTHER = "bench", "other"
TAKE = 50

_MESSAGES = """
INSERT INTO {schema}.message (id, topic, payload, content_type, published_at, copies)
SELECT md5(n::text)::uuid, 'bench', '{{}}', 'application/json', now(), 1 FROM generate_series(1, $1::integer) AS n
"""
_DELIVERIES = """
INSERT INTO {schema}.delivery (message_id, group_name, priority, due_at, scheduled_for, published_at)
SELECT md5(n::text)::uuid, $2, n % 4, now() + $3::interval + n * interval '1 microsecond', now(), now()
FROM generate_series(1, $1::integer) AS n
"""
_FUTURE = """
INSERT INTO {schema}.delivery (message_id, group_name, priority, due_at, scheduled_for, published_at)
SELECT md5('later' || n)::uuid, $2, n % 4, now() + interval '1 day' + n * interval '1 second', now(), now()
FROM generate_series(1, $1::integer) AS n
"""
_DEAD = """
INSERT INTO {schema}.dead (
    seq, message_id, group_name, topic, priority, epoch, attempt, deaths, scheduled_for, published_at, kind, error,
    buried_at
)
SELECT 1000000000 + n, md5('dead' || n)::uuid, $2, 'bench', n % 4, 1, 1, 0, now(), now(), 'error', 'no', now()
FROM generate_series(1, $1::integer) AS n
"""


async def claim_times(url: str, schema: str, claims: int, rows: int) -> list[float]:
    """Milliseconds of each of ``claims`` claims of 50, from the beginning and without any low-water mark."""
    storage = PostgresStorage(url, schema=schema)
    await storage.open()
    try:
        await storage.schema.migrate()
        await load(url, schema, rows)
        times: list[float] = []
        for _ in range(claims):
            started = time.perf_counter()
            claimed = await storage.mailbox.claim([Want(GROUP, TAKE, ALL_LEVELS)], "bench", timedelta(minutes=5))
            times.append((time.perf_counter() - started) * 1_000)
            if len(claimed) != TAKE:
                raise RuntimeError(f"a claim brought {len(claimed)} of {TAKE}")
        return times
    finally:
        await storage.close()


async def load(url: str, schema: str, rows: int) -> None:
    """``rows`` each: ready here, ready in another group, due tomorrow, dead."""
    connection = await asyncpg.connect(url)
    started = time.perf_counter()
    try:
        # Order matters to nothing but the time it takes: indexes on an empty table would be built row by row.
        indexes = await connection.fetch(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = $1 AND tablename = 'delivery' "
            "AND indexname LIKE 'delivery\\_%' AND indexdef LIKE '%WHERE%'",
            schema,
        )
        for name, _ in indexes:
            await connection.execute(f"DROP INDEX {schema}.{name}")
        await connection.execute(_MESSAGES.format(schema=schema), rows)
        await connection.execute(_DELIVERIES.format(schema=schema), rows, GROUP, timedelta(hours=-1))
        await connection.execute(_DELIVERIES.format(schema=schema), rows, OTHER, timedelta(hours=-2))
        await connection.execute(_FUTURE.format(schema=schema), rows, GROUP)
        await connection.execute(_DEAD.format(schema=schema), rows, GROUP)
        for _, definition in indexes:
            await connection.execute(definition)
        await connection.execute(f"VACUUM ANALYZE {schema}.delivery")
        await connection.execute(f"ANALYZE {schema}.message")
    finally:
        await connection.close()
    print(f"  4 × {rows:,} rows loaded in {time.perf_counter() - started:.0f} s")
