"""A schema full of rows: made on the server, without indexes in the way and without a log."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from mainspring.storage.postgres import PostgresStorage

_DETACH = """
    SELECT
        format('ALTER TABLE %%s DROP CONSTRAINT %%I', c.conrelid::regclass, c.conname),
        format('ALTER TABLE %%s ADD CONSTRAINT %%I %%s', c.conrelid::regclass, c.conname, pg_get_constraintdef(c.oid))
    FROM pg_constraint AS c
    WHERE c.contype IN ('p', 'u') AND c.conrelid = ANY (%(tables)s::regclass[])
    UNION ALL
    SELECT format('DROP INDEX %%s', i.indexrelid::regclass), pg_get_indexdef(i.indexrelid)
    FROM pg_index AS i
    WHERE i.indrelid = ANY (%(tables)s::regclass[])
      AND NOT EXISTS (SELECT FROM pg_constraint AS c WHERE c.conindid = i.indexrelid)
"""
_DELIVERY = """
    INSERT INTO {schema}.delivery (
        message_id, group_name, priority, due_at, scheduled_for, published_at, held_by, epoch
    )
    SELECT
        ('00000000-0000-7000-8000-' || lpad(to_hex(%(first)s + n), 12, '0'))::uuid, %(group)s::text, n %% 4,
        now() + (%(shift)s || ' seconds')::interval + n * interval '1 millisecond', now(), now(),
        %(held_by)s::text, CASE WHEN %(held_by)s::text IS NULL THEN 0 ELSE 1 END
    FROM generate_series(1, %(count)s) AS n
"""
_MESSAGE = """
    INSERT INTO {schema}.message (id, topic, payload, content_type, published_at, copies)
    SELECT
        ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'topic', '\\x7b7d', 'application/json', now(), 1
    FROM generate_series(1, %(count)s) AS n
"""
_DEAD = """
    INSERT INTO {schema}.dead (
        seq, message_id, group_name, topic, priority, epoch, attempt, deaths, scheduled_for, published_at, kind, error,
        buried_at
    )
    SELECT
        100000000 + n, ('00000000-0000-7000-8000-' || lpad(to_hex(%(first)s + n), 12, '0'))::uuid, 'grave', 'topic', 2,
        1, 1, 0, now(), now(), 'error', 'boom', now()
    FROM generate_series(1, %(count)s) AS n
"""


@contextmanager
def filled(url: str, schema: str, tables: Sequence[str], fill: Callable[[psycopg.Connection], object]) -> Iterator[str]:
    """Make a schema of this name and fill these tables of it; it is dropped when the block is left."""
    full = [f"{schema}.{table}" for table in tables]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        try:
            connection.execute(PostgresStorage.ddl(schema))
            connection.execute("SET maintenance_work_mem = '256MB'")
            for table in full:
                connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
                connection.execute(f"ALTER TABLE {table} SET UNLOGGED")
            indexes = connection.execute(_DETACH, {"tables": full}).fetchall()
            for drop, _ in indexes:
                connection.execute(drop)
            fill(connection)
            for _, restore in indexes:
                connection.execute(restore)
            connection.execute(f"VACUUM (ANALYZE) {', '.join(full)}")
            yield url
        finally:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


def fill_mailbox(
    connection: psycopg.Connection, schema: str, *, future: int, dead: int, other: int, ready: int, held: int
) -> None:
    """Fill message, delivery and dead.

    ``future`` deliveries of the group "sleeper" an hour away, ``dead`` letters of "grave", ``other`` deliveries of
    "other" and ``ready`` of "mail" due since an hour, ``held`` of "mail" until an hour from now; all on four levels.
    """

    def deliver(group: str, count: int, first: int, shift: int, held_by: str | None = None) -> None:
        connection.execute(
            _DELIVERY.format(schema=schema),
            {"group": group, "count": count, "first": first, "shift": shift, "held_by": held_by},
        )

    # A message each for who is claimed; those that nobody ever claims need none to be in the way.
    connection.execute(_MESSAGE.format(schema=schema), {"count": ready + held})
    deliver("sleeper", future, 10_000_000, 3600)
    deliver("other", other, 20_000_000, -3600)
    deliver("mail", ready, 0, -3600)
    deliver("mail", held, ready, 3600, "somebody")
    connection.execute(_DEAD.format(schema=schema), {"count": dead, "first": 30_000_000})
