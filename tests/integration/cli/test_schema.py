"""`migrate` and `sql`: the tables."""

import re
import sqlite3

from mainspring.storage.portable.statements import statements
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


def test_statements_are_printed_as_they_are_sent_to_sqlite(shell: Shell) -> None:
    shell("migrate", "--url", "sqlite:///shop.db", "--schema", "mine")
    printed = dict(named(shell("sql", "--statements", "--url", "sqlite:///shop.db", "--prefix", "mine").out))

    assert printed.keys() == statements("mainspring.storage.sqlite").keys()
    with sqlite3.connect(shell.directory / "shop.db") as connection:
        for name, text in printed.items():
            numbers = [int(each) for each in re.findall(r"\?(\d+)", text)]
            assert connection.execute(f"EXPLAIN {text}", [None] * max(numbers, default=0)).fetchall(), name
    connection.close()


def test_statements_of_one_room_are_printed(shell: Shell) -> None:
    leases = shell("sql", "--statements", "leases").out
    unknown = shell("sql", "--statements", "leasse")
    lone = shell("sql", "leases")
    both = shell("sql", "--dialect", "sqlite", "--url", "sqlite:///shop.db")

    assert leases.startswith("-- leases\n\n-- name: lease_acquire\n")
    assert {name.partition("_")[0] for name, _ in named(leases)} == {"lease"}
    assert unknown.complaint.startswith("there is no room 'leasse'. Did you mean 'leases'? Rooms: ")
    assert lone.complaint == "ROOM selects statements: mainspring sql --statements leases"
    assert both.complaint == "--dialect and --url name two databases: give one"


def named(printed: str) -> list[tuple[str, str]]:
    """The statements that were printed, with their names."""
    parts = re.split(r"^-- (?:name: (\w+)|\w+)$\n", printed, flags=re.MULTILINE)
    return [(name, text.strip()) for name, text in zip(parts[1::2], parts[2::2], strict=True) if name]
