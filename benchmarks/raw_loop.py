"""The baseline: a bare claim-and-delete loop on this machine, through one asyncpg connection."""

from __future__ import annotations

import time
import uuid

import asyncpg

BATCH = 500
_TABLE = """
DROP TABLE IF EXISTS bench_raw;
CREATE TABLE bench_raw (id uuid PRIMARY KEY, due_at timestamptz NOT NULL, payload bytea NOT NULL);
CREATE INDEX bench_raw_due ON bench_raw (due_at);
"""
_CLAIM = """
WITH due AS MATERIALIZED (
    SELECT id FROM bench_raw WHERE due_at <= now() ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
UPDATE bench_raw SET due_at = now() + interval '30 seconds' FROM due WHERE bench_raw.id = due.id
RETURNING bench_raw.id, payload
"""


async def drain(url: str, messages: int) -> float:
    """Return messages per second of the raw loop over ``messages`` rows of 200 bytes."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_TABLE)
        rows = [(uuid.uuid4(), b"x" * 200) for _ in range(messages)]
        await connection.executemany("INSERT INTO bench_raw VALUES ($1, now(), $2)", rows)
        await connection.execute("VACUUM ANALYZE bench_raw")
        started = time.perf_counter()
        taken = 0
        while claimed := await connection.fetch(_CLAIM, BATCH):
            await connection.execute("DELETE FROM bench_raw WHERE id = ANY ($1::uuid[])", [row[0] for row in claimed])
            taken += len(claimed)
        elapsed = time.perf_counter() - started
        if taken != messages:
            raise RuntimeError(f"the raw loop took {taken} of {messages}")
        await connection.execute("DROP TABLE bench_raw")
        return messages / elapsed
    finally:
        await connection.close()
