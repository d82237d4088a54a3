"""The time of a claim among millions of rows of other groups and times."""

from __future__ import annotations

import time
from datetime import timedelta

import asyncpg

from mainspring.model.message import ALL_LEVELS, ClaimRequest
from mainspring.storage.postgres import PostgresStorage

GROUP, OTHER = "bench", "other"
TAKE = 50

# Ids as publishers generate them: ascending in time, random at the end.
_ID = "({head!r} || lpad(to_hex(n), 12, '0') || substr(md5(n::text), 1, 16))::uuid"

_MESSAGES = """
INSERT INTO {schema}.message (id, topic, payload, content_type, published_at, copies)
SELECT {id}, 'bench', '{{}}', 'application/json', now(), 1 FROM generate_series(1, $1::integer) AS n
"""
_DELIVERIES = """
INSERT INTO {schema}.delivery (message_id, group_name, priority, due_at, scheduled_for, published_at)
SELECT {id}, $2, n % 4, now() + $3::interval + n * interval '1 microsecond', now(), now()
FROM generate_series(1, $1::integer) AS n
"""
_FUTURE = """
INSERT INTO {schema}.delivery (message_id, group_name, priority, due_at, scheduled_for, published_at)
SELECT {id}, $2, n % 4, now() + interval '1 day' + n * interval '1 second', now(), now()
FROM generate_series(1, $1::integer) AS n
"""
_DEAD = """
INSERT INTO {schema}.dead (
    seq, message_id, group_name, topic, priority, epoch, attempt, deaths, scheduled_for, published_at, kind, error,
    buried_at
)
SELECT 1000000000 + n, {id}, $2, 'bench', n % 4, 1, 1, 0, now(), now(), 'error', 'no', now()
FROM generate_series(1, $1::integer) AS n
"""


async def claim_times(url: str, schema: str, claims: int, rows: int) -> list[float]:
    """Return the milliseconds of each of ``claims`` claims of 50, from the start and without a low-water mark."""
    storage = PostgresStorage(url, schema=schema)
    await storage.open()
    try:
        await storage.schema.migrate()
        await load(url, schema, rows)
        times: list[float] = []
        for _ in range(claims):
            started = time.perf_counter()
            claimed = await storage.mailbox.claim(
                [ClaimRequest(GROUP, TAKE, ALL_LEVELS)], "bench", timedelta(minutes=5)
            )
            times.append((time.perf_counter() - started) * 1_000)
            if len(claimed) != TAKE:
                raise RuntimeError(f"a claim returned {len(claimed)} of {TAKE}")
        return times
    finally:
        await storage.close()


async def load(url: str, schema: str, rows: int) -> None:
    """Insert ``rows`` rows each: ready here, ready in another group, due tomorrow, dead."""
    connection = await asyncpg.connect(url)
    started = time.perf_counter()
    try:
        # Indexes are created after loading: on an empty table they would be built row by row.
        indexes = await connection.fetch(
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = $1 AND tablename = 'delivery' "
            "AND indexname LIKE 'delivery\\_%' AND indexdef LIKE '%WHERE%'",
            schema,
        )
        for name, _ in indexes:
            await connection.execute(f"DROP INDEX {schema}.{name}")

        async def fill(statement: str, head: str, *args: object) -> None:
            await connection.execute(statement.format(schema=schema, id=_ID.format(head=head)), rows, *args)

        await fill(_MESSAGES, "0001")
        await fill(_DELIVERIES, "0001", GROUP, timedelta(hours=-1))
        await fill(_DELIVERIES, "0002", OTHER, timedelta(hours=-2))
        await fill(_FUTURE, "0003", GROUP)
        await fill(_DEAD, "0004", GROUP)
        for _, definition in indexes:
            await connection.execute(definition)
        await connection.execute(f"VACUUM ANALYZE {schema}.delivery")
        await connection.execute(f"VACUUM ANALYZE {schema}.message")
        # Dirty pages of the load must not be written during the claims.
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
    print(f"  4 × {rows:,} rows loaded in {time.perf_counter() - started:.0f} s")
