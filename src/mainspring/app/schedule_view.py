"""A schedule as people and programs see it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from mainspring.model.schedule import Freeze, Layer, Misfire, Mode, Origin, Overlap, Schedule
from mainspring.model.views import RunView
from mainspring.runtime.schedules.calendars import CODE
from mainspring.runtime.schedules.plan import CannotPlan, Code, Plan, read_plan

ScheduleState = Literal["active", "paused", "retired", "frozen", "finished", "broken"]
"""Active: due at ``next_at``. Retired: its code has gone. Finished: it has no further occurrence. Broken: see
``problem``."""


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule: what it follows, where it stands, and how its last run ended."""

    name: str
    app: str
    state: ScheduleState
    rhythm: str
    description: str
    """The rhythm in words."""
    timezone: str
    day_match: Literal["and", "or"]
    on_gap: Literal["fire", "skip"]
    next_at: datetime | None
    last_run: RunView | None
    """None: it never ran, or no run of it was kept."""
    mode: Mode
    topic: str
    group: str | None
    """The consumer in mode "direct"."""
    misfire: Misfire
    misfire_after: timedelta
    catch_up: int
    overlap: Overlap
    jitter: timedelta
    start: datetime | None
    end: datetime | None
    holidays: tuple[str, ...]
    workdays: tuple[str, ...]
    priority: int
    fired: int
    missed: int
    """Occurrences that the misfire policy let go."""
    skipped: int
    """Occurrences that the overlap policy let go."""
    origin: Origin
    defined: tuple[str, ...]
    """The fields that its definition sets, in code or by ``put``. What nobody sets is at its default."""
    configured: tuple[str, ...]
    """The fields that configuration has set over the code's."""
    edited: tuple[str, ...]
    """The fields that were set at run time, over all others."""
    revision: int
    created_at: datetime
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    frozen_at: datetime | None = None
    """Since when all schedules of its app, or of every app, stand still."""
    frozen_by: str | None = None
    freeze_reason: str | None = None
    retired_at: datetime | None = None
    problem: str | None = None
    """Why it cannot be followed where it was asked for. Where it is only that days are told by code of another process,
    it is not broken."""

    @property
    def never_ran(self) -> bool:
        """Whether nothing is known of any run."""
        return self.last_run is None and self.fired == 0


def viewed(row: Schedule, freezes: Collection[Freeze], last_run: RunView | None, code: Code | None) -> ScheduleView:
    """The row as it is shown."""
    layers = row.layers
    plan, problem = _read(layers, code)
    fields = (plan or read_plan({"rhythm": "every 1d"})).fields
    group = layers.get("group")
    freeze = next((each for each in freezes if each.app in ("", row.app)), None)
    return ScheduleView(
        name=row.name,
        app=row.app,
        state=_state(row, freeze, broken=plan is None),
        rhythm=str(layers.get("rhythm", "")),
        description="" if plan is None else plan.rhythm.describe(),
        timezone=str(layers.get("timezone", "UTC")),
        day_match=fields.day_match,
        on_gap=fields.on_gap,
        next_at=row.next_at,
        last_run=last_run,
        mode=fields.mode,
        topic=str(layers.get("topic", "")),
        group=None if group is None or fields.mode == "publish" else str(group),
        misfire=fields.misfire,
        misfire_after=timedelta(seconds=fields.misfire_after),
        catch_up=fields.catch_up,
        overlap=fields.overlap,
        jitter=timedelta(seconds=fields.jitter),
        start=fields.start,
        end=fields.end,
        holidays=tuple(layers.get("holidays", ())),
        workdays=tuple(layers.get("workdays", ())),
        priority=fields.priority,
        fired=row.fired,
        missed=row.missed,
        skipped=row.skipped,
        origin=row.origin,
        defined=tuple(sorted(row.definition)),
        configured=tuple(sorted(row.overrides)),
        edited=tuple(sorted(row.edits)),
        revision=row.revision,
        created_at=row.created_at,
        paused_at=row.paused_at,
        paused_by=row.paused_by,
        pause_reason=row.pause_reason,
        frozen_at=None if freeze is None else freeze.at,
        frozen_by=None if freeze is None else freeze.by,
        freeze_reason=None if freeze is None else freeze.reason,
        retired_at=row.retired_at,
        problem=problem,
    )


def _read(layers: Layer, code: Code | None) -> tuple[Plan | None, str | None]:
    """The plan, and why it cannot be followed here; None where nobody could follow it."""
    try:
        return read_plan(layers, code), None
    except CannotPlan as error:
        problem = str(error)
    told_by_code = {each for each in ("holidays", "workdays") if any(d.startswith(CODE) for d in layers.get(each, ()))}
    try:
        # All but those days can be said without the code.
        return read_plan({field: value for field, value in layers.items() if field not in told_by_code}), problem
    except CannotPlan:
        return None, problem


def _state(row: Schedule, freeze: Freeze | None, *, broken: bool) -> ScheduleState:
    if row.retired_at is not None:
        return "retired"
    if row.paused_at is not None:
        return "paused"
    if broken:
        return "broken"
    if row.next_at is None:
        return "finished"
    return "frozen" if freeze is not None else "active"
