"""Which statements of SQLite tell what dead letters died of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mainspring.storage.script import Statement
from mainspring.storage.sql import Cause
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.values import instant, pairs


@dataclass(frozen=True, slots=True)
class Coroner:
    """See ``storage.sql.causes.Coroner``."""

    sql: Dialect

    def known(self, group: str | None, steps: int) -> Statement:
        """From cause to cause."""
        return self.sql("causes_known", group, steps)

    def count(self, causes: Sequence[Cause], most: int) -> Statement:
        """So many of each."""
        return self.sql("causes_count", pairs(causes), most)

    def latest(self, causes: Sequence[Cause]) -> Statement:
        """The newest of each."""
        return self.sql("causes_latest", pairs(causes))

    def at(self, value: Any) -> datetime:
        """Microseconds as a datetime."""
        return instant(value)
