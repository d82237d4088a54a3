"""Where the namespaces are."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.integration.namespaces.world import Place


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Iterator[Place]:
    """A database for two namespaces."""
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/shop.db", "postgresql": postgres_url}
    yield Place(request.param, urls[request.param], postgres_schema)
    if request.param == "postgresql":
        with psycopg.connect(postgres_url) as connection:
            for namespace in ("mine", "theirs"):
                connection.execute(f'DROP SCHEMA IF EXISTS "{postgres_schema}-{namespace}" CASCADE'.encode())
