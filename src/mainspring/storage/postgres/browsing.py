"""Which statements find the deliveries that a filter means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from mainspring.model.browsing import Filter
from mainspring.model.views import DeliveryView
from mainspring.storage.postgres.columns import clean
from mainspring.storage.postgres.names import Names
from mainspring.storage.script import Row, Statement
from mainspring.storage.sql import LAST, Now, Shelf


def shelf(names: Names, wanted: Filter, now: Now) -> Shelf:
    """Where what the filter means is kept."""
    match wanted.state:
        case "live" | "scheduled" | "ready" | "running":
            return _Live(names, wanted, now)
        case "dead":
            return _Dead(names, wanted, now)
        case "parked":
            return _Parked(names, wanted, now)
        case "done" | "cancelled":
            return _Ended(names, wanted, now)
        case _:
            assert_never(wanted.state)


def _sought(text: str | None) -> str | None:
    """Text as ``searchable()`` would have it."""
    if not text:
        return None
    return text.encode("utf-8", "backslashreplace").lower().replace(b"\0", b"\1").decode("latin-1")


@dataclass(frozen=True, slots=True)
class _Shelf:
    names: Names
    wanted: Filter
    now: Now

    def view(self, row: Row) -> DeliveryView:
        return DeliveryView(*row)

    def _statement(self, name: str, *args: Any) -> Statement:
        return Statement(self.names.sql(name), args)

    def _keyed(self, most: int, of: str) -> Statement:
        wanted = self.wanted
        return self._statement("few_keyed", most, self._before, of, wanted.topic, wanted.key)

    @property
    def _before(self) -> int:
        return LAST if self.wanted.before is None else self.wanted.before

    @property
    def _error(self) -> str | None:
        return clean(self.wanted.error) if self.wanted.error else None


class _Live(_Shelf):
    __slots__ = ()

    def few(self, most: int) -> Statement | None:
        wanted = self.wanted
        if wanted.key is not None:
            return self._keyed(most, "live")
        state = "running" if wanted.held_by is not None else wanted.state
        if state == "live" and wanted.group is None:
            return None
        return self._statement("few_live", most, self._before, state, wanted.group, self.now)

    def walk(self, before: int, count: int) -> Statement:
        return self._statement("walk_live", before, count, *self._narrowed, self.now)

    def read(self, which: Any, limit: int) -> Statement:
        wanted = self.wanted
        rest = (wanted.topic, wanted.prefix, _sought(wanted.text), self.now)
        return self._statement("browse_live", which, limit, *self._narrowed, *rest)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        return wanted.state, wanted.group, wanted.key, wanted.held_by, wanted.since, wanted.until


class _Dead(_Shelf):
    __slots__ = ()

    def few(self, most: int) -> Statement | None:
        wanted = self.wanted
        if wanted.key is not None:
            return self._keyed(most, "dead")
        if wanted.group is not None or (wanted.topic is None and wanted.fingerprint is None):
            return None
        return self._statement("few_dead", most, self._before, wanted.topic, wanted.fingerprint)

    def walk(self, before: int, count: int) -> Statement:
        wanted = self.wanted
        if wanted.group is None:
            return self._statement("walk_dead", before, count, *self._narrowed)
        name = "walk_dead_group" if wanted.fingerprint is None else "walk_dead_cause"
        return self._statement(name, before, count, *self._narrowed)

    def read(self, which: Any, limit: int) -> Statement:
        return self._statement("browse_dead", which, limit, *self._narrowed, _sought(self.wanted.text))

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        named = (wanted.group, wanted.topic, wanted.key, self._error)
        return *named, wanted.since, wanted.until, wanted.prefix, wanted.fingerprint


class _Ended(_Shelf):
    __slots__ = ()

    def few(self, most: int) -> Statement | None:
        wanted = self.wanted
        if wanted.key is not None:
            return self._keyed(most, "run")
        if wanted.topic is None and wanted.state == "done":
            return None
        return self._statement("few_ended", most, self._before, wanted.state, wanted.topic)

    def walk(self, before: int, count: int) -> Statement:
        name = "walk_ended" if self.wanted.group is None else "walk_ended_group"
        return self._statement(name, before, count, *self._narrowed)

    def read(self, which: Any, limit: int) -> Statement:
        wanted = self.wanted
        rest = (wanted.key, wanted.since, wanted.until, _sought(wanted.text))
        return self._statement("browse_ended", which, limit, *self._narrowed, *rest)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        return wanted.state, wanted.group, wanted.topic, self._error, wanted.prefix


class _Parked(_Shelf):
    __slots__ = ()

    def few(self, most: int) -> Statement | None:
        return self._keyed(most, "parked") if self.wanted.key is not None else None

    def walk(self, before: int, count: int) -> Statement:
        name = "walk_parked" if self.wanted.topic is None else "walk_parked_topic"
        return self._statement(name, before, count, *self._narrowed)

    def read(self, which: Any, limit: int) -> Statement:
        return self._statement("browse_parked", which, limit, *self._narrowed, _sought(self.wanted.text))

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        return wanted.topic, wanted.key, wanted.since, wanted.until, wanted.prefix
