import sys

import pytest

from mainspring.app.config import Options
from mainspring.app.storages import Address, open_storage, read_url
from mainspring.model.errors import BadOption, MissingExtra

KNOWN = "sqlite:///shop.db, sqlite:////var/lib/shop.db, postgresql://user@host/shop, memory://"


@pytest.mark.parametrize(
    ("url", "engine", "target"),
    [
        ("sqlite:///shop.db", "sqlite", "shop.db"),
        ("sqlite:////var/lib/shop.db", "sqlite", "/var/lib/shop.db"),
        ("sqlite+aiosqlite:///data/shop.db", "sqlite", "data/shop.db"),
        ("postgresql://ann:pw@db/shop?sslmode=require", "postgresql", "postgresql://ann:pw@db/shop?sslmode=require"),
        ("postgres://db/shop", "postgresql", "postgresql://db/shop"),
        ("postgresql+asyncpg://db/shop", "postgresql", "postgresql://db/shop"),
        ("POSTGRESQL://db/shop", "postgresql", "postgresql://db/shop"),
        ("memory://", "memory", "memory://"),
    ],
)
def test_a_url_names_its_database(url: str, engine: str, target: str) -> None:
    address = read_url(url)

    assert (address.engine, address.target) == (engine, target)


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgresql://db/shop", None),
        ("postgresql+asyncpg://db/shop", "asyncpg"),
        ("postgresql+psycopg://db/shop", "psycopg"),
        ("postgres+PSYCOPG_async://db/shop", "psycopg"),
        ("postgresql+psycopg2://db/shop", None),
        ("postgresql+pg8000://db/shop", None),
        ("sqlite+aiosqlite:///shop.db", None),
    ],
)
def test_a_url_may_name_one_of_our_drivers(url: str, driver: str | None) -> None:
    assert read_url(url).driver == driver


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("shop.db", f"the database URL has no scheme: write one of {KNOWN}"),
        ("", f"the database URL has no scheme: write one of {KNOWN}"),
        (
            "postgresq://db/shop",
            f"'postgresq' is not a database Mainspring knows. Did you mean 'postgresql'? Write one of {KNOWN}",
        ),
        ("oracle://db/shop", f"'oracle' is not a database Mainspring knows. Write one of {KNOWN}"),
        (
            "sqlite://shop.db",
            "sqlite://shop.db has two slashes: write sqlite:///shop.db, or four for an absolute path",
        ),
        (
            "sqlite:///:memory:",
            "SQLite in memory cannot be shared between connections: write memory:// or name a file",
        ),
        ("sqlite:///", "SQLite in memory cannot be shared between connections: write memory:// or name a file"),
        (
            "sqlite:///a.db?mode=ro",
            "sqlite:///a.db?mode=ro has parameters: SQLite is set up by Mainspring(…) options, drop them from the URL",
        ),
        ("memory://shop", "memory:// takes no name, not 'shop': everything is gone with the process"),
        (5, f"the database is given as a URL, not int: {KNOWN}"),
    ],
)
def test_a_url_that_leads_nowhere_says_which_ones_do(url: object, message: str) -> None:
    with pytest.raises(BadOption) as refused:
        read_url(url)

    assert str(refused.value) == message


@pytest.mark.parametrize("url", ["mysql://ann:secret@db/shop", "postgresql+:secret"])
def test_a_refused_url_keeps_its_secrets(url: str) -> None:
    with pytest.raises(BadOption) as refused:
        read_url(url)

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("postgresql://ann:secret@db/shop", "postgresql://ann@db/shop"),
        ("postgresql://ann@db/shop", "postgresql://ann@db/shop"),
        ("postgresql://db/shop", "postgresql://db/shop"),
        ("postgresql://ann:se@cret@db/shop", "postgresql://ann@db/shop"),
        ("postgresql://db/shop?user=ann&password=secret", "postgresql://db/shop"),
        ("postgresql:///shop?host=/run/db&password=secret", "postgresql:///shop?host=/run/db"),
        ("postgresql://ann:se?cret@db/shop", "postgresql://…"),
    ],
)
def test_an_address_is_shown_without_its_password(target: str, shown: str) -> None:
    assert Address("postgresql", target).shown == shown
    assert read_url(target.replace("://", "+psycopg://")).shown == shown.replace("://", "+psycopg://")


def test_memory_needs_no_scripts() -> None:
    storage, scripts = open_storage(read_url("memory://"), Options())

    assert scripts is None
    assert storage.migrates_itself


@pytest.mark.parametrize(
    ("url", "missing", "said"),
    [
        (
            "postgresql://db/shop",
            ["asyncpg", "psycopg"],
            "PostgreSQL needs asyncpg or psycopg: pip install 'mainspring[postgres]' or 'mainspring[psycopg]'",
        ),
        (
            "postgresql+asyncpg://db/shop",
            ["asyncpg"],
            "postgresql+asyncpg:// needs asyncpg: pip install 'mainspring[postgres]'",
        ),
        (
            "postgresql+psycopg://db/shop",
            ["psycopg"],
            "postgresql+psycopg:// needs psycopg: pip install 'mainspring[psycopg]'",
        ),
    ],
)
def test_a_missing_driver_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, url: str, missing: list[str], said: str
) -> None:
    for name in [name for name in sys.modules if name.endswith(("asyncpg_driver", "psycopg_driver"))]:
        monkeypatch.delitem(sys.modules, name)
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(MissingExtra) as refused:
        open_storage(read_url(url), Options())

    assert str(refused.value) == said
