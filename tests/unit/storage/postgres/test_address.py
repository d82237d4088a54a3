"""Where a URL leads, in words: host, port, database and role, and what is wrong with it; never the password."""

import pytest

from mainspring.storage.postgres.address import read_address
from mainspring.storage.postgres.errors import secrets_of


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGPORT", "PGUSER", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:pw@db:6432/shop", "db:6432 (database 'shop', role 'ann')"),
        ("postgresql://ann@db", "db:5432 (database 'ann', role 'ann')"),
        ("postgresql://", "localhost:5432"),
        ("postgresql://a%40b:pw@[::1]:7/sh%20op", "[::1]:7 (database 'sh op', role 'a@b')"),
        ("postgresql://[::1]/shop", "[::1]:5432 (database 'shop')"),
        ("postgresql://ann@one:1,two/shop", "one:1,two:5432 (database 'shop', role 'ann')"),
        ("postgresql:///shop?host=/run/pg&port=7&user=bob", "/run/pg:7 (database 'shop', role 'bob')"),
        ("postgresql://db/?dbname=shop&password=a@b", "db:5432 (database 'shop')"),
        ("postgresql://ann:p@ss@db/shop", "db:5432 (database 'shop', role 'ann')"),
        ("postgresql://ann:p/ss@db/shop", "db:5432 (database 'shop', role 'ann')"),
        ("postgresql://ann:12#x@db/shop", "db:5432 (database 'shop', role 'ann')"),
        ("postgresql://ann:p?ss@db/shop?sslmode=require", "db:5432 (database 'shop', role 'ann')"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert str(read_address(url)) == shown


def test_what_a_url_leaves_out_is_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PGHOST", "db"), ("PGPORT", "7"), ("PGUSER", "ann"), ("PGDATABASE", "shop")):
        monkeypatch.setenv(name, value)

    assert str(read_address("postgresql://")) == "db:7 (database 'shop', role 'ann')"


@pytest.mark.parametrize(
    ("password", "write"),
    [("p@ss", "%40"), ("p/ss", "%2F"), ("12#x", "%23"), ("p?ss", "%3F"), ("p%40:ss", None)],
)
def test_a_character_that_must_be_escaped_is_named_with_its_escape(password: str, write: str | None) -> None:
    hint = read_address(f"postgresql://ann:{password}@db/shop?sslmode=require").hint

    assert (hint is None) == (write is None)
    if hint is not None:
        assert hint.endswith(f"write {write}")
        assert password not in hint


def test_no_part_of_a_password_that_is_not_escaped_is_shown() -> None:
    assert secrets_of("postgresql://ann:hun@ter2@db/shop") == ("hun@ter2", "hun", "ter2")
    assert secrets_of("postgresql://ann:hunter2@db/shop") == ("hunter2",)


def test_a_name_with_an_at_sign_in_a_parameter_is_well_formed() -> None:
    assert read_address("postgresql://ann@db/shop?options=a@b").hint is None
