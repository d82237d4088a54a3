"""What searches of deliveries are made of in PostgreSQL: values on their way in, rows on their way out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mainspring.model.browsing import Filter
from mainspring.model.views import DeliveryView
from mainspring.storage.operation import Now
from mainspring.storage.postgres.columns import clean, of_delivery
from mainspring.storage.postgres.names import Names
from mainspring.storage.script import Row, Statement
from mainspring.storage.sql import Of


@dataclass(frozen=True, slots=True)
class Clerk:
    """See ``storage.sql.shelves.Clerk``."""

    names: Names
    now: Now

    def statement(self, name: str, *args: Any) -> Statement:
        """The statement of this name."""
        return Statement(self.names.sql(name), args)

    def instant(self, at: datetime | None) -> datetime | None:
        """As it is: the driver writes it."""
        return at

    def sought(self, text: str) -> str:
        """Text as ``searchable()`` would have it."""
        return text.encode("utf-8", "backslashreplace").lower().replace(b"\0", b"\1").decode("latin-1")

    def storable(self, text: str) -> str:
        """Text without NUL and half characters."""
        return clean(text)

    def listed(self, seqs: list[int]) -> list[int]:
        """An array."""
        return seqs

    def seqs(self, listed: list[int]) -> list[int]:
        """An array."""
        return listed

    def view(self, _of: Of, row: Row, _wanted: Filter) -> DeliveryView:
        """Every shelf has its columns in the order of the view."""
        return of_delivery(row)
