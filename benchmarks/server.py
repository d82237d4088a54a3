"""The PostgreSQL of the benchmarks: a given one, or a temporary one with default durability."""

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
    """Yield a server's URL. The benchmarks use only schemas whose names begin with ``bench``."""
    named = os.environ.get(VARIABLE)
    if named:
        yield named
        return
    with tempfile.TemporaryDirectory() as folder, private_server(Path(folder)) as server:
        yield server.url
