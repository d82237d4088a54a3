"""``$1`` as ``%(p1)s``, for who writes parameters that way."""

from mainspring.storage.enlisted.sqlalchemy import named
from mainspring.storage.postgres.dialect import Names
from mainspring.storage.script import Statement

# What psycopg remembers how to read; longer texts are read anew each time.
REMEMBERED = 4096


def test_every_parameter_gets_a_name_and_a_percent_stays_one() -> None:
    sql, args = named(Statement("SELECT $1, $12 % 2 -- $3, 100 %\n    FROM t", ("a", *range(11))))

    assert sql == "SELECT %(p1)s, %(p12)s %% 2 \nFROM t"
    assert (args["p1"], args["p12"], len(args)) == ("a", 10, 12)


def test_what_callers_run_is_short_enough_to_be_remembered() -> None:
    for name in ("publish_one", "publish", "cancel"):
        sql, _ = named(Statement(Names("mainspring").sql(name)))

        assert len(sql) < REMEMBERED, name
        assert "--" not in sql
        assert "$" not in sql
