"""Counting what is left behind, on a connection of the test's own."""

import sqlite3
from contextlib import closing

import psycopg
from psycopg import sql


def rows_on_sqlite(path: str) -> dict[str, int]:
    """How many rows every table of the file has."""
    with closing(sqlite3.connect(path)) as client:
        tables = [name for (name,) in client.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
        return {
            name: client.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
            for name in tables
            if not name.startswith(("sqlite_", "django_"))
        }


def rows_on_postgres(url: str) -> dict[str, int]:
    """How many rows every table of the database has."""
    listing = """
        SELECT schemaname, tablename FROM pg_tables
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"""
    counts: dict[str, int] = {}
    with psycopg.connect(url) as client:
        for schema, table in client.execute(listing).fetchall():
            if not table.startswith("django_"):
                count = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, table))
                row = client.execute(count).fetchone()
                assert row is not None
                counts[f"{schema}.{table}"] = row[0]
    return counts


def new_rows(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """How many rows have come to each table: those that a migration put there were there before."""
    return {table: count - before.get(table, 0) for table, count in after.items()}
