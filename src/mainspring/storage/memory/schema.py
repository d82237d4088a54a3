"""The schema in memory: there are no tables, but they are made all the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from mainspring.model.errors import SchemaMissing
from mainspring.model.symptom import Symptom, Tolerances
from mainspring.storage.memory.state import State

_VERSION = 1


class MemorySchema:
    """``Schema`` over shared rows: one version, so that starting up is the same on every storage."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def version(self) -> int:
        """See ``Schema.version``."""
        return self._state.version

    async def check(self) -> None:
        """See ``Schema.check``."""
        if self._state.version < _VERSION:
            raise SchemaMissing(self._state.version, _VERSION)

    async def migrate(self) -> list[str]:
        """See ``Schema.migrate``."""
        with self._state.lock:
            missing = self._state.version < _VERSION
            self._state.version = _VERSION
        return ["0001_memory"] if missing else []

    async def ahead(self) -> timedelta:
        """See ``Schema.ahead``."""
        return timedelta()

    async def lacking(self) -> list[str]:
        """See ``Schema.lacking``."""
        return []

    async def examine(self, _tolerances: Tolerances, _host: Callable[[], datetime]) -> list[Symptom]:
        """See ``Schema.examine``."""
        return []
