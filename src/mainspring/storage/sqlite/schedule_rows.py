"""A schedule as a row of SQLite, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mainspring.model.schedule import Schedule, ScheduleAdvance
from mainspring.storage.script import Row, Statement
from mainspring.storage.sqlite.dialect import Dialect
from mainspring.storage.sqlite.values import (
    instant,
    instant_or_none,
    layer,
    micros,
    micros_or_none,
    read_layer,
    storable,
)


def moving(sql: Dialect, schedule: Schedule, move: ScheduleAdvance) -> Statement:
    return sql(
        "timetable_move",
        schedule.name,
        micros_or_none(schedule.next_at),
        schedule.revision,
        micros_or_none(move.next_at),
        micros(move.base_at),
        len(move.occurrences),
        move.missed,
        move.skipped,
    )


def writing(name: str, row: Schedule | None, *, is_new: bool) -> tuple[str, tuple[Any, ...]]:
    if row is None:
        return "timetable_delete", (name,)
    return "timetable_insert" if is_new else "timetable_update", _columns(row)


def grown(row: Schedule | None, known: Schedule | None) -> Schedule | None:
    """The row as it is written over the one that was there."""
    if row is None or known is None:
        return row
    return replace(row, created_at=known.created_at, revision=known.revision + 1)


def read_schedule(row: Row) -> Schedule:
    (name, app, origin, definition, created, declared, base, next_at, overrides, edits, *rest) = row
    (version, revision, paused, paused_by, reason, retired, fired, missed, skipped) = rest
    return Schedule(
        name=name,
        app=app,
        origin=origin,
        definition=read_layer(definition),
        created_at=instant(created),
        declared_at=instant(declared),
        base_at=instant(base),
        next_at=instant_or_none(next_at),
        overrides=read_layer(overrides),
        edits=read_layer(edits),
        version=version,
        revision=revision,
        paused_at=instant_or_none(paused),
        paused_by=paused_by,
        pause_reason=reason,
        retired_at=instant_or_none(retired),
        fired=fired,
        missed=missed,
        skipped=skipped,
    )


def _columns(row: Schedule) -> tuple[Any, ...]:
    return (
        row.name,
        row.app,
        row.origin,
        layer(row.definition),
        micros(row.created_at),
        micros(row.declared_at),
        micros(row.base_at),
        micros_or_none(row.next_at),
        layer(row.overrides),
        layer(row.edits),
        row.version,
        row.revision,
        micros_or_none(row.paused_at),
        storable(row.paused_by),
        storable(row.pause_reason),
        micros_or_none(row.retired_at),
        row.fired,
        row.missed,
        row.skipped,
    )
