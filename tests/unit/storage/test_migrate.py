"""Which migrations are missing, and which databases are refused."""

import re

import pytest

from mainspring.model.errors import SchemaMissing, SchemaTooNew, StorageError
from mainspring.storage.migrations import Applied, Migration, check, indexes, migrations, pending, refuse_newer

FIRST = Migration(1, "0001_tables", "CREATE TABLE mainspring_message (id)", breaking=False)
SECOND = Migration(2, "0002_index", "CREATE INDEX mainspring_ready ON mainspring_message (id)", breaking=False)
KNOWN = (FIRST, SECOND)
LAST_BLOCKING = 17
"""Indexes of later migrations are made concurrently: tables may be large by then."""


def applied(migration: Migration) -> Applied:
    return Applied(migration.number, migration.checksum, migration.breaking)


def test_an_empty_database_misses_everything_in_order() -> None:
    assert pending(KNOWN, []) == [FIRST, SECOND]


def test_what_is_applied_is_not_pending() -> None:
    assert pending(KNOWN, [applied(FIRST)]) == [SECOND]
    assert pending(KNOWN, [applied(FIRST), applied(SECOND)]) == []


def test_a_file_changed_after_it_was_applied_is_refused() -> None:
    other = Applied(1, "0" * 64, breaking=False)

    with pytest.raises(StorageError, match="0001_tables was applied with other content"):
        pending(KNOWN, [other])


def test_a_newer_schema_that_breaks_nothing_is_fine() -> None:
    newer = Applied(3, "f" * 64, breaking=False)

    check(KNOWN, [applied(FIRST), applied(SECOND), newer])

    assert pending(KNOWN, [applied(FIRST), applied(SECOND), newer]) == []


def test_a_newer_schema_that_breaks_is_refused_with_both_versions() -> None:
    there = [applied(FIRST), applied(SECOND), Applied(3, "f" * 64, breaking=True), Applied(4, "e" * 64, breaking=False)]

    for refused in (check, pending, refuse_newer):
        with pytest.raises(SchemaTooNew) as error:
            refused(KNOWN, there)
        assert (error.value.found, error.value.known) == (4, 2)


def test_a_breaking_migration_that_is_known_is_fine() -> None:
    breaking = Migration(3, "0003_moved", "-- breaking\nDROP TABLE x", breaking=True)

    refuse_newer((*KNOWN, breaking), [applied(FIRST), applied(SECOND), applied(breaking)])


def test_an_empty_database_is_missing_its_schema() -> None:
    with pytest.raises(SchemaMissing) as error:
        check(KNOWN, [])

    assert (error.value.found, error.value.needed) == (0, 2)
    assert "has no Mainspring schema" in str(error.value)


def test_an_old_database_is_missing_the_rest() -> None:
    with pytest.raises(SchemaMissing) as error:
        check(KNOWN, [applied(FIRST)])

    assert (error.value.found, error.value.needed) == (1, 2)
    assert "is at schema version 1, 2 is needed" in str(error.value)


def test_the_prefix_is_put_in_and_does_not_change_the_checksum() -> None:
    assert FIRST.sql("shop") == "CREATE TABLE shop_message (id)"
    assert FIRST.checksum == Migration(1, "renamed", FIRST.text, breaking=True).checksum


@pytest.mark.parametrize("package", ["mainspring.storage.sqlite", "mainspring.storage.postgres"])
def test_shipped_migrations_are_numbered_from_one_without_a_gap(package: str) -> None:
    shipped = migrations(package)

    assert [each.number for each in shipped] == list(range(1, len(shipped) + 1))
    assert all(each.name.startswith(f"{each.number:04}_") for each in shipped)


def test_the_indexes_there_have_to_be_are_those_made_and_not_dropped_again() -> None:
    made = Migration(
        1,
        "0001_made",
        "CREATE INDEX a ON mainspring.t (x);\nCREATE UNIQUE INDEX b\n    ON mainspring.t (y)\n    WHERE z;\n"
        "-- CREATE INDEX c ON mainspring.t (c);\nCREATE INDEX d ON mainspring.t (d);\n",
        breaking=False,
    )
    dropped = Migration(
        2, "0002_dropped", "DROP INDEX mainspring.a;\nDROP INDEX IF EXISTS mainspring.d;", breaking=False
    )

    assert indexes((made, dropped), "shop") == {"b": "CREATE UNIQUE INDEX b ON shop.t (y) WHERE z"}


def test_an_index_of_a_table_that_is_there_already_is_made_while_others_write() -> None:
    blocking = [
        (step.name, table)
        for step in migrations("mainspring.storage.postgres")
        if step.number > LAST_BLOCKING and not step.concurrent
        for table in re.findall(r"CREATE (?:UNIQUE )?INDEX \w+ ON (\S+)", step.text)
        if f"CREATE TABLE {table} " not in step.text
    ]

    assert blocking == []
