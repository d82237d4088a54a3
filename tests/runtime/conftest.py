from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mainspring.storage.memory import MemoryStorage
from tests.runtime.stage import Stage


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    storage = MemoryStorage()
    await storage.open()
    await storage.schema.migrate()
    stage = Stage(storage)
    await stage.declare("work")
    yield stage
    await storage.close()
