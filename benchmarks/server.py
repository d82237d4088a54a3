"""The PostgreSQL the benchmarks run on: the one named, or one of their own with default durability."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.postgres import private_server

VARIABLE = "MAINSPRING_BENCH_POSTGRES"


@contextmanager
def postgres() -> Iterator[str]:
    """A server's URL. Everything the benchmarks make in it is in schemas whose name begins with ``bench``."""
    named = os.environ.get(VARIABLE)
    if named:
        yield named
        return
    with tempfile.TemporaryDirectory() as folder, private_server(Path(folder)) as server:
        yield server.url
