"""Which statements tell what dead letters died of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mainspring.storage.postgres.columns import columns
from mainspring.storage.postgres.names import Names
from mainspring.storage.script import Statement
from mainspring.storage.sql import Cause


@dataclass(frozen=True, slots=True)
class Coroner:
    """See ``storage.sql.causes.Coroner``."""

    names: Names

    def known(self, group: str | None, steps: int) -> Statement:
        """From cause to cause."""
        return Statement(self.names.sql("causes_known"), (group, steps))

    def count(self, causes: Sequence[Cause], most: int) -> Statement:
        """So many of each."""
        return Statement(self.names.sql("causes_count"), (*columns(causes, 2), most))

    def latest(self, causes: Sequence[Cause]) -> Statement:
        """The newest of each."""
        return Statement(self.names.sql("causes_latest"), columns(causes, 2))

    def at(self, value: Any) -> datetime:
        """The driver has read it."""
        instant: datetime = value
        return instant
