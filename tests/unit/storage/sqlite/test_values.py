"""Values on their way into SQLite and back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.model.errors import BadOption
from mainspring.storage.portable.dialect import written_mapping
from mainspring.storage.sqlite import SqliteStorage
from mainspring.storage.sqlite.schema import ddl, statements
from mainspring.storage.sqlite.values import after, before, instant, micros, storable


@given(st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_an_instant_is_read_back_to_the_microsecond(when: datetime) -> None:
    assert instant(micros(when)) == when


def test_other_zones_mean_the_same_instant() -> None:
    there = timezone(timedelta(hours=9))

    assert micros(datetime(1970, 1, 1, 9, tzinfo=there)) == 0


def test_an_instant_that_could_not_be_read_back_is_refused() -> None:
    with pytest.raises(OverflowError, match="2956500d from now is after the year 9999"):
        after(0, timedelta(days=365 * 8100))


def test_an_age_beyond_the_beginning_of_time_is_the_beginning() -> None:
    assert before(5, timedelta(days=1)) == 0


def test_equal_options_are_written_alike() -> None:
    assert written_mapping({"b": "2", "a": "1"}) == written_mapping({"a": "1", "b": "2"}) == '{"a":"1","b":"2"}'


@pytest.mark.parametrize(
    ("text", "stored"), [("boom", "boom"), ("naïve ✓", "naïve ✓"), ("half \ud83d", "half \\ud83d"), (None, None)]
)
def test_text_that_has_no_encoding_is_stored_as_an_escape(text: str | None, stored: str | None) -> None:
    assert storable(text) == stored


def test_a_migration_is_split_where_its_statements_end() -> None:
    text = "-- one; two\nCREATE TABLE a (\n  b text DEFAULT ';'\n);\nINSERT INTO a VALUES (1);\n"

    assert list(statements(text)) == [
        "-- one; two\nCREATE TABLE a (\n  b text DEFAULT ';'\n);",
        "INSERT INTO a VALUES (1);",
    ]


def test_the_printed_script_has_the_prefix_everywhere() -> None:
    script = ddl("shop")

    assert "CREATE TABLE shop_delivery" in script
    assert "INSERT INTO shop_migration" in script
    assert "mainspring_" not in script


@pytest.mark.parametrize("path", ["", ":memory:", "file::memory:?cache=shared", "file:x?mode=memory"])
def test_memory_is_refused_and_the_right_url_named(path: str) -> None:
    with pytest.raises(BadOption, match="memory://"):
        SqliteStorage(path)


@pytest.mark.parametrize("prefix", ["", "a b", "a;drop", "1st", "x" * 41, "é"])
def test_a_prefix_that_is_not_a_plain_name_is_refused(prefix: str) -> None:
    with pytest.raises(BadOption, match="prefix"):
        SqliteStorage("shop.db", prefix=prefix)
