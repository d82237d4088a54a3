"""What searches of deliveries are made of in SQLite: values on their way in, rows on their way out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_never

from mainspring.model.browsing import Filter
from mainspring.model.views import DeliveryView
from mainspring.storage.script import Row, Statement
from mainspring.storage.sql import Of
from mainspring.storage.sqlite.deliveries import dead, ended, live, parked
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.values import micros_or_none, numbers, read_numbers, storable


@dataclass(frozen=True, slots=True)
class Clerk:
    """See ``storage.sql.shelves.Clerk``."""

    sql: Dialect
    now: int

    def statement(self, name: str, *args: Any) -> Statement:
        """The statement of this name."""
        return self.sql(name, *args)

    def instant(self, at: datetime | None) -> int | None:
        """In microseconds."""
        return micros_or_none(at)

    def sought(self, text: str) -> bytes:
        """Text in small letters, as bytes."""
        return text.encode("utf-8", "backslashreplace").lower()

    def storable(self, text: str) -> str:
        """Text without half characters."""
        return storable(text) or ""

    def listed(self, seqs: list[int]) -> str:
        """A list for ``json_each``."""
        return numbers(seqs)

    def seqs(self, listed: str) -> list[int]:
        """A list that was gathered by ``json_group_array``."""
        return read_numbers(listed)

    def view(self, of: Of, row: Row, wanted: Filter) -> DeliveryView:
        """Each shelf has columns of its own."""
        match of:
            case "live":
                return live(row, self.now)
            case "dead":
                return dead(row)
            case "run":
                return ended(row, "done" if wanted.state == "done" else "cancelled")
            case "parked":
                return parked(row)
            case _:
                assert_never(of)
