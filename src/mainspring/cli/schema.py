"""``mainspring migrate`` and ``mainspring sql``: the tables."""

from __future__ import annotations

import sys
from typing import Annotated, Literal

from cyclopts import Parameter

from mainspring.app.names import check_namespace, check_schema, tables
from mainspring.app.storages import ddl
from mainspring.cli.tables import print_json, say
from mainspring.cli.target import UNNAMED, Json, Target


async def migrate(*, target: Target = UNNAMED, json: Json = False) -> int:
    """Create or upgrade the tables. Idempotent, and safe to run concurrently."""
    applied = await target.find(create=True).migrate()
    if json:
        print_json({"applied": applied})
    elif applied:
        say("applied " + ", ".join(applied))
    else:
        say("the schema is up to date")
    return 0


def sql(
    *,
    dialect: Literal["postgres", "sqlite"] = "postgres",
    schema: Annotated[str, Parameter(name=["--schema", "--prefix"], metavar="NAME")] = "mainspring",
    namespace: Annotated[str | None, Parameter(metavar="NAME")] = None,
) -> int:
    """Print the tables and functions as one SQL script, to review and run by hand. Needs no database.

    Parameters
    ----------
    dialect
        The database the script is for.
    schema
        The schema on PostgreSQL, the prefix of the tables on SQLite.
    namespace
        The namespace of the tables.
    """
    named = tables(check_schema(schema), None if namespace is None else check_namespace(namespace))
    sys.stdout.write(ddl("postgresql" if dialect == "postgres" else "sqlite", named))
    return 0
