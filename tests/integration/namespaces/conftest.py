"""Where the namespaces are."""

from pathlib import Path

import pytest

from tests.integration.namespaces.world import Place


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path, postgres_url: str, postgres_schema: str) -> Place:
    """A database for two namespaces."""
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/shop.db", "postgresql": postgres_url}
    return Place(request.param, urls[request.param], postgres_schema)
