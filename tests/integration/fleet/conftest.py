"""A shop with a database per customer: files, or databases of one PostgreSQL server."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from tests.services.postgres import new_database

Urls = dict[str, str]
Make = Callable[..., Urls]


@pytest.fixture
def files(tmp_path: Path) -> Make:
    """Makes the URLs of files with these names."""
    return lambda *names: {name: f"sqlite:///{tmp_path}/{name}.db" for name in names}


@pytest.fixture
def servers(postgres_url: str) -> Iterator[Make]:
    """Makes empty databases of the server, and returns their URLs by name."""
    with ExitStack() as stack:

        def make(*names: str) -> Urls:
            called = {name: f"fleet_{uuid4().hex[:12]}" for name in names}
            return {name: stack.enter_context(new_database(postgres_url, each)) for name, each in called.items()}

        yield make


@pytest.fixture(params=["sqlite", "postgresql"])
def make(request: pytest.FixtureRequest, files: Make, servers: Make) -> Make:
    """Makes databases, of one kind and of the other."""
    return files if request.param == "sqlite" else servers


async def until(true: Callable[[], object], patience: float = 60.0) -> None:
    """Wait until this is true."""
    async with asyncio.timeout(patience):
        while not true():
            await asyncio.sleep(0.02)
