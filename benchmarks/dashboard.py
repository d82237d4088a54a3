"""The time of the dashboard's queries, with a million live messages and a million runs."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from hashlib import md5
from typing import Any
from uuid import UUID

import asyncpg

from mainspring import Mainspring
from mainspring.app.admin.messages import SEARCHED
from mainspring.model.fingerprint import fingerprint

MOST = 200.0
"""The maximum milliseconds of a page's query."""
ROUNDS = 12
"""More than five, after which the server may switch to a generic plan."""

Read = Callable[[], Awaitable[object]]

_TABLES = ("message", "delivery", "dead", "run")
_DETACH = """
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', c.conrelid::regclass, c.conname),
       format('ALTER TABLE %s ADD CONSTRAINT %I %s', c.conrelid::regclass, c.conname, pg_get_constraintdef(c.oid))
FROM pg_constraint AS c
WHERE c.contype IN ('p', 'u') AND c.conrelid = ANY ($1::text[]::regclass[])
UNION ALL
SELECT format('DROP INDEX %s', i.indexrelid::regclass), pg_get_indexdef(i.indexrelid)
FROM pg_index AS i
WHERE i.indrelid = ANY ($1::text[]::regclass[])
  AND NOT EXISTS (SELECT FROM pg_constraint AS c WHERE c.conindid = i.indexrelid)
"""
_ID = "(lpad(to_hex({n}), 12, '0') || substr(md5(({n})::text), 1, 20))::uuid"
# Live messages first, then ended ones, then dead letters: in ascending order of n.
_MESSAGES = """
INSERT INTO {schema}.message (id, topic, key, payload, content_type, published_at, copies, causation_id)
SELECT
    {id},
    CASE WHEN n % 1000 = 7 THEN 'rare.topic' ELSE 'topic.' || n % 20 END,
    CASE WHEN n % 4 = 0 THEN 'tenant:' || n % 50 WHEN n % 4 = 1 THEN 'order:' || n END,
    convert_to('{{"order": ' || n || ', "customer": "' || md5(n::text) || '", "note": "nothing special"}}', 'UTF8'),
    'application/json', now() - ($1 - n) * interval '10 milliseconds', 1,
    CASE WHEN n % 10 = 1 AND n > 10 THEN {before} END
FROM generate_series(1, $1::integer) AS n
"""
_GROUP = """CASE
    WHEN n <= {few} THEN 'oldest' WHEN n % 20000 = 3 THEN 'rare'
    WHEN n % 10 < 6 THEN 'orders' WHEN n % 10 < 9 THEN 'mails' ELSE 'reports' END"""
_DELIVERIES = """
INSERT INTO {schema}.delivery (
    message_id, group_name, priority, due_at, scheduled_for, published_at, key, held_by, epoch, attempt
)
SELECT
    {id}, {group}, n % 4,
    CASE WHEN n % 1000 = 500 THEN now() + interval '1 hour' WHEN n % 10 = 9 THEN now() + n * interval '1 second'
        ELSE now() - ($1 - n) * interval '10 milliseconds' END,
    now(), now() - ($1 - n) * interval '10 milliseconds',
    CASE WHEN n % 4 = 0 THEN 'tenant:' || n % 50 WHEN n % 4 = 1 THEN 'order:' || n END,
    CASE WHEN n % 1000 = 500 THEN 'worker-' || n / 1000 % 10 END, 1,
    CASE WHEN n % 1000 = 500 THEN 1 WHEN n % 5000 = 44 THEN 2 ELSE 0 END
FROM generate_series(1, $1::integer) AS n
"""
_RUNS = """
INSERT INTO {schema}.run (
    message_id, group_name, topic, attempt, status, started_at, finished_at, node, kind, error, source, schedule
)
SELECT
    {id}, {group}, CASE WHEN n % 1000 = 7 THEN 'rare.topic' ELSE 'topic.' || n % 20 END, 1,
    CASE WHEN n % 500 = 1 THEN 'failed' WHEN n % 1000 = 2 THEN 'cancelled' ELSE 'done' END,
    now() - ($2 - n) * interval '10 milliseconds', now() - ($2 - n) * interval '10 milliseconds', 'worker-1',
    CASE WHEN n % 500 = 1 THEN 'error' END,
    CASE WHEN n % 500 = 1 THEN 'order ' || n || ' not found' END, 'message',
    CASE WHEN n % 10 = 5 THEN 'schedule.' || n / 10 % 200 END
FROM generate_series($1::integer + 1, $2::integer) AS n
"""
_DEAD = """
INSERT INTO {schema}.dead (
    seq, message_id, group_name, topic, key, priority, epoch, attempt, deaths, scheduled_for, published_at, kind, error,
    buried_at, fingerprint
)
SELECT
    n, {id}, {group}, 'topic.' || n % 20, NULL, 2, 1, 3, 0, now(), now() - ($2 - n) * interval '10 milliseconds',
    'error',
    CASE WHEN n % 1000 = 1 THEN 'disk is full' ELSE 'order ' || n || ' not found' END, now(),
    CASE WHEN n % 1000 = 1 THEN $3 ELSE $4 END
FROM generate_series($1::integer + 1, $2::integer) AS n
"""


