"""What the rooms of PostgreSQL have in common."""

from __future__ import annotations

from mainspring.storage.operation import Clocked, Gateway, Operations
from mainspring.storage.postgres.names import Names


class PostgresOperations(Operations):
    """A room of PostgreSQL: its statements are those of one schema."""

    def __init__(self, names: Names, gateway: Gateway, clock: Clocked) -> None:
        super().__init__(gateway, clock)
        self._names = names
        self._channel = names.bell
        self._sql = names.sql
