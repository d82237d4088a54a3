"""A database with a table of the user's beside ours, and an app on it."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mainspring import Mainspring
from tests.integration.transactional.ways import WAYS, Database, Way, effects


@dataclass
class Place:
    """Where one test is: its address is the user's way to the very database that the app is on."""

    database: Database
    address: str
    schema: str

    def app(self, way: Way | None = None, **options: Any) -> Mainspring:
        if self.database == "SQLite":
            return Mainspring(f"sqlite:///{self.address}", name="bank", **options)
        address = self.address if way is None or not way.scheme else self.address.replace("postgresql://", way.scheme)
        return Mainspring(address, name="bank", schema=self.schema, auto_migrate=True, **options)

    def effects(self) -> list[int]:
        return effects(self.database, self.address)

    def rows(self, query: str) -> list[Any]:
        """What an independent client reads; ``{}`` stands for what goes before our tables."""
        if self.database == "SQLite":
            with closing(sqlite3.connect(self.address)) as client:
                return client.execute(query.format("mainspring_")).fetchall()
        with psycopg.connect(self.address) as client:
            return client.execute(query.format(f"{self.schema}.").encode()).fetchall()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "way" in metafunc.fixturenames and not any(
        "way" in str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize")
    ):
        metafunc.parametrize("way", WAYS, ids=repr)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Iterator[Place]:
    """The database of the test's way; PostgreSQL where it has none."""
    way = request.node.callspec.params.get("way") if hasattr(request.node, "callspec") else None
    if way is not None and way.database == "SQLite":
        path = str(tmp_path / "bank.db")
        with closing(sqlite3.connect(path)) as client:
            client.execute("PRAGMA journal_mode = WAL")
            client.execute("CREATE TABLE effect (n INTEGER PRIMARY KEY)")
            client.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
        yield Place("SQLite", path, "mainspring")
        return
    with psycopg.connect(postgres_url, autocommit=True) as client:
        client.execute("CREATE TABLE effect (n integer PRIMARY KEY)")
        client.execute("CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL)")
        try:
            yield Place("PostgreSQL", postgres_url, postgres_schema)
        finally:
            client.execute("DROP TABLE effect, account")


@pytest.fixture
async def given(way: Way, place: Place) -> AsyncIterator[Any]:
    """What ``transactional=`` is given."""
    async with way.open(place.address) as made:
        yield made
