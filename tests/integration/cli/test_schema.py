"""`migrate` and `sql`: the tables."""

import sqlite3

from tests.integration.cli.shell import Shell


def test_migrate_creates_the_file_and_says_what_it_did(shell: Shell) -> None:
    first = shell("migrate", "--url", "sqlite:///new.db")
    again = shell("migrate", "--url", "sqlite:///new.db")
    beside = shell("migrate", "--url", "sqlite:///new.db", "--schema", "other", "--json")

    assert first.out.startswith("applied 0001_")
    assert again.out == "the schema is up to date\n"
    assert beside.json["applied"] == first.out.removeprefix("applied ").strip().split(", ")


def test_printed_sql_makes_a_schema_that_is_recognised(shell: Shell) -> None:
    script = shell("sql", "--dialect", "sqlite", "--prefix", "mine").out
    with sqlite3.connect(shell.directory / "by_hand.db") as connection:
        connection.executescript(script)
    connection.close()

    ended = shell("migrate", "--url", "sqlite:///by_hand.db", "--schema", "mine")

    assert ended.out == "the schema is up to date\n"


def test_sql_is_for_postgresql_unless_told_otherwise(shell: Shell) -> None:
    script = shell("sql", "--schema", "mine").out

    assert 'CREATE SCHEMA IF NOT EXISTS "mine"' in script
    assert "mainspring." not in "".join(line for line in script.splitlines() if not line.lstrip().startswith("--"))
