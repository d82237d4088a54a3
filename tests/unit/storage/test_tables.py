"""The tables of a namespace: how they are called, quoted and told of."""

import sqlite3

import pytest

from mainspring.model.errors import BadOption
from mainspring.storage.migrations import flags, indexes, migrations
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.script import prefixed
from mainspring.storage.sqlite import SqliteStorage
from mainspring.storage.sqlite.dialect import PACKAGE, named, prefix

WRITTEN = "SELECT 1 FROM mainspring_run INDEXED BY mainspring_run_age, sqlite_master WHERE name = 'mainspring_run'"


def test_the_tables_of_a_namespace_are_quoted_and_the_values_of_a_catalog_are_not() -> None:
    assert prefixed(WRITTEN, "shop") == WRITTEN.replace("mainspring", "shop")
    assert prefixed(WRITTEN, "shop-staging") == (
        'SELECT 1 FROM "shop-staging_run" INDEXED BY "shop-staging_run_age", sqlite_master '
        "WHERE name = 'shop-staging_run'"
    )
    assert prefixed("SELECT nextval('mainspring.epoch') FROM mainspring.run", '"shop-staging"') == (
        """SELECT nextval('"shop-staging".epoch') FROM "shop-staging".run"""
    )


def test_no_two_namespaces_of_one_file_have_a_table_or_an_index_in_common() -> None:
    with sqlite3.connect(":memory:", isolation_level=None) as file:
        for tables in (
            "mainspring",
            "mainspring-a",
            "mainspring-a_",
            "mainspring-a_delivery",
            "mainspring-a__delivery",
        ):
            file.executescript(SqliteStorage.ddl(tables))  # would raise where one is there already

        made = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE name LIKE '%delivery_schedule'")]
        assert len(made) == len(set(made)) == 7


def test_the_indexes_of_a_namespace_are_known_by_their_names() -> None:
    plain, spaced = (indexes(migrations(PACKAGE), prefix(tables)) for tables in ("mainspring", "mainspring-my_own"))

    assert [name.replace("mainspring", "mainspring-my__own", 1) for name in plain] == list(spaced)


@pytest.mark.parametrize(
    "tables", ["mainspring-staging", "mainspring-a_b", "shop-a__", "my_shop-a-b_c", "mainspring-_"]
)
def test_a_table_that_is_not_there_says_whose_it_would_be(tables: str) -> None:
    for table in ("message", "fanout_cursor"):
        assert named(f"no such table: {prefix(tables)}_{table}") == tables


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("mainspring", ""),
        ("shop", " --schema shop"),
        ("mainspring-staging", " --namespace staging"),
        ("my_shop-a-b_c", " --schema my_shop --namespace a-b_c"),
        ('relation "mainspring-staging.message" does not exist', " --namespace staging"),
        ('schema "shop-staging" does not exist', " --schema shop --namespace staging"),
        ("function mainspring-staging.publish_one(text) does not exist", " --namespace staging"),
        ('relation "mainspring.message" does not exist', ""),
    ],
)
def test_what_is_missing_is_migrated_with_its_own_flags(said: str, typed: str) -> None:
    assert flags(said) == typed


def test_a_namespace_that_would_not_fit_is_refused_by_the_storage_too() -> None:
    with pytest.raises(BadOption, match="with a dash and a namespace after it at most 52"):
        PostgresStorage("postgresql://localhost/shop", schema="x" * 40 + "-" + "y" * 12)
