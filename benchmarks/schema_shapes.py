"""Compare storage shapes for a PostgreSQL queue: what a publish and a drain cost in each.

A1    immutable message + delivery(seq PK, UNIQUE(message_id, group_name)), two partial indexes
A1any A1, claiming with ``seq = ANY(ARRAY(SELECT ... FOR UPDATE SKIP LOCKED))``, not a CTE join
A2    A1 with PK (message_id, group_name) and an unindexed seq; settles by (message_id, group_name)
A3    A1 with one plain (group_name, priority, due_at, seq) index in place of the partial two
B     one table: the delivery carries the body, a ``recent`` table guards against republishing
B-    B without UNIQUE(message_id, group_name), which ``recent`` makes redundant
C     A1 whose settle also deletes the message and records its id in ``recent``; its publish
      checks ``recent``.  One group only: several would need a last-delivery check on top
raw   the floor: one table (id PK, due_at, payload), claim by UPDATE, settle by DELETE
x3    the same shape with three groups per message, drained round robin

Every round runs every case on a fresh connection, starting one case later each time.  Ratios
are taken within a round and their median printed, so a slow minute on a shared machine slows
both sides.  Drain figures count deliveries; publish, size and purge figures count messages.
Purge is one DELETE of whatever the drain leaves behind (message or recent rows), which a
retention job pays later.  Not timed: fresh tables, VACUUM ANALYZE and CHECKPOINT before each
case, ANALYZE between publish and drain.  WAL is server-wide: it includes other sessions' writes.
Everything lives in the schema ``shapes``, which is dropped before and after every case.

Left free, the planner reads all of a table this small (hash join over a sequential scan) to
claim by a CTE join, so it is the backlog's size that gets measured.  ``--planner pinned`` (the
default) holds the drain to the index nested loops a long backlog gets; ``free`` lets it choose.
"""

from __future__ import annotations

import argparse
import os
import secrets
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Self

import asyncpg
import uvloop

BATCH = 500
PIN = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
GROUPS = ["billing", "audit", "search"]
RECENT = "CREATE TABLE recent (message_id uuid PRIMARY KEY, at timestamptz NOT NULL)"
READY = "CREATE INDEX ON delivery (group_name, priority, due_at, seq) WHERE held_by IS NULL"
HELD = "CREATE INDEX ON delivery (group_name, due_at, seq) WHERE held_by IS NOT NULL"
PLAIN = "CREATE INDEX ON delivery (group_name, priority, due_at, seq)"
BODY = "topic text NOT NULL, payload bytea NOT NULL, content_type text NOT NULL, headers text, "
MESSAGE = f"CREATE TABLE message (id uuid PRIMARY KEY, {BODY}published_at timestamptz NOT NULL)"
SEQ_KEY = "PRIMARY KEY (seq), UNIQUE (message_id, group_name)"

INPUT = """unnest($1::uuid[], $2::bytea[], $3::text[], $4::text[], $5::text[])
    AS i(id, payload, topic, content_type, headers)"""
FRESH = "(message_id, group_name, priority, due_at, epoch, attempt, deaths, scheduled_for"
START = "g.name, 0, now(), 0, 0, 0, now()"


def delivery(keys: str, body: str = "") -> str:
    """Return the delivery table with its key constraints and, for one-table shapes, body columns."""
    return f"""CREATE TABLE delivery (seq bigint GENERATED ALWAYS AS IDENTITY,
        message_id uuid NOT NULL, group_name text COLLATE "C" NOT NULL,
        priority smallint NOT NULL, due_at timestamptz NOT NULL, epoch int NOT NULL,
        attempt smallint NOT NULL, deaths smallint NOT NULL, held_by text,
        scheduled_for timestamptz NOT NULL, {body}{keys})"""


def publish_split(guard: str = "") -> str:
    """Insert new messages, then one delivery per group for each that was new."""
    return f"""WITH fresh AS (INSERT INTO message
            SELECT i.id, i.topic, i.payload, i.content_type, i.headers, now() FROM {INPUT} {guard}
            ON CONFLICT DO NOTHING RETURNING id)
        INSERT INTO delivery {FRESH})
        SELECT fresh.id, {START} FROM fresh CROSS JOIN unnest($6::text[]) AS g(name)"""


