"""What every test of the dashboard shares."""

from collections.abc import AsyncIterator

import pytest

from tests.dashboard.scene import Scene, opened


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A shop in memory with something of everything, and a dashboard with two tokens."""
    async with opened() as made:
        yield made
