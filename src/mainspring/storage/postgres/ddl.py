"""All migrations as one script, for those who do not let applications change their schema."""

from __future__ import annotations

from mainspring.storage.migrate import Migration, migrations
from mainspring.storage.postgres.names import PACKAGE, Names


def ddl(names: Names) -> str:
    """Everything a fresh database needs, as one transaction, its bookkeeping included."""
    return "\n".join(
        (
            "BEGIN;",
            f"CREATE SCHEMA IF NOT EXISTS {names.quoted};",
            f"{names.sql('schema_table').rstrip()};",
            *(_step(step, names) for step in migrations(PACKAGE)),
            "COMMIT;",
            "",
        )
    )


def _step(step: Migration, names: Names) -> str:
    # Numbers, checksums and names made of letters, digits and underscores: nothing here needs escaping.
    values = f"{step.number}, '{step.name}', '{step.checksum}', {str(step.breaking).lower()}, statement_timestamp()"
    return (
        f"\n-- {step.name}\n{step.at_once(names.quoted).rstrip()}\n"
        f"INSERT INTO {names.quoted}.migration (number, name, checksum, breaking, applied_at)\nVALUES ({values});"
    )