PUBLISH_ONE = f"""WITH fresh AS (INSERT INTO recent SELECT i.id, now() FROM {INPUT}
        ON CONFLICT DO NOTHING RETURNING message_id)
    INSERT INTO delivery {FRESH}, topic, payload, content_type, headers)
    SELECT i.id, {START}, i.topic, i.payload, i.content_type, i.headers
    FROM {INPUT} JOIN fresh ON fresh.message_id = i.id CROSS JOIN unnest($6::text[]) AS g(name)"""
HOLD = """SET due_at = now() + interval '30 seconds', epoch = d.epoch + 1,
    attempt = d.attempt + 1, held_by = 'host:1:abcd'"""
READ = "d.seq, d.message_id, d.group_name, d.epoch, d.attempt, d.deaths, d.scheduled_for"


def pick(columns: str) -> str:
    """Return the locking subselect of every claim."""
    return f"""SELECT {columns} FROM delivery
        WHERE group_name = $1 AND held_by IS NULL AND due_at <= now()
        ORDER BY priority, due_at, seq LIMIT $2 FOR UPDATE SKIP LOCKED"""


def claim_split(key: str) -> str:
    """Claim by a CTE joined back on ``key``, reading the body from message."""
    columns = "message_id, group_name" if "group_name" in key else "message_id, seq"
    return f"""WITH c AS MATERIALIZED ({pick(columns)})
        UPDATE delivery d {HOLD} FROM c JOIN message m ON m.id = c.message_id WHERE {key}
        RETURNING {READ}, m.topic, m.payload, m.content_type, m.headers, m.published_at"""


CLAIM_ONE = f"""WITH c AS MATERIALIZED ({pick("seq")})
    UPDATE delivery d {HOLD} FROM c WHERE d.seq = c.seq
    RETURNING {READ}, d.topic, d.payload, d.content_type, d.headers"""
CLAIM_ANY = f"""UPDATE delivery d {HOLD} FROM message m
    WHERE d.seq = ANY(ARRAY({pick("seq")})) AND m.id = d.message_id
    RETURNING {READ}, m.topic, m.payload, m.content_type, m.headers, m.published_at"""
BY_SEQ = "d.seq = c.seq"
BY_KEY = "d.message_id = c.message_id AND d.group_name = c.group_name"
LOCK_SEQ = """locked AS MATERIALIZED (SELECT d.seq FROM delivery d
    JOIN unnest($1::bigint[], $2::int[]) AS u(seq, epoch)
    ON d.seq = u.seq AND d.epoch = u.epoch ORDER BY d.seq FOR UPDATE OF d)"""
SETTLE_SEQ = f"WITH {LOCK_SEQ} DELETE FROM delivery d USING locked c WHERE {BY_SEQ}"
SETTLE_KEY = f"""WITH locked AS MATERIALIZED (SELECT d.message_id, d.group_name FROM delivery d
    JOIN unnest($1::uuid[], $2::text[], $3::int[]) AS u(message_id, group_name, epoch)
    ON d.message_id = u.message_id AND d.group_name = u.group_name AND d.epoch = u.epoch
    ORDER BY d.seq FOR UPDATE OF d) DELETE FROM delivery d USING locked c WHERE {BY_KEY}"""
SETTLE_MOVE = f"""WITH {LOCK_SEQ},
    gone AS (DELETE FROM delivery d USING locked c WHERE {BY_SEQ} RETURNING d.message_id),
    kept AS (INSERT INTO recent SELECT message_id, now() FROM gone)
    DELETE FROM message m USING gone WHERE m.id = gone.message_id"""


@dataclass(frozen=True)
class Shape:
    """One case: its tables, its three statements and the columns that its settle needs."""

    name: str
    ddl: list[str]
    publish: str
    claim: str
    settle: str
    settle_by: list[str] = field(default_factory=lambda: ["seq", "epoch"])
    groups: int = 1
    purge: str = "message"
    base: str = "A1"


