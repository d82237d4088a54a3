"""What the rooms of SQLite have in common."""

from __future__ import annotations

from mainspring.storage.operation import Gateway, Operations
from mainspring.storage.sqlite.dialect import Dialect


class SqliteOperations(Operations):
    """A room of SQLite: its statements are those of one prefix, and they tell the time."""

    def __init__(self, sql: Dialect, gateway: Gateway) -> None:
        super().__init__(gateway, sql)
        self._sql = sql
