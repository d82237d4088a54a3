"""What the tests of the SQLite storage share: a file with tables in it, and a storage open on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mainspring.storage.sqlite import SqliteStorage


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "shop.db")


@pytest.fixture
async def storage(path: str) -> AsyncIterator[SqliteStorage]:
    """A storage on the host's clock, with its tables made."""
    made = SqliteStorage(path)
    await made.open()
    try:
        await made.schema.migrate()
        yield made
    finally:
        await made.close()