A1 = Shape("A1", [MESSAGE, delivery(SEQ_KEY), READY, HELD], publish_split(), claim_split(BY_SEQ), SETTLE_SEQ)
B = Shape("B", [RECENT, delivery(SEQ_KEY, BODY), READY, HELD], PUBLISH_ONE, CLAIM_ONE, SETTLE_SEQ, purge="recent")
SHAPES = [
    A1,
    replace(A1, name="A1any", claim=CLAIM_ANY),
    replace(
        A1,
        name="A2",
        claim=claim_split(BY_KEY),
        settle=SETTLE_KEY,
        ddl=[MESSAGE, delivery("PRIMARY KEY (message_id, group_name)"), READY, HELD],
        settle_by=["message_id", "group_name", "epoch"],
    ),
    replace(A1, name="A3", ddl=[MESSAGE, delivery(SEQ_KEY), PLAIN]),
    B,
    replace(B, name="B-", ddl=[RECENT, delivery("PRIMARY KEY (seq)", BODY), READY, HELD]),
    replace(
        A1,
        name="C",
        ddl=[*A1.ddl, RECENT],
        settle=SETTLE_MOVE,
        purge="recent",
        publish=publish_split("WHERE NOT EXISTS (SELECT FROM recent r WHERE r.message_id = i.id)"),
    ),
    Shape(
        "raw",
        [
            ("CREATE TABLE raw (id uuid PRIMARY KEY, due_at timestamptz NOT NULL, payload bytea NOT NULL)"),
            "CREATE INDEX ON raw (due_at)",
        ],
        "INSERT INTO raw SELECT id, now(), payload FROM unnest($1::uuid[], $2::bytea[]) AS i(id, payload)",
        """WITH c AS MATERIALIZED (SELECT id FROM raw WHERE due_at <= now()
                ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED)
             UPDATE raw r SET due_at = now() + interval '30 seconds' FROM c WHERE r.id = c.id
             RETURNING r.id, r.payload""",
        "DELETE FROM raw WHERE id = ANY($1::uuid[])",
        ["id"],
        purge="",
    ),
    replace(A1, name="A1x3", groups=3, base="A1x3"),
    replace(B, name="Bx3", groups=3, base="A1x3"),
]


