"""Fixtures of the fault tests."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.report import Report
from tests.faults.scene import Scene, scene_on

_CHOSEN = os.environ.get("MAINSPRING_FAULT_ENGINES")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """PostgreSQL in every run, SQLite too in a large one; MAINSPRING_FAULT_ENGINES=sqlite,postgres chooses."""
    if "engine" not in metafunc.fixturenames:
        return
    able = getattr(metafunc.module, "ENGINES", ("postgres", "sqlite"))
    wanted = ("postgres", "sqlite") if metafunc.config.getoption("--large") else ("postgres",)
    chosen = tuple(_CHOSEN.split(",")) if _CHOSEN else wanted
    metafunc.parametrize("engine", [each for each in able if each in chosen])


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Says on the run's last page what was injected and what came of it."""
    return Report(request.node)


@pytest.fixture
def margin(large: bool) -> float:
    """Seconds that the machine may add to what is promised within a time.

    A large run has the machine to itself. In every other one what breaks a promise takes much longer, or for ever.
    """
    return 1.5 if large else 20.0


@pytest.fixture
def seed() -> int:
    """What decides the random faults of this test; MAINSPRING_FAULT_SEED repeats a run."""
    return int(os.environ.get("MAINSPRING_FAULT_SEED") or random.randrange(1_000_000))


@pytest.fixture
def scene(engine: str, tmp_path: Path, postgres_url: str, postgres_schema: str, seed: int) -> Iterator[Scene]:
    """A scene on PostgreSQL in a schema of its own, or on an SQLite file."""
    url = f"sqlite:///{tmp_path}/queue.db" if engine == "sqlite" else postgres_url
    with scene_on(tmp_path, seed, url=url, schema=postgres_schema) as made:
        yield made
