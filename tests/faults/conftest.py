"""Fixtures of the fault tests."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Says on the run's last page what was injected and what came of it."""
    return Report(request.node)


@pytest.fixture
def seed() -> int:
    """What decides the random faults of this test; MAINSPRING_FAULT_SEED repeats a run."""
    return int(os.environ.get("MAINSPRING_FAULT_SEED") or random.randrange(1_000_000))


@pytest.fixture
def scene(tmp_path: Path, postgres_url: str, postgres_schema: str, seed: int) -> Iterator[Scene]:
    """A scene on PostgreSQL, in a schema of its own."""
    with scene_on(tmp_path, seed, url=postgres_url, schema=postgres_schema) as made:
        yield made