async def fill(url: str, schema: str, rows: int) -> None:
    """Insert ``rows`` deliveries of five groups, as many runs, and a tenth as many dead letters."""
    connection = await asyncpg.connect(url)
    started = time.perf_counter()
    try:
        tables = [f"{schema}.{table}" for table in _TABLES]
        indexes = await connection.fetch(_DETACH, tables)
        for drop, _ in indexes:
            await connection.execute(drop)
        await connection.execute("SET maintenance_work_mem = '256MB'")
        dead = 2 * rows + rows // 10
        names = {
            "schema": schema,
            "id": _ID.format(n="n"),
            "before": _ID.format(n="n - 10"),
            "group": _GROUP.format(few=rows // 20),
        }
        await connection.execute(_MESSAGES.format(**names), dead)
        await connection.execute(_DELIVERIES.format(**names), rows)
        await connection.execute(_RUNS.format(**names), rows, 2 * rows)
        causes = (fingerprint("error", "disk is full"), fingerprint("error", "order 1 not found"))
        await connection.execute(_DEAD.format(**names), 2 * rows, dead, *causes)
        for _, restore in indexes:
            await connection.execute(restore)
        await connection.execute(f"VACUUM ANALYZE {', '.join(tables)}")
        await connection.execute("CHECKPOINT")  # dirty pages of the load must not be written during the reads
    finally:
        await connection.close()
    print(f"  {rows:,} deliveries, {rows:,} runs, {rows // 10:,} dead letters in {time.perf_counter() - started:.0f} s")


async def read(url: str, schema: str, rows: int) -> list[tuple[str, list[float]]]:
    """Return the milliseconds of each query, by name, without the first, which warms up."""
    app = Mainspring(url, schema=schema, name="bench")

    @app.consumer("tidy")
    def tidy(_: Any) -> None: ...

    found: list[tuple[str, list[float]]] = []
    async with app:
        await app.migrate()
        await fill(url, schema, rows)
        await app.declare()
        for number in range(200):
            await app.schedules.put(f"schedule.{number}", "0 * * * *", tidy)
        for name, call in _reads(app, rows):
            times: list[float] = []
            for _ in range(ROUNDS + 1):
                began = time.perf_counter()
                await call()
                times.append((time.perf_counter() - began) * 1_000)
            found.append((name, times[1:]))
    return found


def _reads(app: Mainspring, rows: int) -> list[tuple[str, Read]]:
    def search(**wanted: Any) -> Read:
        return lambda: app.messages.search(**wanted)

    now = datetime.now(UTC)
    minute, middle = now - timedelta(minutes=1), now - timedelta(seconds=rows * 0.005)
    number = rows // 20 * 10 + 1
    one = UUID(f"{number:012x}" + md5(str(number).encode(), usedforsecurity=False).hexdigest()[:20])
    common, rare = fingerprint("error", "order 1 not found"), fingerprint("error", "disk is full")
    return [
        ("overview: tally, cap 10,000", lambda: app.stats.tally(10_000)),
        ("overview: tally, cap 100,000", lambda: app.stats.tally(100_000)),
        ("overview: roster", app.stats.roster),
        ("overview: schedules", app.schedules.list),
        ("overview: schedules' runs", app.schedules.recent),
        ("overview: failures", lambda: app.messages.failures(limit=8)),
        ("live", search()),
        ("live, page in the middle", search(cursor=SEARCHED.encoded(("", rows // 2)))),
        ("scheduled", search(state="scheduled")),
        ("ready", search(state="ready")),
        ("will retry", search(state="retrying")),
        ("will retry, of a group", search(state="retrying", group="mails")),
        ("running", search(state="running")),
        ("held by a worker", search(held_by="worker-3")),
        ("held by no worker", search(held_by="absent")),
        ("group, large", search(group="orders")),
        ("group, small", search(group="rare")),
        ("group, all of it old", search(group="oldest")),
        ("group, unknown", search(group="absent")),
        ("topic, large", search(topic="topic.3")),
        ("topic, small", search(topic="rare.topic")),
        ("topic, unknown", search(topic="absent")),
        ("key of one message", search(key="order:5")),
        ("key of many", search(key="tenant:4")),
        ("key of none", search(key="absent")),
        ("topic and key", search(topic="topic.5", key="order:5")),
        ("text in all", search(text="SPECIAL")),
        ("text in none", search(text="no such text")),
        ("text in a group", search(text="no such text", group="orders")),
        ("since a minute", search(since=minute)),
        ("until half way", search(until=middle)),
        ("group until half way", search(group="orders", until=middle)),
        ("dead", search(state="dead")),
        ("dead of a group", search(state="dead", group="mails")),
        ("dead of a cause, common", search(state="dead", fingerprint=common)),
        ("dead of a cause, rare", search(state="dead", fingerprint=rare)),
        ("dead of a group and cause", search(state="dead", group="orders", fingerprint=rare)),
        ("dead by error", search(state="dead", error="disk")),
        ("dead by error of none", search(state="dead", error="no such text")),
        ("dead by topic", search(state="dead", topic="topic.3")),
        ("dead by text of none", search(state="dead", text="no such text")),
        ("dead until half way", search(state="dead", until=middle)),
        ("causes", app.dead.causes),
        ("done", search(state="done")),
        ("done of a group", search(state="done", group="reports")),
        ("done by topic, small", search(state="done", topic="rare.topic")),
        ("done by topic, large", search(state="done", topic="topic.3")),
        ("done by key", search(state="done", key=f"order:{rows + 1}")),
        ("done by text of none", search(state="done", text="no such text")),
        ("done until half way", search(state="done", until=middle)),
        ("cancelled", search(state="cancelled")),
        ("cancelled of a group", search(state="cancelled", group="orders")),
        ("parked", search(state="parked")),
        ("one message's chain", lambda: app.messages.chain(one)),
    ]
