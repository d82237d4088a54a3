"""Where what a filter means is kept, and which statements find it: in every dialect the same but for its values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, assert_never

from mainspring.model.browsing import Filter
from mainspring.model.views import DeliveryView
from mainspring.storage.script import Row, Statement
from mainspring.storage.sql.browsing import LAST, Shelf

Of = Literal["live", "dead", "run", "parked"]
"""What there are shelves of."""


class Clerk(Protocol):
    """What one dialect makes of values and rows."""

    @property
    def now(self) -> Any:
        """The time as its statements are given it."""
        ...

    def statement(self, name: str, *args: Any) -> Statement:
        """The statement in the file of this name."""
        ...

    def instant(self, at: datetime | None) -> Any:
        """An instant that may be missing."""
        ...

    def sought(self, text: str) -> Any:
        """Text as it is looked for in payloads."""
        ...

    def storable(self, text: str) -> str:
        """Text as it is kept."""
        ...

    def listed(self, seqs: list[int]) -> Any:
        """Seqs in the form in which its statements exchange them."""
        ...

    def seqs(self, listed: Any) -> list[int]:
        """The same read back."""
        ...

    def view(self, of: Of, row: Row, wanted: Filter) -> DeliveryView:
        """A row of this shelf as people see it."""
        ...


def shelf(clerk: Clerk, wanted: Filter) -> Shelf:
    """Where what the filter means is kept."""
    match wanted.state:
        case "live" | "scheduled" | "ready" | "running" | "lapsed" | "retrying":
            return _Live(clerk, wanted, "live")
        case "dead":
            return _Dead(clerk, wanted, "dead")
        case "parked":
            return _Parked(clerk, wanted, "parked")
        case "done" | "cancelled":
            return _Ended(clerk, wanted, "run")
        case _:
            assert_never(wanted.state)


@dataclass(frozen=True, slots=True)
class _Shelf:
    clerk: Clerk
    wanted: Filter
    of: Of

    def seqs(self, which: Any) -> list[int]:
        return self.clerk.seqs(which)

    def weigh(self, seqs: list[int]) -> Statement:
        return self.clerk.statement("weigh", self.clerk.listed(seqs), self.of)

    def view(self, row: Row) -> DeliveryView:
        return self.clerk.view(self.of, row, self.wanted)

    def _few(self, name: str, most: int, *rest: Any) -> Statement:
        before = LAST if self.wanted.before is None else self.wanted.before
        return self.clerk.statement(name, most, before, *rest)

    def _keyed(self, most: int) -> Statement:
        return self._few("few_keyed", most, self.of, self.wanted.topic, self.wanted.key)

    def _read(self, name: str, seqs: list[int], limit: int, *rest: Any) -> Statement:
        return self.clerk.statement(name, self.clerk.listed(seqs), limit, *rest)

    @property
    def _published(self) -> tuple[Any, Any]:
        return self.clerk.instant(self.wanted.since), self.clerk.instant(self.wanted.until)

    @property
    def _error(self) -> str | None:
        return self.clerk.storable(self.wanted.error) if self.wanted.error else None

    @property
    def _text(self) -> Any:
        return self.clerk.sought(self.wanted.text) if self.wanted.text else None


class _Live(_Shelf):
    __slots__ = ()

    def few(self, most: int) -> Statement | None:
        wanted = self.wanted
        if wanted.key is not None:
            return self._keyed(most)
        state = "held" if wanted.held_by is not None else wanted.state
        if state == "live" and wanted.group is None:
            return None
        return self._few("few_live", most, state, wanted.group, self.clerk.now)

    def walk(self, before: int, count: int) -> Statement:
        return self.clerk.statement("walk_live", before, count, *self._narrowed, self.clerk.now)

    def read(self, seqs: list[int], limit: int) -> Statement:
        rest = (self.wanted.topic, self._text, self.clerk.now)
        return self._read("browse_live", seqs, limit, *self._narrowed, *rest)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        return wanted.state, wanted.group, wanted.key, wanted.held_by, *self._published


class _Dead(_Shelf):
    __slots__ = ()

    def few(self, most: int) -> Statement | None:
        wanted = self.wanted
        if wanted.key is not None:
            return self._keyed(most)
        if wanted.group is not None or (wanted.topic is None and wanted.fingerprint is None):
            return None
        return self._few("few_dead", most, wanted.topic, wanted.fingerprint)

    def walk(self, before: int, count: int) -> Statement:
        name = "walk_dead"
        if self.wanted.group is not None:
            name = "walk_dead_group" if self.wanted.fingerprint is None else "walk_dead_cause"
        return self.clerk.statement(name, before, count, *self._narrowed)

    def read(self, seqs: list[int], limit: int) -> Statement:
        return self._read("browse_dead", seqs, limit, *self._narrowed, self._text)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        named = (wanted.group, wanted.topic, wanted.key, self._error)
        return *named, *self._published, wanted.fingerprint


class _Ended(_Shelf):
    __slots__ = ()

    def few(self, most: int) -> Statement | None:
        wanted = self.wanted
        if wanted.key is not None:
            return self._keyed(most)
        if wanted.topic is None and wanted.state == "done":
            return None
        return self._few("few_ended", most, wanted.state, wanted.topic)

    def walk(self, before: int, count: int) -> Statement:
        name = "walk_ended" if self.wanted.group is None else "walk_ended_group"
        return self.clerk.statement(name, before, count, *self._narrowed)

    def read(self, seqs: list[int], limit: int) -> Statement:
        rest = (self.wanted.key, *self._published, self._text)
        return self._read("browse_ended", seqs, limit, *self._narrowed, *rest)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        return wanted.state, wanted.group, wanted.topic, self._error


class _Parked(_Shelf):
    __slots__ = ()

    def few(self, most: int) -> Statement | None:
        return self._keyed(most) if self.wanted.key is not None else None

    def walk(self, before: int, count: int) -> Statement:
        name = "walk_parked" if self.wanted.topic is None else "walk_parked_topic"
        return self.clerk.statement(name, before, count, *self._narrowed)

    def read(self, seqs: list[int], limit: int) -> Statement:
        return self._read("browse_parked", seqs, limit, *self._narrowed, self._text)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        return wanted.topic, wanted.key, *self._published
