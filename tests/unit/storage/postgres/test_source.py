"""A function in the place of a URL may change who connects and to which host, and never the database."""

import pytest

from mainspring.storage.postgres.gateway import UrlSource

SAID = "names another database than the one the app was opened on"


@pytest.mark.parametrize(
    ("opened", "told"),
    [
        ("postgresql://ann@h/shop", "postgresql://ann@h/test"),
        ("postgresql://ann@h/shop", "postgresql://ann@h/shop?dbname=postgres"),
        ("postgresql://ann@h/shop", "postgresql://ann@h/shop?database=postgres"),
        ("postgresql://ann@h/shop", "postgresql://ann@h"),
        ("postgresql://ann@h", "postgresql://bob@h"),
        ("postgresql://ann@h", "postgresql://ann@h?user=bob"),
    ],
)
async def test_another_database_is_refused(monkeypatch: pytest.MonkeyPatch, opened: str, told: str) -> None:
    monkeypatch.delenv("PGDATABASE", raising=False)
    source = UrlSource(opened, lambda: told)

    with pytest.raises(ConnectionError, match=SAID):
        await source.url()
    with pytest.raises(ConnectionError, match=SAID):
        source.url_in_thread()


@pytest.mark.parametrize(
    ("opened", "told"),
    [
        ("postgresql://ann:a@h/shop", "postgresql://bob:b@other/shop?sslmode=require"),
        ("postgresql://ann@h/shop", "postgresql://ann@h/?dbname=shop"),
        ("postgresql://ann@h/a%2Db", "postgresql://ann@h/a-b"),
        ("postgresql://ann:a@h", "postgresql://ann:b@h"),
        ("postgresql://ann@h/shop?dbname=other", "postgresql://bob@h/shop?dbname=other"),
    ],
)
async def test_the_same_database_is_taken(monkeypatch: pytest.MonkeyPatch, opened: str, told: str) -> None:
    monkeypatch.delenv("PGDATABASE", raising=False)
    assert await UrlSource(opened, lambda: told).url() == told


async def test_without_a_name_the_database_of_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDATABASE", "shop")
    assert await UrlSource("postgresql://ann@h", lambda: "postgresql://bob@h").url() == "postgresql://bob@h"


async def test_it_is_asked_for_every_connection_and_no_error_repeats_what_it_has_said_lately() -> None:
    urls = iter([f"postgresql://ann:{password}@h/shop" for password in ("monday", "tuesday", "wednesday")])
    source = UrlSource("postgresql://ann:sunday@h/shop", lambda: next(urls))

    told = [await source.url(), source.url_in_thread(), await source.url()]

    assert told == [f"postgresql://ann:{password}@h/shop" for password in ("monday", "tuesday", "wednesday")]
    assert {"tuesday", "wednesday"} <= set(source.secrets)
