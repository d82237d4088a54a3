"""Which statements of SQLite find the deliveries that a filter means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

from mainspring.model.browsing import Filter
from mainspring.model.views import DeliveryView
from mainspring.storage.script import Row, Statement
from mainspring.storage.sql import LAST, Shelf
from mainspring.storage.sqlite.deliveries import dead, ended, live, parked
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.values import micros_or_none


def shelf(sql: Dialect, wanted: Filter, at: int) -> Shelf:
    """Where what the filter means is kept."""
    match wanted.state:
        case "live" | "scheduled" | "ready" | "running":
            return _Live(sql, wanted, at)
        case "dead":
            return _Dead(sql, wanted, at)
        case "parked":
            return _Parked(sql, wanted, at)
        case "done" | "cancelled":
            return _Ended(sql, wanted, at)
        case _:
            assert_never(wanted.state)


@dataclass(frozen=True, slots=True)
class _Shelf:
    sql: Dialect
    wanted: Filter
    at: int

    def _keyed(self, most: int, of: str) -> Statement:
        wanted = self.wanted
        return self.sql("few_keyed", most, self._before, of, wanted.topic, wanted.key)

    @property
    def _before(self) -> int:
        return LAST if self.wanted.before is None else self.wanted.before

    @property
    def _published(self) -> tuple[int | None, int | None]:
        return micros_or_none(self.wanted.since), micros_or_none(self.wanted.until)

    @property
    def _text(self) -> bytes | None:
        text = self.wanted.text
        return text.encode("utf-8", "backslashreplace").lower() if text else None


class _Live(_Shelf):
    __slots__ = ()

    def few(self, most: int) -> Statement | None:
        wanted = self.wanted
        if wanted.key is not None:
            return self._keyed(most, "live")
        state = "running" if wanted.held_by is not None else wanted.state
        if state == "live" and wanted.group is None:
            return None
        return self.sql("few_live", most, self._before, state, wanted.group, self.at)

    def walk(self, before: int, count: int) -> Statement:
        return self.sql("walk_live", before, count, *self._narrowed, self.at)

    def read(self, which: Any, limit: int) -> Statement:
        wanted = self.wanted
        rest = (wanted.topic, wanted.prefix, self._text, self.at)
        return self.sql("browse_live", which, limit, *self._narrowed, *rest)

    def view(self, row: Row) -> DeliveryView:
        return live(row, self.at)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        return wanted.state, wanted.group, wanted.key, wanted.held_by, *self._published


class _Dead(_Shelf):
    __slots__ = ()

    def few(self, most: int) -> Statement | None:
        wanted = self.wanted
        if wanted.key is not None:
            return self._keyed(most, "dead")
        if wanted.group is not None or (wanted.topic is None and wanted.fingerprint is None):
            return None
        return self.sql("few_dead", most, self._before, wanted.topic, wanted.fingerprint)

    def walk(self, before: int, count: int) -> Statement:
        wanted = self.wanted
        if wanted.group is None:
            return self.sql("walk_dead", before, count, *self._narrowed)
        name = "walk_dead_group" if wanted.fingerprint is None else "walk_dead_cause"
        return self.sql(name, before, count, *self._narrowed)

    def read(self, which: Any, limit: int) -> Statement:
        return self.sql("browse_dead", which, limit, *self._narrowed, self._text)

    def view(self, row: Row) -> DeliveryView:
        return dead(row)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        named = (wanted.group, wanted.topic, wanted.key, wanted.error)
        return *named, *self._published, wanted.prefix, wanted.fingerprint


class _Ended(_Shelf):
    __slots__ = ()

    def few(self, most: int) -> Statement | None:
        wanted = self.wanted
        if wanted.key is not None:
            return self._keyed(most, "run")
        if wanted.topic is None and wanted.state == "done":
            return None
        return self.sql("few_ended", most, self._before, wanted.state, wanted.topic)

    def walk(self, before: int, count: int) -> Statement:
        name = "walk_ended" if self.wanted.group is None else "walk_ended_group"
        return self.sql(name, before, count, *self._narrowed)

    def read(self, which: Any, limit: int) -> Statement:
        return self.sql("browse_ended", which, limit, *self._narrowed, self.wanted.key, *self._published, self._text)

    def view(self, row: Row) -> DeliveryView:
        return ended(row, "done" if self.wanted.state == "done" else "cancelled")

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        return wanted.state, wanted.group, wanted.topic, wanted.error, wanted.prefix


class _Parked(_Shelf):
    __slots__ = ()

    def few(self, most: int) -> Statement | None:
        return self._keyed(most, "parked") if self.wanted.key is not None else None

    def walk(self, before: int, count: int) -> Statement:
        name = "walk_parked" if self.wanted.topic is None else "walk_parked_topic"
        return self.sql(name, before, count, *self._narrowed)

    def read(self, which: Any, limit: int) -> Statement:
        return self.sql("browse_parked", which, limit, *self._narrowed, self._text)

    def view(self, row: Row) -> DeliveryView:
        return parked(row)

    @property
    def _narrowed(self) -> tuple[Any, ...]:
        wanted = self.wanted
        return wanted.topic, wanted.key, *self._published, wanted.prefix
