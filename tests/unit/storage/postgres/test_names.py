"""Names are plain, quoted, and short enough for PostgreSQL."""

import pytest

from mainspring.model.errors import BadOption
from mainspring.storage.postgres import PostgresStorage
from mainspring.storage.postgres.dialect import Names


@pytest.mark.parametrize(
    "name",
    ["", "1st", "Shop", "a-", "a--b", "a-B", "a.b", 'a"b', "a b", "é", "x" * 49, "x" * 20 + "-" + "y" * 32, "a\n"],
)
def test_a_name_that_would_have_to_be_escaped_is_refused(name: str) -> None:
    with pytest.raises(BadOption, match="schema="):
        Names(name)


def test_the_longest_name_fits_everywhere() -> None:
    for longest in (Names("x" * 48), Names("x" * 19 + "-" + "y" * 32)):
        assert len(longest.channel) < 64
        assert len(longest.proof_channel) < 64


def test_a_reserved_word_is_quoted_and_so_is_the_dash_before_a_namespace() -> None:
    assert 'FROM "user".message' in Names("user").sql("find_message")
    assert 'FROM "shop-staging".message' in Names("shop-staging").sql("find_message")


def test_two_schemas_share_neither_channel_nor_lock() -> None:
    one, other, spaced = Names("one"), Names("other"), Names("one-other")

    assert len({channel for each in (one, other, spaced) for channel in (each.channel, each.proof_channel)}) == 6
    assert len({one.lock, other.lock, spaced.lock}) == 3
    assert -(2**63) <= one.lock < 2**63


def test_the_script_for_administrators_holds_every_table_and_its_bookkeeping() -> None:
    text = PostgresStorage.ddl("shop")

    assert text.startswith("BEGIN;")
    assert 'CREATE TABLE "shop".delivery' in text
    assert 'INSERT INTO "shop".migration' in text
    assert "mainspring." not in text
