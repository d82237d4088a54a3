"""A migrated schema that one test after another uses, since migrating one takes longer than most tests."""

import time
from functools import cache
from uuid import uuid4

import psycopg
from psycopg import sql

from mainspring.storage.postgres import PostgresStorage

SHAPE = """
    WITH n AS MATERIALIZED (SELECT oid, xmin FROM pg_namespace WHERE nspname = %s),
    c AS MATERIALIZED (SELECT oid, xmin FROM pg_class WHERE relnamespace = (SELECT oid FROM n) AND oid >= 16384)
    SELECT concat(count(*), '.', max(xmin::text::bigint))
    FROM (
        SELECT xmin FROM n
        UNION ALL SELECT xmin FROM c
        UNION ALL SELECT xmin FROM pg_proc WHERE pronamespace = (SELECT oid FROM n) AND oid >= 16384
        UNION ALL SELECT xmin FROM pg_constraint WHERE connamespace = (SELECT oid FROM n) AND oid >= 16384
        UNION ALL SELECT xmin FROM pg_trigger WHERE tgrelid = ANY (ARRAY(SELECT oid FROM c))
        UNION ALL SELECT xmin FROM pg_attribute WHERE attrelid = ANY (ARRAY(SELECT oid FROM c))
        UNION ALL SELECT xmin FROM pg_index WHERE indexrelid = ANY (ARRAY(SELECT oid FROM c))
    ) AS catalog (xmin)
"""
"""How many rows of the catalogue describe a schema, and which transaction has written the latest: any change of it
makes them fewer or is a later one. Rows below 16384 are the system's own."""
_NAMESPACES = "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s || '-')"
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
_RESTART = """
    SELECT setval(format('%%I.%%I', schemaname, sequencename)::regclass, start_value, false)
    FROM pg_sequences WHERE schemaname = %s AND last_value IS NOT NULL
"""
_WORN = """
    SELECT bool_or(reltuples > 0 OR pg_relation_size(c.oid) > 262144)
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = %s AND relkind <> 'S'
"""
"""Whether a table was analyzed or has grown: that outlives its rows, and decides how statements are planned."""
_BUSY = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
        AND (application_name = 'mainspring' OR state <> 'idle')
"""
_SESSIONS = """
    SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'mainspring'
"""
_DROP = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE")
_PATIENCE = 0.2
"""Seconds that the server may take to end the sessions of apps that are closed."""


@cache
def emptying(schema: str, tables: tuple[str, ...]) -> bytes:
    """Deletes the rows of all of these tables. It is one statement: psycopg prepares it when it has seen it often."""
    deletes = [
        sql.SQL("{} AS (DELETE FROM {})").format(sql.Identifier(table), sql.Identifier(schema, table))
        for table in tables
    ]
    return sql.SQL("WITH {} SELECT").format(sql.SQL(", ").join(deletes)).as_bytes()


class Schemas:
    """The schemas of one database: one is emptied and handed on, unless a test has changed more than its rows.

    The schemas of its namespaces are dropped. It is not handed on either while an app is connected: what a test has
    left running would act in the next one.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = psycopg.connect(url, autocommit=True)
        self._ready: str | None = None
        self._shape: object = None
        self._emptying = b""
        self._filled: dict[str, object] = {}

    def take(self) -> str:
        """A schema that is migrated and has no rows but those of its migrations."""
        name, self._ready = self._ready, None
        if name is None:
            name = f"test_{uuid4().hex[:12]}"
            self._connection.execute(PostgresStorage.ddl(name).encode())
            self._shape = self._one(SHAPE, (name,))
            tables = [table for (table,) in self._connection.execute(_TABLES, (name,))]
            self._filled = {table: rows for table in tables if (rows := self._rows(name, table)) is not None}
            self._emptying = emptying(name, tuple(table for table in tables if table not in self._filled))
        return name

    def give_back(self, name: str) -> None:
        """Empty a schema for the next test, or drop it."""
        self._reconnect()
        busy = self._is_busy()
        self._drop_namespaces(name)
        if (
            busy
            or self._one(SHAPE, (name,)) != self._shape
            or self._one(_WORN, (name,))
            or any(self._rows(name, table) != rows for table, rows in self._filled.items())
        ):
            self.drop(name)
            return
        self._connection.execute(self._emptying)
        self._connection.execute(_RESTART, (name,))
        self._ready = name

    def drop(self, name: str) -> None:
        """Remove a schema, if it is there, and those of its namespaces."""
        self._reconnect()
        self._drop_namespaces(name)
        self._connection.execute(_DROP.format(sql.Identifier(name)))

    def sessions(self) -> int:
        """How many sessions of ours there are in the database."""
        self._reconnect()
        return self._connection.execute(_SESSIONS).rowcount

    def close(self) -> None:
        self._connection.close()

    def _reconnect(self) -> None:
        """Connect again if a test has terminated every session of the database."""
        try:
            self._connection.execute("SELECT")
        except psycopg.OperationalError:
            self._connection.close()
            self._connection = psycopg.connect(self._url, autocommit=True)

    def _drop_namespaces(self, name: str) -> None:
        for (schema,) in self._connection.execute(_NAMESPACES, (name,)).fetchall():
            self._connection.execute(_DROP.format(sql.Identifier(schema)))

    def _is_busy(self) -> bool:
        deadline = time.monotonic() + _PATIENCE
        while busy := self._one(_BUSY) != 0:
            if time.monotonic() > deadline:
                break
            time.sleep(0.005)
        return busy

    def _rows(self, name: str, table: str) -> object:
        text = sql.SQL("SELECT string_agg(t::text, ',' ORDER BY t::text) FROM {} t")
        return self._one(text.format(sql.Identifier(name, table)))

    def _one(self, query: "str | sql.Composed", arguments: tuple[str, ...] = ()) -> object:
        row = self._connection.execute(query.encode() if isinstance(query, str) else query, arguments).fetchone()
        return None if row is None else row[0]
