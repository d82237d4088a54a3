"""Publishing through the SQL function, by a client that knows nothing of the library."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from mainspring.storage.script import Row, Statement

Client = psycopg.Connection[Any]

TABLES = ("message", "delivery", "parked")
_OWN = {"seq", "id", "message_id"}


def call(client: Client, schema: str, topic: object, *payload: object, **options: object) -> UUID:
    """``SELECT schema.publish(topic, payload, key => …)`` for what is given."""
    words = ["%s"] * (1 + len(payload)) + [f"{name} => %s" for name in options]
    values = [Jsonb(each) if isinstance(each, dict) else each for each in (topic, *payload, *options.values())]
    row = client.execute(f'SELECT "{schema}".publish({", ".join(words)})'.encode(), values).fetchone()
    assert row is not None
    made: UUID = row[0]
    return made


def stored(client: Client, schema: str) -> dict[str, list[dict[str, Any]]]:
    """Every row that a publish may write, column by column; ids and places aside."""
    rows = {}
    for table in TABLES:
        found = client.cursor(row_factory=dict_row).execute(f'SELECT * FROM "{schema}".{table}'.encode()).fetchall()
        rows[table] = sorted(({n: v for n, v in row.items() if n not in _OWN} for row in found), key=repr)
    return rows


def count(client: Client, schema: str) -> int:
    """How many rows there are in all of these tables."""
    return sum(map(len, stored(client, schema).values()))


class Blocking:
    """Runs the library's own scripts on the same client."""

    def __init__(self, client: Client) -> None:
        self._cursor = psycopg.RawCursor(client)

    def execute(self, statement: Statement) -> Sequence[Row]:
        self._cursor.execute(statement.sql.encode(), statement.args)
        return self._cursor.fetchall()
