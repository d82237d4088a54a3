"""What asyncpg asks every new connection about types, asked once a run: the answer takes thrice as long as connecting.

Arrays of system types are the same on every server of a version. What is not of the system, and what is asked through a
pooler, where it is part of what is tested, is asked each time.
"""

import os
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncpg

_FIRST_OF_USERS = 16384
"""The least id of what is not part of PostgreSQL itself."""

_connection: Any = asyncpg.Connection
ask = _connection._introspect_types


def ask_once() -> None:
    """Let asyncpg remember, in this process and its forks, what any process of this run of tests was told."""
    home = Path(os.environ["MAINSPRING_TEST_HOME"])
    known: dict[Path, Any] = {}

    async def introspect(self: Any, ids: set[int], timeout: float) -> Any:
        if not self._stmt_cache_enabled or max(ids) >= _FIRST_OF_USERS:
            return await ask(self, ids, timeout)
        file = home / "-".join(map(str, ("types", self.get_server_version()[0], *sorted(ids))))
        if file not in known:
            if not file.exists():
                rows, _ = await ask(self, ids, timeout)
                part = file.with_suffix(f".{os.getpid()}")
                part.write_bytes(pickle.dumps([dict(row) for row in rows]))
                part.replace(file)
            known[file] = pickle.loads(file.read_bytes())
        return known[file], SimpleNamespace(name="known")

    _connection._introspect_types = introspect
