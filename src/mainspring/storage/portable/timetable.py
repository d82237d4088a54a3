"""The rows of schedules, which dialects write and read alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from mainspring.model.schedule import Layer, Schedule
from mainspring.storage.portable.dialect import SqlOperations
from mainspring.storage.script import Row

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class SqlTimetable(SqlOperations):
    """The part of ``Timetable`` on which dialects agree: the columns of a schedule are its fields."""

    def _schedule(self, row: Row) -> Schedule:
        fields = self._values.fields(Schedule, row)
        name, app, origin, definition, created, declared, base, next_at, overrides, edits, *rest = fields
        code, configured, edited = map(_layer, (definition, overrides, edits))
        return Schedule(name, app, origin, code, created, declared, base, next_at, configured, edited, *rest)

    def _columns(self, row: Schedule) -> tuple[Any, ...]:
        instant, text = self._values.instant, self._values.text
        return (
            row.name,
            row.app,
            row.origin,
            _json(row.definition),
            instant(row.created_at),
            instant(row.declared_at),
            instant(row.base_at),
            instant(row.next_at),
            _json(row.overrides),
            _json(row.edits),
            row.version,
            row.revision,
            instant(row.paused_at),
            None if row.paused_by is None else text(row.paused_by),
            None if row.pause_reason is None else text(row.pause_reason),
            instant(row.retired_at),
            row.fired,
            row.missed,
            row.skipped,
        )


def revised(row: Schedule, known: Schedule) -> Schedule:
    """The row as it is written over the one that was there."""
    return replace(row, created_at=known.created_at, revision=known.revision + 1)


def _layer(text: str) -> dict[str, Any]:
    """What cannot be read is one field, which no plan has: that row alone is bad."""
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return {"unreadable": text}


def _json(layer: Layer) -> str:
    return msgspec.json.encode(dict(layer), order="sorted").decode()