def batches(shape: Shape, count: int) -> list[list[list[Any]]]:
    """Publish arguments, built before the clock starts: time-ordered ids, random payloads."""
    millis, made = time.time_ns() // 1_000_000, []
    for first in range(0, count, BATCH):
        ids = [
            uuid.UUID(int=(millis + (first + i) // 50) << 80 | 7 << 76 | i << 64 | 2 << 62 | secrets.randbits(62))
            for i in range(BATCH)
        ]
        args: list[list[Any]] = [ids, [os.urandom(200) for _ in ids]]
        if shape.name != "raw":
            args += [["orders.created"] * BATCH, ["application/json"] * BATCH, [None] * BATCH, GROUPS[: shape.groups]]
        made.append(args)
    return made


class Meter:
    """Seconds and server WAL bytes spent inside an ``async with`` block."""

    def __init__(self, conn: asyncpg.Connection) -> None:
        self._conn, self.seconds, self.wal = conn, 0.0, 0

    async def _lsn(self) -> int:
        return int(await self._conn.fetchval("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"))

    async def __aenter__(self) -> Self:
        self.wal = -await self._lsn()
        self.seconds = -time.perf_counter()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.seconds += time.perf_counter()
        self.wal += await self._lsn()


async def drain(conn: asyncpg.Connection, shape: Shape) -> int:
    """Claim and settle until every group is empty; return the deliveries settled."""
    claim, settle = await conn.prepare(shape.claim), await conn.prepare(shape.settle)
    raw = shape.name == "raw"
    live, total = GROUPS[: shape.groups], 0
    while live:
        for group in list(live):
            rows = await claim.fetch(BATCH) if raw else await claim.fetch(group, BATCH)
            if not rows:
                live.remove(group)
                continue
            await settle.fetch(*([row[name] for row in rows] for name in shape.settle_by))
            assert settle.get_statusmsg() == f"DELETE {len(rows)}", shape.name
            total += len(rows)
    return total


async def measure(dsn: str, shape: Shape, count: int, planner: str) -> dict[str, float]:
    """Run one case from empty tables and return its figures."""
    work = batches(shape, count)
    conn = await asyncpg.connect(dsn, server_settings={"search_path": "shapes"})
    try:
        await conn.execute("DROP SCHEMA IF EXISTS shapes CASCADE; CREATE SCHEMA shapes")
        for statement in shape.ddl:
            await conn.execute(statement)
        tables = await conn.fetchval("SELECT string_agg(tablename, ', ') FROM pg_tables WHERE schemaname = 'shapes'")
        await conn.execute(f"VACUUM ANALYZE {tables}")
        await conn.execute("CHECKPOINT")
        publish = await conn.prepare(shape.publish)
        async with Meter(conn) as published:
            for args in work:
                await publish.fetch(*args)
        await conn.execute(f"ANALYZE {tables}; {PIN if planner == 'pinned' else ''}")
        async with Meter(conn) as drained:
            settled = await drain(conn, shape)
        assert settled == count * shape.groups, (shape.name, settled)
        size = await conn.fetchval(
            "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c "
            "WHERE relnamespace = 'shapes'::regnamespace AND relkind = 'r'"
        )
        await conn.execute("RESET ALL")
        async with Meter(conn) as purged:
            if shape.purge:
                await conn.execute(f"DELETE FROM {shape.purge}")
    finally:
        await conn.execute("DROP SCHEMA IF EXISTS shapes CASCADE")
        await conn.close()
    return {
        "publish": count / published.seconds,
        "publish_wal": published.wal / count,
        "drain": settled / drained.seconds,
        "drain_wal": drained.wal / settled,
        "size": float(size) / 2**20,
        "purge": purged.seconds / count * 1e6,
        "purge_wal": purged.wal / count,
    }


def table(rounds: list[dict[str, dict[str, float]]]) -> str:
    """Medians over rounds; ratios are formed inside each round before their median is taken."""
    lines = [
        f"shape |{'publish':^22}|{'drain':^40}|     WAL bytes     |  after | purge/msg",
        (
            "      |   msg/s vs base base |   dlv/s vs base vs raw       (min-max) "
            "| pub/msg drain/dlv |    MiB |    us   WAL"
        ),
    ]
    for shape in SHAPES:
        runs: dict[str, list[float]] = defaultdict(list)
        for done in rounds:
            mine, base = done[shape.name], done[shape.base]
            ratios = {
                "publish_base": mine["publish"] / base["publish"],
                "drain_base": mine["drain"] / base["drain"],
                "drain_raw": mine["drain"] / done["raw"]["drain"],
            }
            for key, value in (mine | ratios).items():
                runs[key].append(value)
        m = {key: median(values) for key, values in runs.items()}
        span = f"({min(runs['drain_raw']):.2f}-{max(runs['drain_raw']):.2f})"
        lines.append(
            f"{shape.name:6}| {m['publish']:7.0f} {m['publish_base']:7.2f} {shape.base:4} "
            f"| {m['drain']:7.0f} {m['drain_base']:7.2f} {m['drain_raw']:6.2f} {span:>15} "
            f"| {m['publish_wal']:7.0f} {m['drain_wal']:9.0f} | {m['size']:6.1f} "
            f"| {m['purge']:5.2f} {m['purge_wal']:5.0f}"
        )
    return "\n".join(lines)


async def main() -> None:
    """Run the rounds and print one table."""
    parser = argparse.ArgumentParser(description="Compare storage shapes for a queue.")
    parser.add_argument("--dsn", default="postgresql://postgres@127.0.0.1/test")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=50_000, help=f"a multiple of {BATCH}")
    parser.add_argument("--planner", choices=["pinned", "free"], default="pinned")
    args = parser.parse_args()
    if args.rounds < 1 or args.messages < 1 or args.messages % BATCH:
        parser.error(f"--rounds must be positive and --messages a multiple of {BATCH}")
    rounds = [
        {
            shape.name: await measure(args.dsn, shape, args.messages, args.planner)
            for shape in SHAPES[turn:] + SHAPES[:turn]
        }
        for turn in (number % len(SHAPES) for number in range(args.rounds))
    ]
    print(
        f"{args.messages} messages of 200 B, batches of {BATCH}, {args.rounds} rounds, medians, planner {args.planner}"
    )
    print(table(rounds))


if __name__ == "__main__":
    uvloop.run(main())
