"""The FastAPI example does what its README says, on the database that it comes with and on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.integration.examples.readme import copied
from tests.services.postgres import new_database


@pytest.fixture
def servers(postgres_url: str) -> Iterator[tuple[str, str]]:
    name = f"store_{uuid4().hex[:12]}"
    with new_database(postgres_url, name) as one, new_database(postgres_url, f"{name}_test") as other:
        yield _for_sqlalchemy(one), _for_sqlalchemy(other)


def _for_sqlalchemy(url: str) -> str:
    return url.replace("postgresql://", "postgresql+asyncpg://")


def test_every_command_of_the_page_works_as_written(tmp_path: Path) -> None:
    with copied("fastapi_shop", tmp_path) as session:
        session.follow()

    assert session.typed[-1] == "python -m pytest --quiet"


def test_every_command_of_the_page_works_on_postgresql_too(tmp_path: Path, servers: tuple[str, str]) -> None:
    database, for_tests = servers

    with copied("fastapi_shop", tmp_path, DATABASE_URL=database, TEST_DATABASE_URL=for_tests) as session:
        session.follow()

    assert session.typed[-1] == "python -m pytest --quiet"
    assert not list(tmp_path.rglob("store.db*"))
