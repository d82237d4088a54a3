"""What every test of the dashboard shares."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.dashboard.scene import Scene, opened
from tests.dashboard.tenants import Files


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A shop in memory with something of everything, and a dashboard with two tokens."""
    async with opened() as made:
        yield made


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Makes the URLs of files for these names."""
    return lambda *names: {name: f"sqlite:///{tmp_path}/{number}.db" for number, name in enumerate(names)}
